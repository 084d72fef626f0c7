"""CxC retrieval as the eccv_caption package counts it: rated pairs alone."""

from functools import partial

from cxc_eccv.judgments.qrels import cxc_rated
from cxc_eccv.tasks.task import Task

TASK = Task(
    name="cxc_rated",
    title="CxC rated",
    description=(
        "Image-text retrieval with the pairs rated 3 or higher in Crisscrossed Captions as the only positives, as the "
        "eccv_caption package computes its CxC recall. An original COCO link rated under 3 is not positive; a caption "
        "without a positive is no query."
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
