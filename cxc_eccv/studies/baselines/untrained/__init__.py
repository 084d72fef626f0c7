"""Baselines without training: one ``BASELINE`` per file, named after the file; and bags of words for sentences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.types import Report

if TYPE_CHECKING:
    from cxc_eccv.sts import StsReport


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of baselines; each is an option of ``cxc-eccv baseline``."""

    vectors: Path | None = None
    features: Path | None = None
    model: str | None = None
    images: Path | None = None
    central_crop: float | None = None
    seed: int | None = None
    collection: str | None = None
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """A model that needs no training, named after its file; ``summary`` is a sentence for the command line.

    ``run`` takes a split and inputs, and returns a report and its run, or None; it accepts the inputs in
    ``takes`` only.
    """

    name: str
    summary: str
    run: Callable[[Split, Inputs], tuple[Report, Run | None]]
    takes: tuple[str, ...] = ()

    def __call__(self, split: Split, inputs: Inputs) -> tuple[Report, Run | None]:
        """Score the baseline; InvalidOption for an input that it does not read."""
        for field in fields(inputs):
            if getattr(inputs, field.name) is not None and field.name not in self.takes:
                option, *takes = (f"--{name.replace('_', '-')}" for name in (field.name, *self.takes))
                advice = ", ".join(takes) or "no such options"
                raise InvalidOption(f"the baseline {self.name} does not take {option}; it takes {advice}")
        return self.run(split, inputs)


@cache
def baselines() -> Mapping[str, Baseline]:
    """Every declared baseline by name."""
    return find_declared(sys.modules[__name__], "BASELINE", Baseline)


def baseline_named(name: str) -> Baseline:
    """The baseline of this name; UnknownName suggests the nearest."""
    if name not in baselines():
        raise UnknownName("baseline", name, baselines())
    return baselines()[name]


STS_BASELINES = ("bow", "word_vectors")


def evaluate_baseline(
    name: str, library: Library, tasks: Sequence[str] | None = None, *, vectors: Path | None = None
) -> StsReport:
    """Correlations of a bag of words with human scores; TF-IDF is fitted on each task's sentences."""
    if name not in STS_BASELINES:
        raise UnknownName("baseline for sentences", name, STS_BASELINES)
    if (vectors is None) == (name == "word_vectors"):
        advice = "needs --vectors FILE, for example GloVe's glove.840B.300d.txt"
        raise InvalidOption(f"the baseline {name} {advice if vectors is None else 'reads no vectors'}")
    from cxc_eccv.demo import TfIdf, words
    from cxc_eccv.sts import FittedPerTask, evaluate_sts, task_names, task_texts
    from cxc_eccv.studies.baselines.untrained.word_vectors import AveragedVectors, read_word_vectors

    wanted = task_names(tasks)
    if vectors is None:
        return evaluate_sts(
            FittedPerTask(TfIdf.fit),
            library,
            wanted,
            model="TF-IDF bag of words",
            classifier=False,
            fitted_on="the distinct sentences of each task, without their scores: vocabulary and document frequencies",
        )
    asked = {word for task in wanted for text in task_texts(library, task) for word in words(text)}
    by_word = read_word_vectors(vectors, asked)
    return evaluate_sts(
        AveragedVectors(by_word),
        library,
        wanted,
        model=f"averaged word vectors of {vectors.name}",
        fitted_on=f"nothing; {len(by_word):,} of the {len(asked):,} words of the sentences have a vector",
    )
