"""Flickr8k human: retrieval whose false negatives and true negatives people judged."""

from cxc_eccv.judgments.flickr8k import flickr8k_human, flickr8k_verdicts
from cxc_eccv.sources.collections.flickr8k import JUDGED
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

TASK = Task(
    name="flickr8k_human",
    title="Flickr8k human",
    description=(
        "Image-text retrieval between the test images of Flickr8k and one caption of each, with pairs that a crowd "
        "judged. A pair is positive if the caption was written for the image or most people said yes, a judged "
        "negative if most said no. bpref, infAP and metrics with judged in their name look at judged pairs only; for "
        "the others an unjudged pair is wrong. Ids are those of flickr8k."
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
    collection=JUDGED,
)
