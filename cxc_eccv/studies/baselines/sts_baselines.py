"""Baselines without training for the similarity of sentences: bags of words and averaged word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cxc_eccv.cli.demo import TfIdf, words
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.sts import FittedPerTask, StsReport, evaluate_sts, task_names, task_texts
from cxc_eccv.studies.baselines.untrained.word_vectors import AveragedVectors, read_word_vectors

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
