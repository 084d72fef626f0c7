"""Flickr8k: the original links of a split of its authors."""

from functools import partial

from cxc_eccv.judgments.qrels import flickr8k_links
from cxc_eccv.tasks.task import FLICKR8K, Task

TASK = Task(
    name="flickr8k",
    title="Flickr8k",
    description=(
        "Image-text retrieval on a Flickr8k split, whose images have five captions each. "
        "Images are named by Flickr's photo number, captions by ten times that number plus their place (0 to 4). A "
        "caption is positive for the image it was written for, and for no other."
    ),
    directions={direction: partial(flickr8k_links, direction=direction) for direction in ("i2t", "t2i")},
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank"),
    main_metric="rsum",
    citation="Hodosh et al., JAIR 2013",
    licence="research and education use (Flickr8k)",
    sources=("flickr8k",),
    whole=("rsum",),
    collection=FLICKR8K,
)
