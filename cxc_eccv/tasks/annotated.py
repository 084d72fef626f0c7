"""Annotated: the benchmark that label files make, from the queries for which people judged what models retrieved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from cxc_eccv.hashing import hash_content
from cxc_eccv.judgments.merging import searched_degrees, searched_qrels
from cxc_eccv.sources.library import Split
from cxc_eccv.tasks.task import LABEL_FILES, JudgmentsOf, NotApplicable, Part, Task
from cxc_eccv.types import CROSS_MODAL, Judgments
from cxc_eccv.types.provenance import LabelFileFacts


def _check_names(split: Split) -> tuple[str, ...]:
    """Names of the label files of the split, plain tables aside."""
    searched = [name for name in split.library.label_names if name not in split.library.table_names]
    if not searched:
        raise NotApplicable(
            "there is no label file; pass one that cxc-eccv annotate merge wrote (--labels): a plain table of labels "
            "names the positives of the other tasks"
        )
    names = tuple(name for name in searched if split.labels(name) is not None)
    if not names:
        raise NotApplicable(f"no label file ({', '.join(searched)}) has labels of the {split.name} split")
    return names


def _searched(read: JudgmentsOf, split: Split, direction: str) -> Judgments:
    """The judgments of the queries that somebody searched; NotApplicable if there are none."""
    _check_names(split)
    judgments = read(split, direction)
    if not judgments.query_ids.size:
        raise NotApplicable(
            "the label files' pairs were not taken from models' lists in this direction, so no query was searched"
        )
    return judgments


def _facts(split: Split) -> dict[str, Mapping[str, LabelFileFacts]]:
    files = {name: split.labels(name) for name in _check_names(split)}
    facts = {
        name: replace(file.summary, licence=None, pairs=None, positive=None, sha256=hash_content(file.path))
        for name, file in files.items()
        if file is not None
    }
    return {"label_files": facts}


TASK = Task(
    name="annotated",
    title="Annotated",
    description=(
        "Retrieval between images and captions under the labels of your label files, all of them together. The "
        "queries are those for which people judged what models ranked highest; they rank all captions or images of "
        "the split. Positive is what people verified and what the official sources call positive, as in ECCV Caption. "
        "A verified positive has the gain of its file, above 0 and up to 1, a positive of an official source 1; "
        "graded metrics use the higher one. The task exists when a library has label files."
    ),
    parts=tuple(
        Part(direction, ranks=partial(_searched, searched_qrels), degrees=partial(_searched, searched_degrees))
        for direction in CROSS_MODAL
    ),
    splits=("validation", "test"),
    metrics=("map_at_r", "r_precision", "recall_at_k", "graded_recall_at_k", "graded_r_precision"),
    main_metric="map_at_r",
    citation="Chun et al., ECCV 2022, arXiv:2204.03359, section 3 and equation E.4",
    licence="that of each label file",
    sources=("karpathy",),
    label_sources=(LABEL_FILES,),
    facts=_facts,
)
