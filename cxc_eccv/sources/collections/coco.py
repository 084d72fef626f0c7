"""COCO, in the splits of Karpathy and Fei-Fei."""

from cxc_eccv.sources.catalog import RAW_SPLIT, SPLIT_NAMES
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.readers import read_karpathy

COLLECTION = Collection(
    name="coco",
    title="COCO",
    photographs="coco",
    splits=SPLIT_NAMES,
    files=("karpathy_coco",),
    parts=tuple(f"karpathy_{raw}" for raw in RAW_SPLIT.values()),
    read=read_karpathy,
    entailment="entailment",
    mined="mined",
    is_default=True,
)
