"""Flickr8k expert: correlation of similarities with what people said of image-caption pairs."""

from cxc_eccv.judgments.flickr8k import expert_ratings
from cxc_eccv.sources.collections.flickr8k import JUDGED
from cxc_eccv.tasks.task import Part, Task

TASK = Task(
    name="flickr8k_expert",
    title="Flickr8k expert",
    description=(
        "Rank correlation of similarities with expert ratings of image-caption pairs. Three experts rated pairs of "
        "Flickr8k's test images with captions of other images, from 1 (no relation) to 4 (describes the image). Each "
        "rating counts by itself, as in CLIPScore's protocol; an image's own captions are left out."
    ),
    parts=(Part("expert", direction="i2t", rated=lambda split, _: expert_ratings(split)),),
    splits=("test",),
    metrics=("kendall_tau_c",),
    main_metric="kendall_tau_c",
    citation="Hodosh et al., JAIR 2013; Hessel et al., EMNLP 2021, arXiv:2104.08718",
    licence="research and education use (Flickr8k)",
    sources=("flickr8k",),
    collection=JUDGED,
)
