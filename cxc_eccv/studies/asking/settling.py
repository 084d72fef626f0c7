"""Turn answers into labels: one gain for every judged pair, by a rule.

Under all rules except ``mean``, the gain is that of a possible answer, as in equation E.4 of the ECCV Caption paper (1,
0.5 or 0): the largest gain that enough answers reach, and 0 if it is less than a positive's. So a pair is positive if
and only if its gain is above 0.

- ``majority``: more than half of the answers reach it (the lower median); a tie goes to the lower gain, so one yes and
  one no make no positive.
- ``all``: every answer reaches it (the minimum).
- ``mean``: the mean of the answers, as in Crisscrossed Captions; 0 if it is less than a positive's.
- ``dawid_skene``: it is reached with a probability above one half, under Dawid and Skene's model, which weighs answers
  by the reliability of their workers. Its classes are the scheme's answers, or positive and not for a scale or
  criteria. A positive on a scale has the lower median of its positive answers.

If people answer on a scale, ``rating`` is the mean of their numbers under every rule.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.sources.readers import LABELS_SCHEMA
from cxc_eccv.statistics.agreement import uniform_kappa
from cxc_eccv.studies.asking.agreement import number_pairs
from cxc_eccv.studies.asking.questions import CANDIDATE
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.types import FloatArray, IntArray, check_whole

RULES: Mapping[str, str] = MappingProxyType(
    {
        "majority": "the largest gain that more than half of the answers reach; a tie goes to the lower one",
        "all": "the largest gain that every answer reaches",
        "mean": "the mean of the answers if it is a positive's, else 0",
        "dawid_skene": "the largest gain that is reached with a probability above one half, with answers weighted by "
        "the reliability of their workers (Dawid and Skene, 1979)",
    }
)
"""The rules that turn several answers about a pair into its gain, in words."""

PATIENCE = 1_000
TOLERANCE = 1e-9
RIGHT, WRONG = 1.0, 0.01
"""Pseudo-counts of every worker's right and wrong answers to each class, so that no chance is 0 and new workers are
trusted."""

DIGITS = 9
"""Decimals of means, so that the mean of three ratings of 3 is 3."""

LIKELIER = 0.5 + 1e-6
"""A probability above one half by more than rounding, so that ties stay ties."""


def settle(answers: pa.Table, scheme: Scheme, rule: str | None = None, *, least_answers: int = 1) -> pa.Table:
    """One label for every candidate that enough people judged, in the order of image and caption ids.

    The answers of all rounds count together. Of several answers of a worker about a pair, the last in the table counts.
    Known pairs are not labelled.

    Args:
        answers: answers of accepted sheets (:func:`cxc_eccv.studies.asking.quality.accept`).
        scheme: the scheme of the questions.
        rule: one of :data:`RULES`, see :mod:`cxc_eccv.studies.asking.settling`; None for the scheme's rule.
        least_answers: pairs with answers of fewer people get no label.

    Returns:
        A table of :data:`cxc_eccv.sources.readers.LABELS_SCHEMA`, with ``rating`` if people rated on a scale.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.2 and equation E.4; Parekh et al., Crisscrossed Captions, EACL
        2021, section 2; Dawid and Skene, 1979.

    Example:
        >>> from cxc_eccv.studies.asking.schemes import schemes
        >>> columns = {"image_id": [7] * 3, "caption_id": [70] * 3, "role": ["candidate"] * 3, "worker": [*"abc"]}
        >>> columns |= {"gain": [1.0, 0.5, 0.0], "positive": [True, True, False]}
        >>> settle(pa.table(columns), schemes()["eccv"]).to_pylist()
        [{'image_id': 7, 'caption_id': 70, 'gain': 0.5, 'positive': True, 'answers': 3}]
    """
    rule = scheme.rule if rule is None else rule
    if rule not in RULES:
        raise UnknownName("rule", rule, RULES)
    check_whole("least_answers", least_answers)
    counted = keep_last(_candidates(answers))
    pairs, items = number_pairs(counted)
    counts = np.bincount(items, minlength=len(pairs))
    enough = counts >= least_answers
    if not enough.any():
        raise DataError(
            f"none of {len(pairs):,} candidates has {least_answers} accepted answers; ask more people, check sheets "
            "by hand and accept them, or require fewer answers"
        )
    means = np.bincount(items, weights=np.asarray(counted["gain"]), minlength=len(pairs)) / counts
    if rule == "dawid_skene":
        gains = _weigh_gains(counted, items, scheme)
    elif rule == "mean":
        gains = np.where(means.round(DIGITS) >= scheme.positive, np.minimum(means, 1.0), 0.0)
    else:
        places = (counts - 1) // 2 if rule == "majority" else np.zeros_like(counts)
        gains = _rank_gains(counted, items, counts, places)
    columns = [pairs[:, 0], pairs[:, 1], gains, gains > 0, counts.astype(np.int32)]
    schema = LABELS_SCHEMA
    if scheme.scale is not None:
        low, high = scheme.scale
        columns.append((low + (high - low) * means).round(DIGITS))
        schema = schema.append(pa.field("rating", pa.float64(), nullable=False))
    return pa.Table.from_arrays([pa.array(column[enough]) for column in columns], schema=schema)


def weigh_workers(answers: pa.Table, scheme: Scheme) -> dict[str, float]:
    """Worker to the probability that an answer is right, under Dawid and Skene's model."""
    counted = keep_last(_candidates(answers))
    names, consensus = _estimate(counted, number_pairs(counted)[1], scheme)
    return dict(zip(names, consensus.quality.tolist(), strict=True))


