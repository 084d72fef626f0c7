"""Flickr8k: the original links of an official split."""

from cxc_eccv.judgments.qrels import original_links
from cxc_eccv.sources.collections.flickr8k import COLLECTION
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

TASK = Task(
    name="flickr8k",
    title="Flickr8k",
    description=(
        "Image-text retrieval on all images and captions of a Flickr8k split. A caption is positive only for the image "
        "it was written for. An image's id is Flickr's photo number, a caption's ten times that number plus 0 to 4."
    ),
    parts=tuple(Part(direction, ranks=original_links) for direction in CROSS_MODAL),
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank", "rsum"),
    main_metric="rsum",
    citation="Hodosh et al., JAIR 2013",
    licence="research and education use (Flickr8k)",
    sources=("flickr8k",),
    collection=COLLECTION,
)
