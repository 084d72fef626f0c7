"""Turn answers into labels, one gain for every judged pair by a rule; and measure how far people agree.

Under all rules except ``mean``, the gain is that of a possible answer, as in equation E.4 of the ECCV Caption paper (1,
0.5 or 0): the largest gain that enough answers reach, and 0 if it is less than a positive's. So a pair is positive if
and only if its gain is above 0.

- ``majority``: more than half of the answers reach it (the lower median); a tie goes to the lower gain, so one yes and
  one no make no positive.
- ``mean``: the mean of the answers, as in Crisscrossed Captions; 0 if it is less than a positive's.
If people answer on a scale, ``rating`` is the mean of their numbers under both rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.sources.readers import LABELS_SCHEMA
from cxc_eccv.statistics.agreement import (
    cohen_kappa,
    count_answers,
    krippendorff_alpha,
    share_of_agreement,
    uniform_kappa,
)
from cxc_eccv.studies.asking.questions import CANDIDATE
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
    every = _candidates(asked)
    answers = _candidates(accepted)
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


PAIR = ["image_id", "caption_id"]


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of people on one kind of answer."""

    about: str  # the kind of answer
    pairs: int  # (image, caption) pairs with two or more judges
    values: Mapping[str, float]  # name to the share of agreeing pairs of answers, and to the coefficients
    not_computed: Mapping[str, str]  # name to the reason of a missing value


@dataclass(frozen=True, slots=True)
class Together:
    """The agreement of two workers about which pairs are positive."""

    first: str
    second: str  # empty if the first is compared with the labels
    pairs: int  # judged by both
    share: float  # of these with equal answers
    kappa: float | None  # Cohen's; None if all answers of both are equal


def classify(answers: pa.Table, scheme: Scheme) -> tuple[tuple[str, ...], IntArray]:
    """The possible answers, and (A,) the index of each answer in them; a number goes to the nearest mark."""
    values = [json.loads(answer) for answer in answers["answer"].to_pylist()]
    if scheme.answers:
        choices = [choice.name for choice in scheme.answers]
        names = [name.replace("_", " ") for name in choices]
        codes = [choices.index(answer) for answer in values]
    elif scheme.scale is not None:
        low, high = scheme.scale
        names = [f"{low + place:g}" for place in range(int(high - low) + 1)]
        codes = [int(np.floor(answer - low + 0.5)) for answer in values]
    else:
        criteria = list(scheme.criteria or ())
        names = [
            " and ".join(name for place, name in enumerate(criteria) if code >> place & 1) or "none"
            for code in range(2 ** len(criteria))
        ]
        codes = [sum(answer[name] << place for place, name in enumerate(criteria)) for answer in values]
    return tuple(names), np.array(codes, dtype=np.int64)


STATISTICS = {
    "share": "Answers that agree",
    "falotico_quatto_kappa": "Falotico and Quatto's kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
}
"""Name in files to the title."""


def measure_agreement(answers: pa.Table, scheme: Scheme) -> tuple[Agreement, ...]:
    """Agreement about answers, and about positives, over the pairs that several people judged."""
    items = number_pairs(answers)[1]
    several = np.bincount(items)[items] > 1 if items.size else np.zeros(0, dtype=bool)
    if not several.any():
        why = "no pair was judged by two people whose sheets are accepted"
        return (Agreement("positive or not", 0, {}, dict.fromkeys(STATISTICS, why)),)
    answers = answers.filter(pa.array(several))
    items = np.unique(items[several], return_inverse=True)[1]
    binary = _agree("positive or not", items, np.asarray(answers["positive"]).astype(np.int64), 2)
    if scheme.scale is not None:
        numbers = np.array([float(answer) for answer in answers["answer"].to_pylist()])
        return (_agree("numbers of the scale", items, numbers), binary)
    names, codes = classify(answers, scheme)
    return (_agree(f"{len(names)} answers", items, codes, len(names)), binary)


def _agree(about: str, items: IntArray, values: IntArray | FloatArray, n_classes: int | None = None) -> Agreement:
    """All coefficients of classes; without classes, Krippendorff's alpha of numbers on the interval level."""
    calls: dict[str, Callable[[], float]]
    if n_classes is None:
        calls = {"krippendorff_alpha": lambda: krippendorff_alpha(items, values, "interval")}
    else:
        counts = count_answers(items, values, n_classes)
        calls = {
            "share": lambda: share_of_agreement(counts),
            "falotico_quatto_kappa": lambda: uniform_kappa(counts),
            "krippendorff_alpha": lambda: krippendorff_alpha(items, values),
        }
    computed = {}
    reasons = {name: "it needs classes" for name in STATISTICS if name not in calls}
    for name, call in calls.items():
        try:
            computed[name] = call()
        except DataError as error:
            reasons[name] = str(error)
    return Agreement(about, int(items.max()) + 1, computed, reasons)


def compare_workers(answers: pa.Table) -> list[Together]:
    """Every two workers who judged the same pairs, by descending number of common pairs."""
    judged = answers.select([*PAIR, "worker", "positive"]).to_pandas()
    both = judged.merge(judged, on=PAIR, suffixes=("", "_other"))
    groups = both[both["worker"] < both["worker_other"]].groupby(["worker", "worker_other"])
    pairs = [_compare(first, other, rows["positive"], rows["positive_other"]) for (first, other), rows in groups]
    return sorted(pairs, key=lambda pair: (-pair.pairs, pair.first, pair.second))


def compare_with_labels(answers: pa.Table, labels: pa.Table) -> list[Together]:
    """Every worker compared with the labels of pairs that others judged too, by descending number of pairs."""
    judged, settled = (table.to_pandas() for table in (answers.select([*PAIR, "worker", "positive"]), labels))
    both = judged.merge(settled[settled["answers"] > 1], on=PAIR, suffixes=("", "_label")).groupby("worker")
    pairs = [_compare(worker, "", rows["positive"], rows["positive_label"]) for worker, rows in both]
    return sorted(pairs, key=lambda pair: (-pair.pairs, pair.first))


def _compare(first: str, second: str, positive: pd.Series, positive_other: pd.Series) -> Together:
    of_first, of_second = (np.asarray(column, dtype=np.int64) for column in (positive, positive_other))
    try:
        kappa = cohen_kappa(of_first, of_second, 2)
    except DataError:  # all answers of both are equal
        kappa = None
    return Together(first, second, of_first.size, float((of_first == of_second).mean()), kappa)


def number_pairs(answers: pa.Table) -> tuple[IntArray, IntArray]:
    """(P, 2) image and caption ids in ascending order, and (A,) the pair of every answer."""
    ids = np.stack([np.asarray(answers[name]) for name in PAIR], axis=1)
    pairs, items = np.unique(ids, axis=0, return_inverse=True)
    return pairs, items.ravel()
