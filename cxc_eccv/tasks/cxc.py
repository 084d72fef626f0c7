"""CxC: retrieval within and across modalities, correlation with the ratings, and the CxC recall of eccv_caption."""

from cxc_eccv.judgments.evidence.source import RATING_KIND
from cxc_eccv.judgments.merging import cxc_rated, cxc_ratings, merged_qrels, rated_pairs
from cxc_eccv.sources.library import Split
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS, RatedPairs

HALF_POINTS = tuple(half / 2 for half in range(11))
"""Ends of the ranges of ratings, from 0 to 5."""


def _read_rated(split: Split, direction: str) -> RatedPairs:
    return rated_pairs(split, RATING_KIND[direction])


TASK = Task(
    name="cxc",
    title="CxC",
    description=(
        "Retrieval within and across images and captions, and correlation with human ratings. Positives are the "
        "original COCO links and the pairs that annotators rated similar (from 3 of 5; image pairs from 2.5). Within "
        "one modality a query is not in its own gallery; queries without a positive are left out. Similarities are "
        "correlated with the ratings of caption pairs (sts, captions as queries), image pairs (sis) and image-caption "
        "pairs (sits, images as queries); sts and sis take each pair in both orders."
    ),
    parts=(
        *(Part(direction, ranks=merged_qrels, ratings=cxc_ratings) for direction in DIRECTIONS),
        Part("sts", direction="t2t", rated=_read_rated, rating_edges=HALF_POINTS),
        Part("sis", direction="i2i", rated=_read_rated, rating_edges=HALF_POINTS),
        Part("sits", direction="i2t", rated=_read_rated, rating_edges=HALF_POINTS),
    ),
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank", "bootstrap_spearman"),
    main_metric="recall_at_1",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020",
    licence="free use for any purpose; acknowledgement of Google LLC is appreciated",
    sources=("karpathy", "cxc"),
    label_sources=("coco", "cxc"),
    config="retrieval",
)

CXC_RATED = Task(
    name="cxc_rated",
    title="CxC rated",
    description=(
        "Retrieval of pairs rated 3 or higher in Crisscrossed Captions, the only positives. An original COCO link "
        "rated below 3 is not a positive; captions without a positive are left out. It is the CxC recall of the "
        "eccv_caption package."
    ),
    parts=tuple(Part(direction, ranks=cxc_rated) for direction in CROSS_MODAL),
    splits=("validation", "test"),
    metrics=("recall_at_k",),
    main_metric="recall_at_1",
    citation="Chun et al., ECCV 2022, arXiv:2204.03359; Parekh et al., EACL 2021, arXiv:2004.15020",
    licence="free use for any purpose; acknowledgement of Google LLC is appreciated",
    sources=("karpathy", "cxc"),
    label_sources=("cxc",),
    config="sits",
)

TASKS = (CXC_RATED,)
