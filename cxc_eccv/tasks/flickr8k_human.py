"""Flickr8k human: retrieval whose false negatives and true negatives people judged."""

from functools import partial

from cxc_eccv.judgments.flickr8k import flickr8k_human, flickr8k_verdicts
from cxc_eccv.tasks.task import FLICKR8K_JUDGED, Task

TASK = Task(
    name="flickr8k_human",
    title="Flickr8k human",
    description=(
        "Image-text retrieval between the 1,000 test images of Flickr8k and one caption of each, of which a crowd was "
        "asked about 47,830 pairs. A pair is positive where the caption was written for the image or most people said "
        "yes, a judged negative where most said no, and unjudged otherwise. Images are named by Flickr's photo number, "
        "captions by ten times that number plus their place (0 to 4). Metrics with judged in their name, bpref and "
        "infAP look at judged pairs alone; the others count an unjudged pair as wrong."
    ),
    directions={direction: partial(flickr8k_human, direction=direction) for direction in ("i2t", "t2i")},
    verdicts={direction: partial(flickr8k_verdicts, direction=direction) for direction in ("i2t", "t2i")},
    splits=("test",),
    metrics=(
        *("map_at_r", "r_precision", "recall_at_k", "bpref", "inf_ap"),
        *("judged_only_map_at_r", "judged_only_recall_at_k", "judged_at_k", "false_negatives_at_k"),
    ),
    main_metric="judged_only_map_at_r",
    citation="Hodosh et al., JAIR 2013",
    licence="research and education use (Flickr8k)",
    sources=("flickr8k",),
    collection=FLICKR8K_JUDGED,
)
