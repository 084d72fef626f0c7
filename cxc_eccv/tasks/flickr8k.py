"""Flickr8k: the original links of an official split, and the pairs that people judged."""

from cxc_eccv.judgments.flickr8k import crowd_ratings, expert_ratings, flickr8k_human, flickr8k_verdicts
from cxc_eccv.judgments.merging import original_links
from cxc_eccv.sources.collections.flickr8k import COLLECTION, JUDGED_COLLECTION
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

TASK = Task(
    name="flickr8k",
    title="Flickr8k",
    description=(
        "Retrieval among all images and captions of a Flickr8k split. A caption is positive only for the image it was "
        "written for. An image's id is Flickr's photo number, a caption's ten times that number plus 0 to 4."
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

FLICKR8K_HUMAN = Task(
    name="flickr8k_human",
    title="Flickr8k human",
    description=(
        "Retrieval where a crowd judged the pairs: between the test images of Flickr8k and one caption of each. A "
        "pair is positive if the caption was written for the image or most people said yes, a judged negative if most "
        "said no. bpref, infAP and metrics with judged in their name look at judged pairs only; for the others an "
        "unjudged pair is wrong. Ids are those of flickr8k."
    ),
    parts=tuple(Part(direction, ranks=flickr8k_human, verdicts=flickr8k_verdicts) for direction in CROSS_MODAL),
    splits=("test",),
    metrics=(
        *("map_at_r", "r_precision", "recall_at_k", "bpref", "inf_ap"),
        *("judged_only_map_at_r", "judged_only_recall_at_k", "judged_at_k", "false_negatives_at_k"),
    ),
    main_metric="judged_only_map_at_r",
    citation="Hodosh et al., JAIR 2013",
    licence="research and education use (Flickr8k)",
    sources=("flickr8k",),
    collection=JUDGED_COLLECTION,
)

FLICKR8K_EXPERT = Task(
    name="flickr8k_expert",
    title="Flickr8k expert",
    description=(
        "Correlation of similarities with experts' ratings of image-caption pairs. Three experts rated pairs of "
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
    collection=JUDGED_COLLECTION,
)

FLICKR8K_CROWD = Task(
    name="flickr8k_crowd",
    title="Flickr8k crowd",
    description=(
        "Correlation of similarities with a crowd's votes on image-caption pairs. A pair has the share of yes among "
        "its votes; the pairs are of Flickr8k's test images with captions of other images, as in CLIPScore's "
        "protocol. An image's own captions are left out."
    ),
    parts=(Part("crowd", direction="i2t", rated=lambda split, _: crowd_ratings(split)),),
    splits=("test",),
    metrics=("kendall_tau_b",),
    main_metric="kendall_tau_b",
    citation="Hodosh et al., JAIR 2013; Hessel et al., EMNLP 2021, arXiv:2104.08718",
    licence="research and education use (Flickr8k)",
    sources=("flickr8k",),
    collection=JUDGED_COLLECTION,
)

TASKS = (FLICKR8K_HUMAN, FLICKR8K_EXPERT, FLICKR8K_CROWD)
