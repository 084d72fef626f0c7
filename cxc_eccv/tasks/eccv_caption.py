"""ECCV Caption: positives that models proposed and people verified."""

from __future__ import annotations

from cxc_eccv.judgments.merging import eccv_caption
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

TASK = Task(
    name="eccv_caption",
    title="ECCV Caption",
    description=(
        "Retrieval of all matches that people verified among pairs that models proposed. The judged images and "
        "captions of the COCO test split are queries and rank all captions and images of the split. Each direction "
        "has separate judgments. Positive captions outside the gallery count towards R."
    ),
    parts=tuple(Part(direction, ranks=eccv_caption) for direction in CROSS_MODAL),
    splits=("test",),
    metrics=("map_at_r", "r_precision", "recall_at_k"),
    main_metric="map_at_r",
    citation="Chun et al., ECCV 2022, arXiv:2204.03359",
    licence="MIT (NAVER Corp.)",
    sources=("karpathy", "eccv_caption"),
    label_sources=("eccv",),
    config="eccv_caption",
)
