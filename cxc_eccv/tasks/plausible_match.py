"""Plausible matches: images of nearly the same object categories, and their captions."""

from functools import partial

from cxc_eccv.judgments.plausible import category_matches
from cxc_eccv.tasks.task import Task

TASK = Task(
    name="plausible_match",
    title="Plausible match",
    description=(
        "Image-text retrieval with plausible matches as positives: the sets of the 80 COCO categories that two images "
        "show differ in at most zeta categories, and a caption has its image's set. The query's own image or captions "
        "count. Images that show no category take no part, nor do their captions."
    ),
    directions={direction: partial(category_matches, direction=direction) for direction in ("i2t", "t2i")},
    splits=("validation", "test"),
    metrics=("pmrp", "pmrp_at_50"),
    main_metric="pmrp",
    citation="Chun et al., CVPR 2021, arXiv:2101.05068; Chun et al., ECCV 2022, arXiv:2204.03359",
    licence="CC BY 4.0 (COCO Consortium)",
    sources=("karpathy", "coco_instances"),
    config="plausible_match",
    serves="plausible_hits",
)
