"""COCO 5K: the original links of all images and captions of a Karpathy split."""

from functools import partial

from cxc_eccv.judgments.qrels import coco_links
from cxc_eccv.tasks.task import Task

TASK = Task(
    name="coco_5k",
    title="COCO 5K",
    description=(
        "Image-text retrieval on all images and captions of a COCO Karpathy split. "
        "A caption is positive only for the image it was written for."
    ),
    directions={direction: partial(coco_links, direction=direction) for direction in ("i2t", "t2i")},
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank"),
    main_metric="recall_at_1",
    citation="Karpathy and Fei-Fei, CVPR 2015, arXiv:1412.2306; Lin et al., ECCV 2014, arXiv:1405.0312",
    licence="CC BY 4.0 (COCO Consortium)",
    sources=("karpathy",),
    label_sources=("coco",),
    config="captions",
    whole=("rsum",),
)
