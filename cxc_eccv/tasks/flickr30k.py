"""Flickr30k: the original links of a Karpathy split, and how many retrieved captions an image entails."""

from cxc_eccv.judgments.merging import flickr30k_entailment_labels, flickr30k_label_conflicts, original_links
from cxc_eccv.sources.collections.flickr30k import COLLECTION
from cxc_eccv.tasks.task import Part, Task
from cxc_eccv.types import CROSS_MODAL

TASK = Task(
    name="flickr30k",
    title="Flickr30k",
    description=(
        "Retrieval among all images and captions of a Flickr30k Karpathy split. A caption is positive only for the "
        "image it was written for. An image's id is Flickr's photo number, a caption's its sentid."
    ),
    parts=tuple(Part(direction, ranks=original_links) for direction in CROSS_MODAL),
    splits=("validation", "test"),
    metrics=("recall_at_k", "median_rank", "rsum"),
    main_metric="rsum",
    citation="Young et al., TACL 2014; Karpathy and Fei-Fei, CVPR 2015, arXiv:1412.2306",
    licence="research and education use (Flickr30k)",
    sources=("flickr30k",),
    collection=COLLECTION,
)

FLICKR30K_ENTAILMENT = Task(
    name="flickr30k_entailment",
    title="Flickr30k entailment",
    description=(
        "Share of an image's first captions that are its own or entailed by it and its captions, among all captions "
        "of a Flickr30k Karpathy split. Pairs other than the original ones have labels only in a file of entailment "
        "labels. Every result states the policy for unlabelled pairs and the share of labelled pairs."
    ),
    parts=(Part("i2t", labels=lambda split, _: flickr30k_entailment_labels(split)),),
    splits=("validation", "test"),
    metrics=("entail_at_k",),
    main_metric="entail_at_1",
    citation="Yan et al., 2022, arXiv:2208.10126",
    licence="research and education use (Flickr30k); entailment labels the user's own",
    sources=("flickr30k",),
    collection=COLLECTION,
    facts=flickr30k_label_conflicts,
)

TASKS = (FLICKR30K_ENTAILMENT,)
