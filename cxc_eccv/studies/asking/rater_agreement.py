"""Agreement between workers: coefficients of a table of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError
from cxc_eccv.statistics.agreement import (
    cohen_kappa,
    count_answers,
    krippendorff_alpha,
    share_of_agreement,
    uniform_kappa,
)
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.types import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

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
        names, codes = [name.replace("_", " ") for name in choices], [choices.index(answer) for answer in values]
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
    answers, items = answers.filter(pa.array(several)), np.unique(items[several], return_inverse=True)[1]
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
    computed, reasons = {}, {name: "it needs classes" for name in STATISTICS if name not in calls}
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
