"""RoCOCO: images rank their captions among 25,000 altered ones, which a sound ranker never puts first."""

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
    """Which originals are positives."""

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
        rule="The originals that were written for an image are its positives.",
        groups=("karpathy",),
        sources=("coco",),
    ),
    _Labels(
        suffix="_cxc",
        title=", CxC",
        judgments=lambda library: merged_qrels(library, "test", "i2t"),
        rule="Positives are those of the task cxc, so that an original that CxC rated to match is no error.",
        groups=("karpathy", "cxc"),
        sources=("coco", "cxc"),
        citation="; Parekh et al., EACL 2021, arXiv:2004.15020",
    ),
    _Labels(
        suffix="_eccv",
        title=", ECCV Caption",
        judgments=lambda library: eccv_caption(library, "i2t"),
        rule=(
            "Queries and positives are those of the task eccv_caption, so that an original that people verified to "
            "match is no error."
        ),
        groups=("karpathy", "eccv_caption"),
        sources=("eccv",),
        citation="; Chun et al., ECCV 2022, arXiv:2204.03359",
    ),
)


def _judgments(library: Library, _split: str, *, kind: str, labels: _Labels) -> Judgments:
    return beside_altered(labels.judgments(library), kind)


def _task(kind: str, labels: _Labels) -> Task:
    # False rate is about altered captions alone: other positives do not change it.
    own = ("false_rate",) if not labels.suffix else ()
    return Task(
        name=f"rococo_{kind}{labels.suffix}",
        title=f"RoCOCO {kind.replace('_', ' ')}{labels.title}",
        description=(
            "Image-to-text retrieval among all captions of the COCO test split and as many altered ones, in each of "
            f"which {CHANGE[kind]} stands in place of another word; none of these is ever a positive. {labels.rule} "
            "Recall drop is what the altered captions cost. A run brings their vectors along: "
            f"rococo_{kind}_ids and rococo_{kind}_embeddings."
        ),
        directions={"i2t": partial(_judgments, kind=kind, labels=labels)},
        splits=("test",),
        metrics=("recall_at_k", *own, "recall_drop_at_k"),
        main_metric="recall_at_1",
        citation=f"Park et al., 2023, arXiv:2304.10727{labels.citation}",
        licence="MIT (RoCOCO); CC BY 4.0 (COCO Consortium)",
        sources=labels.groups,
        label_sources=labels.sources,
        config="" if labels.suffix else "rococo",  # no one config has both these positives and the altered captions
        altered=kind,
    )


TASKS = tuple(_task(kind, labels) for kind in ALTERATIONS for labels in LABELS)
