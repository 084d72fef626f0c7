"""Verified: the original links, and the pairs that people verified."""

from functools import partial

from cxc_eccv.judgments.merging import merged_qrels
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

LABELS = ("coco", "verified")

TASK = Task(
    name="verified",
    title="Verified",
    description="Image-text retrieval with the original links and the pairs that people verified.",
    parts=tuple(Part(direction, ranks=partial(merged_qrels, sources=LABELS)) for direction in CROSS_MODAL),
    splits=("test",),
    metrics=("recall_at_k",),
    main_metric="recall_at_1",
    citation="Author, venue, year",
    licence="CC BY 4.0",
    sources=("karpathy", "verified"),
    label_sources=LABELS,
)
