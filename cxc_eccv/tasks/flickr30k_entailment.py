"""Flickr30k entailment: which retrieved captions a Flickr30k image with its captions entails."""

from cxc_eccv.judgments.qrels import flickr30k_entailment_labels, flickr30k_label_conflicts
from cxc_eccv.tasks.task import FLICKR30K, Task

TASK = Task(
    name="flickr30k_entailment",
    title="Flickr30k entailment",
    description=(
        "Image-to-text retrieval on all images and captions of a Flickr30k Karpathy split, scored by how many of the "
        "top captions are ground truth or entailed by the image with its captions. Of other pairs than the original "
        "ones, only a file of entailment labels says whether they are entailed; without one, none is labelled. The "
        "policy for pairs without a label and the share of labelled pairs stand in every result."
    ),
    directions={"i2t": flickr30k_entailment_labels},
    splits=("validation", "test"),
    metrics=("entail_at_k",),
    main_metric="entail_at_1",
    citation="Yan et al., 2022, arXiv:2208.10126",
    licence="research and education use (Flickr30k); entailment labels the user's own",
    sources=("flickr30k",),
    serves="top_k",
    gains="labels",
    collection=FLICKR30K,
    facts=flickr30k_label_conflicts,
)
