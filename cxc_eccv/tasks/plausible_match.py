"""Plausible matches: images with nearly the same object categories, and their captions."""

from cxc_eccv.judgments.plausible import category_matches
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

TASK = Task(
    name="plausible_match",
    title="Plausible match",
    description=(
        "Share of the top items that have nearly the same object categories as the query. Two images match if they "
        "differ in at most zeta of the 80 COCO categories; a caption has the categories of its image. Images without "
        "a category and their captions are left out."
    ),
    parts=tuple(Part(direction, matches=category_matches) for direction in CROSS_MODAL),
    splits=("validation", "test"),
    metrics=("pmrp", "pmrp_at_50"),
    main_metric="pmrp",
    citation="Chun et al., CVPR 2021, arXiv:2101.05068; Chun et al., ECCV 2022, arXiv:2204.03359",
    licence="CC BY 4.0 (COCO Consortium)",
    sources=("karpathy", "coco_instances"),
    config="plausible_match",
)
