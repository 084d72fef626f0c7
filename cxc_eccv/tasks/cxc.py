"""CxC retrieval: original links and rated positives together, within and across modalities."""

from __future__ import annotations

from functools import partial

from cxc_eccv.judgments.qrels import merged_qrels
from cxc_eccv.tasks.task import Task

__all__ = ["TASK"]

TASK = Task(
    name="cxc",
    description=(
        "Retrieval with the positives of the Crisscrossed Captions paper: the original COCO links together with the "
        "pairs that annotators rated similar (caption pairs and image-caption pairs from 3, image pairs from 2.5 of "
        "5). Within one modality the query is left out of its gallery; queries without a positive are left out."
    ),
    directions={direction: partial(merged_qrels, direction=direction) for direction in ("i2t", "t2i", "t2t", "i2i")},
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank"),
    main_metric="recall_at_1",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020",
    licence="free use for any purpose; acknowledgement of Google LLC is appreciated",
)
