"""Turn answers into labels, one gain for every judged pair by a rule; and measure how far people agree.

Under all rules except ``mean``, the gain is that of a possible answer, as in equation E.4 of the ECCV Caption paper (1,
0.5 or 0): the largest gain that enough answers reach, and 0 if it is less than a positive's. So a pair is positive if
and only if its gain is above 0.

- ``majority``: more than half of the answers reach it (the lower median); a tie goes to the lower gain, so one yes and
  one no make no positive.
- ``mean``: the mean of the answers, as in Crisscrossed Captions; 0 if it is less than a positive's.
If people answer on a scale, ``rating`` is the mean of their numbers under both rules.

Answers are the frame of :func:`cxc_eccv.studies.asking.answer_files.tabulate`, a row for each.
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
from cxc_eccv.studies.asking.questions import CANDIDATE, PAIR
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


def settle(answers: pd.DataFrame, scheme: Scheme, rule: str | None = None, *, least_answers: int = 1) -> pa.Table:
    """One label for every candidate that enough people judged, in the order of image and caption ids.

    The answers of all rounds count together. Of several answers of a worker about a pair, the last in the frame counts.
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
        >>> settle(pd.DataFrame(columns), schemes()["eccv"]).to_pylist()
        [{'image_id': 7, 'caption_id': 70, 'gain': 0.5, 'positive': True, 'answers': 3}]
    """
    rule = scheme.rule if rule is None else rule
    if rule not in RULES:
        raise UnknownName("rule", rule, RULES)
    check_whole("least_answers", least_answers)
    counted = keep_last(keep_candidates(answers))
    by_pair = counted.groupby(PAIR)
    labels = by_pair.size().rename("answers").reset_index()
    # Sums in the order of the answers, as the last digit depends on it.
    means = np.bincount(by_pair.ngroup(), weights=counted["gain"]) / labels["answers"].to_numpy()
    if rule == "mean":
        labels["gain"] = np.where(means.round(DIGITS) >= scheme.positive, np.minimum(means, 1.0), 0.0)
    else:
        labels["gain"] = _find_medians(counted, scheme).to_numpy()
    labels["positive"] = labels["gain"] > 0
    schema = LABELS_SCHEMA
    if scheme.scale is not None:
        low, high = scheme.scale
        labels["rating"] = (low + (high - low) * means).round(DIGITS)
        schema = schema.append(pa.field("rating", pa.float64(), nullable=False))
    enough = labels[labels["answers"] >= least_answers]
    if enough.empty:
        raise DataError(
            f"none of {len(labels):,} candidates has {least_answers} accepted answers; ask more people, check sheets "
            "by hand and accept them, or require fewer answers"
        )
    return pa.Table.from_pandas(enough, schema, preserve_index=False).replace_schema_metadata()


def describe_labels(asked: pd.DataFrame, accepted: pd.DataFrame, labels: pa.Table) -> dict[str, Any]:
    """Facts on labels: ``people`` with accepted answers, ``counts``, and their ``agreement`` about positives."""
    every = keep_candidates(asked)
    answers = keep_candidates(accepted)
    counted = keep_last(answers)
    votes = counted.groupby(PAIR)["positive"].agg(["sum", "size"])
    several = votes[votes["size"] > 1]
    table = np.stack([several["sum"], several["size"] - several["sum"]], axis=1).astype(np.int64)
    agreement = {
        "pairs": len(several),
        "unanimous": int((table == 0).any(axis=1).sum()),
        "falotico_quatto_kappa": uniform_kappa(table) if len(several) else None,
    }
    n_asked = len(every.drop_duplicates(PAIR))
    counts = {
        "answers": len(every),
        "answers_not_accepted": len(every) - len(answers),
        "answers_given_again": len(answers) - len(counted),
        "pairs": n_asked,
        "pairs_without_accepted_answer": n_asked - len(votes),
        "pairs_with_too_few_answers": len(votes) - labels.num_rows,
        "labels": labels.num_rows,
        "positives": int(pc.sum(labels["positive"]).as_py()),
    }
    return {"people": int(counted["worker"].nunique()), "counts": counts, "agreement": agreement}


def keep_candidates(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers about candidates; DataError if there are none."""
    candidates = answers[answers["role"] == CANDIDATE]
    if candidates.empty:
        raise DataError("no candidate has an answer: import answers, or check sheets by hand and accept them")
    return candidates


