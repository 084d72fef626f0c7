"""COCO 5K: the original links of all images and captions of a Karpathy split."""

from cxc_eccv.judgments.merging import coco_links
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

TASK = Task(
    name="coco_5k",
    title="COCO 5K",
    description=(
        "Retrieval among all images and captions of a COCO Karpathy split. A caption is positive only for the image "
        "it was written for."
    ),
    parts=tuple(Part(direction, ranks=coco_links) for direction in CROSS_MODAL),
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank", "rsum"),
    main_metric="recall_at_1",
    citation="Karpathy and Fei-Fei, CVPR 2015, arXiv:1412.2306; Lin et al., ECCV 2014, arXiv:1405.0312",
    licence="CC BY 4.0 (COCO Consortium)",
    sources=("karpathy",),
    label_sources=("coco",),
    config="captions",
)
