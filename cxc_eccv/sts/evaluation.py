"""From a text encoder to correlations on every STS task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.evaluation.report import provenance_of
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import SentencePairs
from cxc_eccv.sts.correlation import correlate, cosines
from cxc_eccv.sts.relatedness import GradeClassifier, pair_features
from cxc_eccv.sts.results import Row, StsReport
from cxc_eccv.sts.tasks import SUBTASKS, subtask_pairs, supervised_pairs, task_names, task_texts
from cxc_eccv.types import Embeddings, FloatArray

__all__ = ["Encoder", "FittedPerTask", "evaluate_sts"]

Encoder = Callable[[Sequence[str]], NDArray[np.float32]]
"""N texts to (N, D) vectors."""


@dataclass(frozen=True, slots=True)
class FittedPerTask:
    """A text encoder that has to be fitted first: on the distinct sentences of each task, without their scores.

    So a task's figures do not depend on the tasks asked for beside it.

    Attributes:
        fit: sentences to an encoder.
    """

    fit: Callable[[Sequence[str]], Encoder]


GRADES = {"stsb": (0, 5), "sick": (1, 5)}


def evaluate_sts(
    encoder: Encoder | FittedPerTask,
    library: Library,
    tasks: Iterable[str] | None = None,
    *,
    model: str = "a text encoder",
    confidence: float = 0.95,
    classifier: bool = True,
    fitted_on: str | None = None,
) -> StsReport:
    """Correlate a text encoder's similarities with human scores.

    STS 2012-2016: Pearson between the cosine and the score, by subtask. ``mean`` and ``weighted_mean`` (by pairs)
    average the subtasks' correlations; ``all`` is one correlation over the pairs of all subtasks, which is what most
    papers after SentEval print. STS Benchmark and SICK: the cosine on the test part, and a classifier on top of the
    frozen vectors, as SentEval has it.

    Args:
        encoder: texts to vectors, or what gives one for the sentences of a task.
        library: the raw sources.
        tasks: ``sts2012`` to ``sts2016``, ``stsb``, ``sick``; None for all.
        model: its name in the report.
        confidence: of the intervals.
        classifier: train the classifiers of the STS Benchmark and SICK; else their cosines alone.
        fitted_on: what vocabulary and weights of the encoder come from, for the report.

    Raises:
        UnknownName: no such task.
        DataError: a raw file is missing or malformed.
        MalformedRun: vectors of another number, not finite, too small for float32 or zero, or all similarities equal.
    """
    found: dict[str, list[Row]] = {}
    for task in task_names(tasks):
        own = encoder.fit(task_texts(library, task)) if isinstance(encoder, FittedPerTask) else encoder
        found[task] = (
            _by_subtask(own, library, task, confidence)
            if task in SUBTASKS
            else _supervised(own, library, task, confidence, classifier)
        )
    years = [row for task in SUBTASKS if task in found for row in found[task] if row.name in SUBTASKS[task]]
    if set(SUBTASKS) <= set(found):
        found["sts"] = _means(years)
    fitted = {} if fitted_on is None else {"fitted_on": fitted_on}
    return StsReport(found, provenance_of(library, model=model, confidence=confidence, **fitted))


def _by_subtask(encoder: Encoder, library: Library, task: str, confidence: float) -> list[Row]:
    rows, predicted, scores = [], [], []
    for subtask in SUBTASKS[task]:
        pairs = subtask_pairs(library, task, subtask)
        left, right = _encoded(encoder, pairs)
        predicted.append(cosines(left, right))
        scores.append(pairs.scores)
        rows.append(Row.of(subtask, correlate(predicted[-1], scores[-1], confidence), pairs.unscored))
    together = correlate(np.concatenate(predicted), np.concatenate(scores), confidence)
    return [*rows, *_means(rows), Row.of("all", together, sum(row.unscored for row in rows))]


def _means(rows: Sequence[Row]) -> list[Row]:
    counts = np.array([row.pairs for row in rows], dtype=np.float64)
    unscored = sum(row.unscored for row in rows)

    def averaged(name: str, weights: FloatArray) -> Row:
        pearson, spearman = (
            float(np.average([getattr(row, kind) for row in rows], weights=weights)) for kind in ("pearson", "spearman")
        )
        return Row(name, pearson, spearman, int(counts.sum()), unscored=unscored)

    return [averaged("mean", np.ones(len(rows))), averaged("weighted_mean", counts)]


def _supervised(encoder: Encoder, library: Library, task: str, confidence: float, classifier: bool) -> list[Row]:
    train, dev, test = supervised_pairs(library, task)
    tested = _encoded(encoder, test)
    rows = [Row.of("cosine", correlate(cosines(*tested), test.scores, confidence))]
    if classifier:
        learnt, selecting = ((pair_features(*_encoded(encoder, part)), part.scores) for part in (train, dev))
        model = GradeClassifier.fit(learnt, selecting, *GRADES[task])
        predicted = model.predict(pair_features(*tested))
        rows.append(Row.of("classifier", correlate(predicted, test.scores, confidence)))
    return rows


def _encoded(encoder: Encoder, pairs: SentencePairs) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    texts = pairs.left + pairs.right
    # Sentences recur; one vector each keeps equal texts equal.
    places: Mapping[str, int] = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    given = np.asarray(encoder(list(places)))
    if given.ndim != 2 or len(given) != len(places) or not np.isfinite(given).all():
        raise MalformedRun(f"the encoder gave {given.shape} for {len(places)} texts; expected finite (N, D) vectors")
    vectors = Embeddings(np.arange(len(places)), given).vectors
    nowhere = np.flatnonzero(~vectors.any(axis=1))
    if nowhere.size:
        first = list(places)[nowhere[0]]
        raise MalformedRun(
            f"the encoder gave {nowhere.size} of {len(places)} texts the zero vector, which has no direction and so no "
            f"cosine, the first: {first!r:.80}"
        )
    rows = vectors[[places[text] for text in texts]]
    return rows[: len(pairs.left)], rows[len(pairs.left) :]
