"""Evaluates a text encoder on the tasks of sentence similarity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import SentencePairs
from cxc_eccv.sts.classifiers import CrossEntropyClassifier, SentEvalClassifier, Vectors
from cxc_eccv.sts.correlations import Row, correlate, cosines, pair_features
from cxc_eccv.sts.sentence_sets import SUBTASKS, subtask_pairs, supervised_pairs, task_names, task_texts
from cxc_eccv.sts.sts_report import StsReport
from cxc_eccv.types import Embeddings
from cxc_eccv.types.provenance import Provenance

Encoder = Callable[[Sequence[str]], Vectors]  # N texts to (N, D) vectors

GRADES = {"stsb": (0, 5), "sick": (1, 5)}  # Task with a classifier to its lowest and highest grade


@dataclass(frozen=True, slots=True)
class FittedPerTask:
    """A text encoder that is fitted to the distinct sentences of each task, without their scores."""

    fit: Callable[[Sequence[str]], Encoder]


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

    STS 2012-2016: Pearson correlation of cosines and scores by subtask. ``mean`` and ``weighted_mean`` (by pairs)
    average the subtasks; ``all`` is one correlation over the pairs of all subtasks, which most papers after SentEval
    report. STS Benchmark and SICK: cosines on the test part, and a classifier on the frozen vectors, as in SentEval.

    Args:
        encoder: maps texts to vectors, or returns such an encoder for the sentences of a task.
        library: the raw sources.
        tasks: ``sts2012`` to ``sts2016``, ``stsb``, ``sick``; None for all.
        model: name in the report.
        confidence: confidence level of the intervals.
        classifier: whether to train classifiers for the STS Benchmark and SICK, beside their cosines.
        fitted_on: the source of the encoder's vocabulary and weights, for the report.

    Raises:
        UnknownName: a task is unknown.
        DataError: a raw file is missing or malformed.
        InvalidOption: the encoder is a character GRU that was trained on nothing but COCO's captions as tokens.
        MalformedRun: vectors are not one per text, not finite, too small for float32 or zero; or all similarities are
            equal.
    """
    if hasattr(encoder, "require_sentences"):  # a model of this package, which may know COCO's tokens alone
        encoder.require_sentences()
    rows: dict[str, list[Row]] = {}
    for task in task_names(tasks):
        fitted_encoder = encoder.fit(task_texts(library, task)) if isinstance(encoder, FittedPerTask) else encoder
        if task in SUBTASKS:
            rows[task] = _evaluate_subtasks(fitted_encoder, library, task, confidence)
        else:
            rows[task] = _evaluate_test_part(fitted_encoder, library, task, confidence, classifier)
    if set(SUBTASKS) <= set(rows):
        of_subtasks: list[Row] = []
        for task, subtasks in SUBTASKS.items():
            of_subtasks += [row for row in rows[task] if row.name in subtasks]
        rows["sts"] = _means(of_subtasks)
    fitted = {} if fitted_on is None else {"fitted_on": fitted_on}
    facts = Provenance(model=model, confidence=confidence, others=fitted)
    return StsReport(rows, make_provenance(library, facts=facts))


def _evaluate_subtasks(encoder: Encoder, library: Library, task: str, confidence: float) -> list[Row]:
    rows = []
    predicted = []
    scores = []
    for subtask in SUBTASKS[task]:
        pairs = subtask_pairs(library, task, subtask)
        predicted.append(cosines(*_encode(encoder, pairs)))
        scores.append(pairs.scores)
        rows.append(correlate(subtask, predicted[-1], scores[-1], confidence, pairs.unscored))
    unscored = sum(row.unscored for row in rows)
    together = correlate("all", np.concatenate(predicted), np.concatenate(scores), confidence, unscored)
    return [*rows, *_means(rows), together]


def _means(rows: Sequence[Row]) -> list[Row]:
    sizes = [row.pairs for row in rows]
    unscored = sum(row.unscored for row in rows)
    pearson = [row.pearson for row in rows]
    spearman = [row.spearman for row in rows]
    means = []
    for name, weights in (("mean", None), ("weighted_mean", sizes)):
        mean_pearson = float(np.average(pearson, weights=weights))
        mean_spearman = float(np.average(spearman, weights=weights))
        means.append(Row(name, mean_pearson, mean_spearman, sum(sizes), unscored=unscored))
    return means


def _evaluate_test_part(
    encoder: Encoder, library: Library, task: str, confidence: float, classifier: bool
) -> list[Row]:
    train, dev, test = supervised_pairs(library, task)
    tested = _encode(encoder, test)
    rows = [correlate("cosine", cosines(*tested), test.scores, confidence)]
    if classifier:
        learnt, selecting = ((pair_features(*_encode(encoder, part)), part.scores) for part in (train, dev))
        models: Mapping[str, SentEvalClassifier | CrossEntropyClassifier] = {
            "classifier": SentEvalClassifier.fit(learnt, selecting),
            "cross_entropy_classifier": CrossEntropyClassifier.fit(learnt, selecting, *GRADES[task]),
        }
        features = pair_features(*tested)
        rows += [correlate(name, model.predict(features), test.scores, confidence) for name, model in models.items()]
    return rows


def _encode(encoder: Encoder, pairs: SentencePairs) -> tuple[Vectors, Vectors]:
    texts = pairs.left + pairs.right
    # Each distinct text is encoded once, so that equal texts have equal vectors.
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    encoded = encoder(list(places))
    try:
        vectors = Embeddings(np.arange(len(places)), encoded).vectors
    except MalformedRun as error:
        reason = str(error).removeprefix("embeddings, vectors: ")
        raise MalformedRun(f"the encoder's vectors of {len(places)} texts, whose ids count from 0: {reason}") from None
    zero = np.flatnonzero(~vectors.any(axis=1))
    if zero.size:
        first = list(places)[zero[0]]
        raise MalformedRun(
            f"the encoder returned the zero vector, which has no cosine, for {zero.size} of {len(places)} texts, the "
            f"first: {first!r:.80}"
        )
    rows = vectors[[places[text] for text in texts]]
    return rows[: len(pairs.left)], rows[len(pairs.left) :]
