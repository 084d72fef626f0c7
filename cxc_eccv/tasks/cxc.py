"""CxC: retrieval within and across modalities, and correlation with the human ratings."""

from functools import partial

from cxc_eccv.judgments.qrels import cxc_ratings, merged_qrels, rated_pairs
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import DIRECTIONS

TASK = Task(
    name="cxc",
    title="CxC",
    description=(
        "Retrieval with the positives of the Crisscrossed Captions paper: the original COCO links together with the "
        "pairs that annotators rated similar (caption pairs and image-caption pairs from 3, image pairs from 2.5 of "
        "5). Within one modality the query is left out of its gallery; queries without a positive are left out. And "
        "rank correlation of similarities with the ratings themselves: caption pairs (sts, captions as queries), image "
        "pairs (sis) and image-caption pairs (sits, images as queries), each pair in both orders within a modality."
    ),
    directions={direction: partial(merged_qrels, direction=direction) for direction in DIRECTIONS},
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank", "bootstrap_spearman"),
    main_metric="recall_at_1",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020",
    licence="free use for any purpose; acknowledgement of Google LLC is appreciated",
    sources=("karpathy", "cxc"),
    label_sources=("coco", "cxc"),
    config="retrieval",
    graded={direction: partial(cxc_ratings, direction=direction) for direction in DIRECTIONS},
    rated={kind: partial(rated_pairs, kind=kind) for kind in ("sts", "sis", "sits")},
)
