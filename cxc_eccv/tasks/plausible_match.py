"""Plausible matches: images with nearly the same object categories, and their captions."""

from functools import partial

from cxc_eccv.judgments.plausible import category_matches
from cxc_eccv.tasks.task import Task

TASK = Task(
    name="plausible_match",
    title="Plausible match",
    description=(
        "Image-text retrieval with images of nearly the same object categories, and their captions, as positives. Two "
        "images match if they differ in at most zeta of the 80 COCO categories; a caption has the categories of its "
        "image. Images without a category and their captions are left out."
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
