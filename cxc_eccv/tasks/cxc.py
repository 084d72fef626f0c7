"""CxC: retrieval within and across modalities, correlation with the ratings; and as eccv_caption counts it."""

from functools import partial

from cxc_eccv.judgments.qrels import cxc_rated, cxc_ratings, merged_qrels, rated_pairs
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import DIRECTIONS

TASK = Task(
    name="cxc",
    title="CxC",
    description=(
        "Retrieval with the positives of the Crisscrossed Captions paper: the original COCO links and the pairs that "
        "annotators rated similar (from 3 of 5; image pairs from 2.5). Within one modality a query is not in its own "
        "gallery; queries without a positive are left out. And rank correlation of similarities with the ratings: "
        "caption pairs (sts, captions as queries), image pairs (sis) and image-caption pairs (sits, images as "
        "queries); sts and sis take each pair in both orders."
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

RATED = Task(
    name="cxc_rated",
    title="CxC rated",
    description=(
        "Image-text retrieval with the pairs rated 3 or higher in Crisscrossed Captions as the only positives, as in "
        "the CxC recall of the eccv_caption package. An original COCO link rated below 3 is not a positive; captions "
        "without a positive are left out."
    ),
    directions={direction: partial(cxc_rated, direction=direction) for direction in ("i2t", "t2i")},
    splits=("validation", "test"),
    metrics=("recall_at_k",),
    main_metric="recall_at_1",
    citation="Chun et al., ECCV 2022, arXiv:2204.03359; Parekh et al., EACL 2021, arXiv:2004.15020",
    licence="free use for any purpose; acknowledgement of Google LLC is appreciated",
    sources=("karpathy", "cxc"),
    label_sources=("cxc",),
    config="sits",
)

TASKS = (RATED,)