def keep_last(answers: pd.DataFrame) -> pd.DataFrame:
    """Drop all but the last answer of a worker about a pair."""
    return answers.drop_duplicates([*PAIR, "worker"], keep="last")


def _find_medians(answers: pd.DataFrame, scheme: Scheme) -> pd.Series:
    """The lower median gain of each pair, in the order of their ids; 0 if that answer is no positive."""
    gains = answers.groupby(PAIR)["gain"].quantile(0.5, interpolation="lower")
    return gains.where(gains >= scheme.positive, 0.0)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of people on one kind of answer."""

    about: str  # the kind of answer
    pairs: int  # (image, caption) pairs with two or more judges
    values: Mapping[str, float]  # name to the share of agreeing pairs of answers, and to the coefficients
    not_computed: Mapping[str, str]  # name to the reason of a missing value


def classify(answers: pd.DataFrame, scheme: Scheme) -> tuple[tuple[str, ...], IntArray]:
    """The possible answers, and (A,) the index of each answer in them; a number goes to the nearest mark."""
    values = [json.loads(answer) for answer in answers["answer"]]
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


def measure_agreement(answers: pd.DataFrame, scheme: Scheme) -> tuple[Agreement, ...]:
    """Agreement about answers, and about positives, over the pairs that several people judged."""
    shared = answers[answers.duplicated(PAIR, keep=False)]
    if shared.empty:
        why = "no pair was judged by two people whose sheets are accepted"
        return (Agreement("positive or not", 0, {}, dict.fromkeys(STATISTICS, why)),)
    items = shared.groupby(PAIR).ngroup().to_numpy()
    binary = _agree("positive or not", items, shared["positive"].to_numpy(np.int64), 2)
    if scheme.scale is not None:
        numbers = shared["answer"].astype(np.float64).to_numpy()
        return (_agree("numbers of the scale", items, numbers), binary)
    names, codes = classify(shared, scheme)
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


COMPARISON = ["first", "second", "pairs", "share", "kappa"]
"""Columns of two workers' agreement about positives: pairs that both judged, the share of these with equal answers, and
Cohen's kappa, missing if all answers of both are equal."""


def compare_workers(answers: pd.DataFrame) -> pd.DataFrame:
    """Every two workers who judged the same pairs, by descending number of common pairs; columns of COMPARISON."""
    judged = answers[[*PAIR, "worker", "positive"]]
    both = judged.merge(judged, on=PAIR, suffixes=("", "_other"))
    groups = both[both["worker"] < both["worker_other"]].groupby(["worker", "worker_other"])
    rows = [[*workers, *_compare(rows["positive"], rows["positive_other"])] for workers, rows in groups]
    return _order_comparisons(rows)


def compare_with_labels(answers: pd.DataFrame, labels: pa.Table) -> pd.DataFrame:
    """Every worker (``first``) compared with the labels of pairs that others judged too; columns of COMPARISON."""
    settled = labels.select([*PAIR, "positive", "answers"]).to_pandas()
    judged = answers[[*PAIR, "worker", "positive"]]
    shared = settled[settled["answers"] > 1]
    both = judged.merge(shared, on=PAIR, suffixes=("", "_label"), validate="many_to_one").groupby("worker")
    rows = [[worker, "", *_compare(rows["positive"], rows["positive_label"])] for worker, rows in both]
    return _order_comparisons(rows)


def _order_comparisons(rows: list[list[Any]]) -> pd.DataFrame:
    compared = pd.DataFrame(rows, columns=COMPARISON)
    return compared.sort_values(["pairs", "first", "second"], ascending=[False, True, True], ignore_index=True)


def _compare(positive: pd.Series, positive_other: pd.Series) -> tuple[int, float, float | None]:
    """The number of pairs, the share of equal answers, and Cohen's kappa."""
    first = positive.to_numpy(np.int64)
    second = positive_other.to_numpy(np.int64)
    try:
        kappa = cohen_kappa(first, second, 2)
    except DataError:  # all answers of both are equal
        kappa = None
    return first.size, float((first == second).mean()), kappa
