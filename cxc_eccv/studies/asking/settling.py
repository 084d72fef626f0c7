"""Turn answers into labels: one gain for every judged pair, by a rule.

Under all rules except ``mean``, the gain is that of a possible answer, as in equation E.4 of the ECCV Caption paper (1,
0.5 or 0): the largest gain that enough answers reach, and 0 if it is less than a positive's. So a pair is positive if
and only if its gain is above 0.

- ``majority``: more than half of the answers reach it (the lower median); a tie goes to the lower gain, so one yes and
  one no make no positive.
- ``mean``: the mean of the answers, as in Crisscrossed Captions; 0 if it is less than a positive's.
If people answer on a scale, ``rating`` is the mean of their numbers under both rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.sources.readers import LABELS_SCHEMA
from cxc_eccv.statistics.agreement import uniform_kappa
from cxc_eccv.studies.asking.questions import CANDIDATE
from cxc_eccv.studies.asking.rater_agreement import number_pairs
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.types import FloatArray, IntArray, check_whole

RULES: Mapping[str, str] = MappingProxyType(
    {
        "majority": "the largest gain that more than half of the answers reach; a tie goes to the lower one",
        "mean": "the mean of the answers if it is a positive's, else 0",
    }
)
"""The rules that turn several answers about a pair into its gain, in words."""

DIGITS = 9
"""Decimals of means, so that the mean of three ratings of 3 is 3."""


def settle(answers: pa.Table, scheme: Scheme, rule: str | None = None, *, least_answers: int = 1) -> pa.Table:
    """One label for every candidate that enough people judged, in the order of image and caption ids.

    The answers of all rounds count together. Of several answers of a worker about a pair, the last in the table counts.
    Known pairs are not labelled.

    Args:
        answers: answers of accepted sheets (:func:`cxc_eccv.studies.asking.sheet_quality.accept`).
        scheme: the scheme of the questions.
        rule: one of :data:`RULES`, see :mod:`cxc_eccv.studies.asking.settling`; None for the scheme's rule.
        least_answers: pairs with answers of fewer people get no label.

    Returns:
        A table of :data:`cxc_eccv.sources.readers.LABELS_SCHEMA`, with ``rating`` if people rated on a scale.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.2 and equation E.4; Parekh et al., Crisscrossed Captions, EACL
        2021, section 2.

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
    if rule == "mean":
        gains = np.where(means.round(DIGITS) >= scheme.positive, np.minimum(means, 1.0), 0.0)
    else:
        gains = _find_medians(counted, items, counts)
    columns = [pairs[:, 0], pairs[:, 1], gains, gains > 0, counts.astype(np.int32)]
    schema = LABELS_SCHEMA
    if scheme.scale is not None:
        low, high = scheme.scale
        columns.append((low + (high - low) * means).round(DIGITS))
        schema = schema.append(pa.field("rating", pa.float64(), nullable=False))
    return pa.Table.from_arrays([pa.array(column[enough]) for column in columns], schema=schema)


def describe_labels(asked: pa.Table, accepted: pa.Table, labels: pa.Table) -> dict[str, Any]:
    """Facts on labels: ``people`` with accepted answers, ``counts``, and their ``agreement`` about positives."""
    every, answers = _candidates(asked), _candidates(accepted)
    counted = keep_last(answers)
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
        "answers_not_accepted": every.num_rows - answers.num_rows,
        "answers_given_again": answers.num_rows - counted.num_rows,
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


def _find_medians(answers: pa.Table, items: IntArray, counts: IntArray) -> FloatArray:
    """(P,) the lower median gain of each pair's answers; 0 if that answer is no positive."""
    gains = np.asarray(answers["gain"])
    medians = np.lexsort((gains, items))[np.cumsum(counts) - counts + (counts - 1) // 2]
    return np.where(np.asarray(answers["positive"])[medians], gains[medians], 0.0)
