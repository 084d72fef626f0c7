"""Flickr30k, in the splits of Karpathy and Fei-Fei; the id of an image is its photo number at Flickr."""

from cxc_eccv.sources.catalog import RAW_SPLIT, SPLIT_NAMES
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.readers import read_karpathy

COLLECTION = Collection(
    name="flickr30k",
    title="Flickr30k",
    photographs="flickr30k",
    splits={name: split for name, split in SPLIT_NAMES.items() if split != "restval"},
    files=("flickr30k",),
    parts=tuple(f"karpathy_f30k_{raw}" for raw in RAW_SPLIT.values()),
    read=read_karpathy,
    entailment="entailment_f30k",
    mined="mined_flickr30k",
)
