"""Flickr8k crowd: correlation of similarities with what people said of image-caption pairs."""

from cxc_eccv.judgments.flickr8k import crowd_ratings
from cxc_eccv.sources.collections.flickr8k import JUDGED
from cxc_eccv.tasks.task import Part, Task

TASK = Task(
    name="flickr8k_crowd",
    title="Flickr8k crowd",
    description=(
        "Rank correlation of similarities with a crowd's votes on image-caption pairs: the share of yes of pairs of "
        "Flickr8k's test images with captions of other images, as in CLIPScore's protocol. An image's own captions "
        "are left out."
    ),
    parts=(Part("crowd", direction="i2t", rated=lambda split, _: crowd_ratings(split)),),
    splits=("test",),
    metrics=("kendall_tau_b",),
    main_metric="kendall_tau_b",
    citation="Hodosh et al., JAIR 2013; Hessel et al., EMNLP 2021, arXiv:2104.08718",
    licence="research and education use (Flickr8k)",
    sources=("flickr8k",),
    collection=JUDGED,
)
