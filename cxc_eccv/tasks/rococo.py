"""RoCOCO: images rank the captions of the test split among as many altered captions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cxc_eccv.judgments.qrels import coco_links, eccv_caption, merged_qrels
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import Judgments
from cxc_eccv.types.altered import ALTERATIONS, beside_altered

CHANGE = {
    "same_concept": "a word of the same concept",
    "diff_concept": "a word of another concept",
    "rand_voca": "a random word of the vocabulary",
    "danger": "a dangerous word",
}


@dataclass(frozen=True, slots=True)
class _Labels:
    """The labels that say which original captions are positives."""

    suffix: str
    title: str
    judgments: Callable[[Library], Judgments]
    rule: str
    groups: tuple[str, ...]
    sources: tuple[str, ...]
    citation: str = ""


LABELS = (
    _Labels(
        suffix="",
        title="",
        judgments=lambda library: coco_links(library, "test", "i2t"),
        rule="The original captions of an image are its positives.",
        groups=("karpathy",),
        sources=("coco",),
    ),
    _Labels(
        suffix="_cxc",
        title=", CxC",
        judgments=lambda library: merged_qrels(library, "test", "i2t"),
        rule="The positives are those of the task cxc.",
        groups=("karpathy", "cxc"),
        sources=("coco", "cxc"),
        citation="; Parekh et al., EACL 2021, arXiv:2004.15020",
    ),
    _Labels(
        suffix="_eccv",
        title=", ECCV Caption",
        judgments=lambda library: eccv_caption(library, "i2t"),
        rule="Queries and positives are those of the task eccv_caption.",
        groups=("karpathy", "eccv_caption"),
        sources=("eccv",),
        citation="; Chun et al., ECCV 2022, arXiv:2204.03359",
    ),
)


def _judgments(library: Library, _split: str, *, kind: str, labels: _Labels) -> Judgments:
    return beside_altered(labels.judgments(library), kind)


def _task(kind: str, labels: _Labels) -> Task:
    false_rate = () if labels.suffix else ("false_rate",)  # it does not depend on the positives
    return Task(
        name=f"rococo_{kind}{labels.suffix}",
        title=f"RoCOCO {kind.replace('_', ' ')}{labels.title}",
        description=(
            "Image-to-text retrieval among all captions of the COCO test split and as many altered ones. In each "
            f"altered caption {CHANGE[kind]} replaces another word; it is never a positive. {labels.rule} Recall drop "
            "is the recall that the altered captions cost. The run must have their vectors: "
            f"rococo_{kind}_ids and rococo_{kind}_embeddings."
        ),
        directions={"i2t": partial(_judgments, kind=kind, labels=labels)},
        splits=("test",),
        metrics=("recall_at_k", *false_rate, "recall_drop_at_k"),
        main_metric="recall_at_1",
        citation=f"Park et al., 2023, arXiv:2304.10727{labels.citation}",
        licence="MIT (RoCOCO); CC BY 4.0 (COCO Consortium)",
        sources=labels.groups,
        label_sources=labels.sources,
        config="" if labels.suffix else "rococo",  # no config has both these positives and the altered captions
        altered=kind,
    )


TASKS = tuple(_task(kind, labels) for kind in ALTERATIONS for labels in LABELS)