def describe_labels(asked: pa.Table, accepted: pa.Table, labels: pa.Table) -> dict[str, Any]:
    """Facts on labels: ``people`` with accepted answers, ``counts``, and their ``agreement`` about positives."""
    every, given = _candidates(asked), _candidates(accepted)
    counted = keep_last(given)
    pairs, items = number_pairs(counted)
    n_asked = len(number_pairs(every)[0])
    n_answers = np.bincount(items)
    n_positive = np.bincount(items, weights=np.asarray(counted["positive"])).astype(np.int64)
    several = n_answers > 1
    table = np.stack([n_positive, n_answers - n_positive], axis=1)[several]
    agreement = {
        "pairs": int(several.sum()),
        "unanimous": int((table == 0).any(axis=1).sum()),
        "falotico_quatto_kappa": uniform_kappa(table) if several.any() else None,
    }
    counts = {
        "answers": every.num_rows,
        "answers_not_accepted": every.num_rows - given.num_rows,
        "answers_given_again": given.num_rows - counted.num_rows,
        "pairs": n_asked,
        "pairs_without_accepted_answer": n_asked - len(pairs),
        "pairs_with_too_few_answers": len(pairs) - labels.num_rows,
        "labels": labels.num_rows,
        "positives": int(pc.sum(labels["positive"]).as_py()),
    }
    return {"people": len(pc.unique(counted["worker"])), "counts": counts, "agreement": agreement}


def _candidates(answers: pa.Table) -> pa.Table:
    candidates = answers.filter(pc.equal(answers["role"], CANDIDATE))
    if not candidates.num_rows:
        raise DataError("no candidate has an answer: import answers, or check sheets by hand and accept them")
    return candidates


def keep_last(answers: pa.Table) -> pa.Table:
    """Drop all but the last answer of a worker about a pair."""
    workers = np.asarray(pc.dictionary_encode(answers["worker"]).combine_chunks().indices)
    rows = np.stack([np.asarray(answers["image_id"]), np.asarray(answers["caption_id"]), workers])
    _, places = np.unique(rows[:, ::-1], axis=1, return_index=True)
    return answers.take(np.sort(answers.num_rows - 1 - places))


def _rank_gains(answers: pa.Table, items: IntArray, counts: IntArray, places: IntArray) -> FloatArray:
    """(P,) the gain at an index of each pair's answers in ascending order; 0 if that answer is no positive."""
    gains = np.asarray(answers["gain"])
    order = np.lexsort((gains, items))
    chosen = order[np.cumsum(counts) - counts + places]
    return np.where(np.asarray(answers["positive"])[chosen], gains[chosen], 0.0)


