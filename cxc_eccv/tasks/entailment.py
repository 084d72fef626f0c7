"""Entailment: how many of the retrieved captions the image with its captions entails."""

from cxc_eccv.judgments.merging import entailment_labels, label_conflicts
from cxc_eccv.tasks.task import Part, Task

TASK = Task(
    name="entailment",
    title="Entailment",
    description=(
        "Share of an image's first captions that are its own or entailed by it and its captions, among all captions "
        "of a COCO Karpathy split. A file of entailment labels decides on the pairs it has. Of the others, those that "
        "Crisscrossed Captions rates 3 or higher or that ECCV Caption verified are entailed. Most retrieved pairs "
        "have no label: every result states the policy for them and the share of labelled pairs."
    ),
    parts=(Part("i2t", labels=lambda split, _: entailment_labels(split)),),
    splits=("validation", "test"),
    metrics=("entail_at_k",),
    main_metric="entail_at_1",
    citation="Yan et al., 2022, arXiv:2208.10126",
    licence="that of the labels: CxC free use, ECCV Caption MIT (NAVER Corp.), entailment labels the user's own",
    sources=("karpathy", "cxc", "eccv_caption"),
    label_sources=("coco", "cxc", "eccv", "entailment"),
    config="entailment",
    facts=label_conflicts,
)
