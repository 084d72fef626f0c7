"""Flickr30k: the original links of a Karpathy split."""

from functools import partial

from cxc_eccv.judgments.qrels import flickr30k_links
from cxc_eccv.tasks.task import FLICKR30K, Task

TASK = Task(
    name="flickr30k",
    title="Flickr30k",
    description=(
        "Image-text retrieval on all images and captions of a Flickr30k Karpathy split. Images are named by Flickr's "
        "photo number, captions by their sentid. A caption is positive for the image it was written for, and for no "
        "other."
    ),
    directions={direction: partial(flickr30k_links, direction=direction) for direction in ("i2t", "t2i")},
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank"),
    main_metric="rsum",
    citation="Young et al., TACL 2014; Karpathy and Fei-Fei, CVPR 2015, arXiv:1412.2306",
    licence="research and education use (Flickr30k)",
    sources=("flickr30k",),
    whole=("rsum",),
    collection=FLICKR30K,
)