def _weigh_gains(answers: pa.Table, items: IntArray, scheme: Scheme) -> FloatArray:
    """(P,) the largest gain reached with a probability above one half; 0 if it is no positive's."""
    chances = _estimate(answers, items, scheme)[1].probabilities
    if scheme.answers:
        levels = np.array([answer.gain for answer in scheme.answers])
        order = np.argsort(-levels, kind="stable")
        reached = (np.cumsum(chances[:, order], axis=1) > LIKELIER).argmax(axis=1)
        gains = levels[order][reached]
        return np.where([scheme.is_positive(gain) for gain in gains.tolist()], gains, 0.0)
    positive = np.flatnonzero(np.asarray(answers["positive"]))
    counts = np.bincount(items[positive], minlength=len(chances))
    gains = np.full(len(chances), scheme.positive)  # for likely positives without a positive answer
    some = counts > 0
    places = np.searchsorted(np.flatnonzero(some), items[positive])
    gains[some] = _rank_gains(answers.take(positive), places, counts[some], (counts[some] - 1) // 2)
    return np.where(chances[:, 1] > LIKELIER, gains, 0.0)


def _estimate(answers: pa.Table, items: IntArray, scheme: Scheme) -> tuple[list[str], Consensus]:
    """Names of the workers, and the fit of Dawid and Skene's model to all answers."""
    workers = pc.dictionary_encode(answers["worker"]).combine_chunks()
    if scheme.answers:
        names = [choice.name for choice in scheme.answers]
        given = [json.loads(answer) for answer in answers["answer"].to_pylist()]
        for answer in set(map(str, given)) - set(names):
            scheme.gain_of(answer)  # raises
        classes = np.array([names.index(answer) for answer in given])
    else:
        classes = np.asarray(answers["positive"]).astype(np.int64)
    consensus = estimate_truth(items, np.asarray(workers.indices), classes, len(scheme.answers) or 2)
    return workers.dictionary.to_pylist(), consensus


@dataclass(frozen=True, slots=True, eq=False)
class Consensus:
    """The fit of Dawid and Skene's model."""

    probabilities: FloatArray  # (N, C) of each class, for every item
    confusion: FloatArray  # (W, C, C) probability that a worker answers the column if the row's class is true
    prior: FloatArray  # (C,) shares of the classes

    @property
    def quality(self) -> FloatArray:
        """(W,) probability that a worker's answer is right."""
        return np.asarray(np.einsum("wcc,c->w", self.confusion, self.prior))


def estimate_truth(items: ArrayLike, workers: ArrayLike, answers: ArrayLike, n_classes: int) -> Consensus:
    """Estimate the true classes and the reliability of each worker together, by expectation-maximisation."""
    item, worker, answer = (np.asarray(values) for values in (items, workers, answers))
    n_items, n_workers = int(item.max()) + 1, int(worker.max()) + 1
    truth = np.zeros((n_items, n_classes))
    np.add.at(truth, (item, answer), 1)
    truth /= truth.sum(axis=1, keepdims=True)
    # A row per item, a column per worker and answer: both steps are products with this matrix.
    columns = worker * n_classes + answer
    given = csr_array((np.ones(item.size), (item, columns)), shape=(n_items, n_workers * n_classes))
    start = np.tile(np.where(np.eye(n_classes), RIGHT, WRONG), (n_workers, 1, 1))
    for _ in range(PATIENCE):
        prior = truth.mean(axis=0)
        tables = start + (given.T @ truth).reshape(n_workers, n_classes, n_classes).transpose(0, 2, 1)
        confusion = tables / tables.sum(axis=2, keepdims=True)
        logs = given @ np.log(confusion).transpose(0, 2, 1).reshape(-1, n_classes)
        logs += np.log(prior + np.finfo(float).tiny)
        again = np.exp(logs - logs.max(axis=1, keepdims=True))
        again /= again.sum(axis=1, keepdims=True)
        moved = np.abs(again - truth).max()
        truth = again
        if moved < TOLERANCE:
            break
    else:
        raise DataError(
            f"Dawid and Skene's model did not converge in {PATIENCE:,} steps; use the rule majority, or ask more people"
        )
    return Consensus(truth, confusion, prior)
