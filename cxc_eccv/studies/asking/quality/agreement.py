"""Agreement between annotators: the kappas of Cohen and Fleiss, Falotico and Quatto's, and Krippendorff's alpha.

First the coefficients, of arrays; then what they say of a table of answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from cxc_eccv.errors import DataError
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.types import FloatArray, IntArray

__all__ = [
    "STATISTICS",
    "Agreement",
    "Together",
    "classify",
    "cohen_kappa",
    "compare_with_labels",
    "compare_workers",
    "count_answers",
    "fleiss_kappa",
    "krippendorff_alpha",
    "measure_agreement",
    "share_of_agreement",
    "uniform_kappa",
]


Level: TypeAlias = Literal["nominal", "ordinal", "interval", "ratio"]
"""Of measurement: what can be said of two numbers."""


def count_answers(items: ArrayLike, answers: ArrayLike, n_classes: int) -> IntArray:
    """(N, C) how many annotators gave each answer.

    Args:
        items: (A,) item of each answer, from 0.
        answers: (A,) class from 0.
        n_classes: C.

    Example:
        >>> count_answers([0, 0, 1], [0, 0, 1], 2).tolist()
        [[2, 0], [0, 1]]
    """
    places, given = np.asarray(items), _check_answers([np.asarray(answers)], n_classes)[0]
    counts = np.zeros((int(places.max()) + 1, n_classes), dtype=np.int64)
    np.add.at(counts, (places, given), 1)
    return counts


def cohen_kappa(first: ArrayLike, second: ArrayLike, n_classes: int) -> float:
    r""":math:`(p_o - p_e) / (1 - p_e)` of two annotators, with chance from the shares of each.

    Args:
        first: (N,) classes from 0.
        second: (N,) those of the other annotator.
        n_classes: how many there are.

    Raises:
        DataError: no such classes, unequal lengths, or both gave one answer throughout, so that chance is certain.

    References:
        Cohen, A Coefficient of Agreement for Nominal Scales, Educational and Psychological Measurement 1960.

    Example:
        >>> cohen_kappa([0, 0, 1, 1], [0, 1, 1, 1], 2)
        0.5
    """
    given = _check_answers([np.asarray(first), np.asarray(second)], n_classes)
    shares = np.stack([np.bincount(own, minlength=n_classes) / own.size for own in given])
    return _above_chance(float((given[0] == given[1]).mean()), float(shares.prod(axis=0).sum()))


def fleiss_kappa(counts: ArrayLike) -> float:
    """Agreement above chance of several annotators, with chance from the shares of all answers.

    Args:
        counts: (N, C) how many annotators gave each answer; each item has two or more, not always as many. Items
            weigh the same.

    Raises:
        DataError: no whole counts, an item with fewer than two answers, or one answer throughout.

    References:
        Fleiss, Measuring Nominal Scale Agreement Among Many Raters, 1971.

    Example:
        >>> fleiss_kappa([[3, 0], [0, 3]])
        1.0
    """
    given = _check_counts(counts)
    return _above_chance(share_of_agreement(given), float(((given.sum(axis=0) / given.sum()) ** 2).sum()))


def uniform_kappa(counts: ArrayLike) -> float:
    """Falotico and Quatto's kappa, S: agreement above that of answers which are all as likely, 1 / C.

    It depends on the observed agreement alone and not on how the answers are spread over the classes, so that it does
    not fall where nearly all answers are the same (the paradox of Fleiss' kappa, whose average over all permutations
    of the classes within the items it is).

    Args:
        counts: as of :func:`fleiss_kappa`.

    Raises:
        DataError: no whole counts, or an item with fewer than two answers.

    References:
        Falotico and Quatto, Fleiss' Kappa Statistic without Paradoxes, Quality & Quantity 2015.

    Example:
        >>> uniform_kappa([[3, 0], [3, 0]])
        1.0
    """
    given = _check_counts(counts)
    return _above_chance(share_of_agreement(given), 1 / given.shape[1])


def krippendorff_alpha(items: ArrayLike, values: ArrayLike, level: Level = "nominal") -> float:
    r"""Krippendorff's alpha, for any number of annotators and missing answers.

    Of the interval level it is computed here: with n answers in units of :math:`m_u \ge 2` it is

    .. math:: 1 - (n - 1) \frac{\sum_u \sum_{i<j \in u} (v_i - v_j)^2 / (m_u - 1)}{\sum_{i<j} (v_i - v_j)^2}.

    Args:
        items: (A,) unit of each answer, from 0.
        values: (A,) numbers.
        level: of measurement: ``nominal``, ``ordinal``, ``interval`` or ``ratio``.

    Raises:
        DataError: fewer than two different answers, or no unit with two.

    References:
        Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011. The computation of the other levels is that of
        the package ``krippendorff``, whose memory grows with the square of the number of different values, and a slider
        gives as many of these as answers.

    Example:
        >>> krippendorff_alpha([0, 0, 1, 1], [1.0, 2.0, 4.0, 4.0], "interval")
        0.8888888888888888
    """
    units, given = np.asarray(items, dtype=np.int64), np.asarray(values, dtype=np.float64)
    pairable = np.bincount(units)[units] > 1
    units, given = np.unique(units[pairable], return_inverse=True)[1], given[pairable]
    domain, codes = np.unique(given, return_inverse=True)
    if domain.size < 2:
        found = "all answers are the same" if domain.size else "no item has two answers"
        raise DataError(f"{found}: Krippendorff's alpha has no value")
    if level == "interval":
        centred, sizes = given - given.mean(), np.bincount(units)
        # The squares of all differences within a unit come to m times the squares less the square of the sum.
        within = sizes * np.bincount(units, centred**2) - np.bincount(units, centred) ** 2
        total = given.size * float((centred**2).sum())
        return 1 - (given.size - 1) * float((within / (sizes - 1)).sum()) / total
    import krippendorff

    counts = count_answers(units, codes, domain.size)
    return float(krippendorff.alpha(value_counts=counts, value_domain=domain, level_of_measurement=level))


def share_of_agreement(counts: ArrayLike) -> float:
    """Mean over items of the share of pairs of annotators that agree; counts as of :func:`fleiss_kappa`.

    Example:
        >>> share_of_agreement([[2, 0], [1, 1]])
        0.5
    """
    given = _check_counts(counts)
    per_item = given.sum(axis=1)
    return float(((given * (given - 1)).sum(axis=1) / (per_item * (per_item - 1))).mean())


def _above_chance(observed: float, expected: float) -> float:
    if expected == 1:
        raise DataError("all answers are the same, so that chance alone gives them: no kappa has a value")
    return (observed - expected) / (1 - expected)


def _check_answers(answers: ArrayLike, n_classes: int) -> IntArray:
    try:
        given = np.asarray(answers)
    except ValueError:
        raise DataError("annotators with unequal numbers of items; give an answer of both for every item") from None
    whole = given.ndim == 2 and given.size and given.dtype.kind in "iu"
    if not whole or given.min() < 0 or given.max() >= n_classes:
        raise DataError(f"answers: give a row of classes from 0 to {n_classes - 1} for every annotator")
    return given.astype(np.int64)


def _check_counts(counts: ArrayLike) -> FloatArray:
    given = np.asarray(counts, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] < 2 or not len(given) or not ((given >= 0) & (given == np.round(given))).all():
        raise DataError("counts of answers: give whole numbers of at least 0, a row per item, a column per answer")
    if (given.sum(axis=1) < 2).any():
        row = int((given.sum(axis=1) < 2).argmax())
        raise DataError(f"item {row} has fewer than two answers: there is nothing to agree on; leave it out")
    return given


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far people agree about something.

    Attributes:
        about: what they answered.
        pairs: (image, caption) pairs that two people or more judged.
        values: name to value: the share of pairs of answers that agree, and the coefficients.
        not_computed: name to the reason why there is no value.
    """

    about: str
    pairs: int
    values: Mapping[str, float]
    not_computed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Together:
    """Two who judged the same pairs, on what is positive.

    Attributes:
        first, second: workers; the second is empty where the first is compared with the settled labels.
        pairs: (image, caption) pairs that both judged.
        share: of these on which both say the same.
        kappa: Cohen's; None where all answers of both are the same, so that chance alone gives them.
    """

    first: str
    second: str
    pairs: int
    share: float
    kappa: float | None


def classify(answers: pa.Table, scheme: Scheme) -> tuple[tuple[str, ...], IntArray]:
    """What can be answered, and (A,) which of it each answer is; a number is the nearest mark of its scale.

    Args:
        answers: with a column ``answer``.
        scheme: how people were asked.

    Example:
        >>> from cxc_eccv.studies.asking.schemes import schemes
        >>> names, codes = classify(pa.table({"answer": ["2.5", "0", "4.2"]}), schemes()["cxc"])
        >>> names, codes.tolist()
        (('0', '1', '2', '3', '4', '5'), [3, 0, 4])
    """
    given = [json.loads(answer) for answer in answers["answer"].to_pylist()]
    if scheme.answers:
        places = {own.name: place for place, own in enumerate(scheme.answers)}
        names, codes = tuple(own.name.replace("_", " ") for own in scheme.answers), [places[answer] for answer in given]
    elif scheme.scale is not None:
        low, high = scheme.scale
        names = tuple(f"{low + place:g}" for place in range(int(high - low) + 1))
        codes = [int(np.floor(answer - low + 0.5)) for answer in given]
    else:
        criteria = list(scheme.criteria or ())
        names = tuple(
            " and ".join(name for place, name in enumerate(criteria) if code >> place & 1) or "none"
            for code in range(2 ** len(criteria))
        )
        codes = [sum(answer[name] << place for place, name in enumerate(criteria)) for answer in given]
    return names, np.array(codes, dtype=np.int64)


STATISTICS = {
    "share": "Answers that agree",
    "fleiss_kappa": "Fleiss' kappa",
    "falotico_quatto_kappa": "Falotico and Quatto's kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
}
"""Name in files to what people read."""


def measure_agreement(answers: pa.Table, scheme: Scheme) -> tuple[Agreement, ...]:
    """About what was answered, and about what is positive, over the pairs that several people judged.

    Choices are nominal. Numbers of a scale are of the interval level, and have Krippendorff's alpha alone.

    Args:
        answers: of accepted sheets, about candidates, one of a worker about a pair.
        scheme: how people were asked.
    """
    items = _number_pairs(answers)
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
    """All coefficients of classes; of numbers, which have none, Krippendorff's on the interval level."""
    level: Level = "interval" if n_classes is None else "nominal"
    calls: dict[str, Callable[[], float]] = {"krippendorff_alpha": lambda: krippendorff_alpha(items, values, level)}
    if n_classes is not None:
        counts = count_answers(items, values, n_classes)
        calls |= {
            "share": lambda: share_of_agreement(counts),
            "fleiss_kappa": lambda: fleiss_kappa(counts),
            "falotico_quatto_kappa": lambda: uniform_kappa(counts),
        }
    found, reasons = {}, {}
    for name in STATISTICS:
        try:
            if name in calls:
                found[name] = calls[name]()
            else:
                reasons[name] = "it is of classes"
        except DataError as error:
            reasons[name] = str(error)
        except ModuleNotFoundError:
            reasons[name] = "it needs the package krippendorff: pip install 'cxc_eccv[annotation]'"
    return Agreement(about, int(items.max()) + 1, found, reasons)


def compare_workers(answers: pa.Table) -> list[Together]:
    """All who judged the same pairs, two by two, those with the most pairs in common first.

    Args:
        answers: as of :func:`measure_agreement`.
    """
    if not answers.num_rows:
        return []
    names, workers = np.unique(answers["worker"].to_pylist(), return_inverse=True)
    order = np.lexsort((workers, _number_pairs(answers)))
    items, workers = _number_pairs(answers)[order], workers[order]
    positive = np.asarray(answers["positive"]).astype(np.int64)[order]
    both = []
    for apart in range(1, int(np.bincount(items).max())):  # of the answers to one pair each with each
        own = np.flatnonzero(items[apart:] == items[:-apart])
        both.append(np.stack([workers[own], workers[own + apart], positive[own], positive[own + apart]]))
    if not both:
        return []
    first, second, said, other = np.concatenate(both, axis=1)
    order = np.lexsort((second, first))
    ends = np.flatnonzero(np.diff(first[order]) | np.diff(second[order])) + 1
    found = [
        _together(str(names[first[own[0]]]), str(names[second[own[0]]]), said[own], other[own])
        for own in np.split(order, ends)
    ]
    return sorted(found, key=lambda one: (-one.pairs, one.first, one.second))


def compare_with_labels(answers: pa.Table, labels: pa.Table) -> list[Together]:
    """Every worker with the labels of those pairs that others judged, too, whoever judged the most first.

    Args:
        answers: as of :func:`measure_agreement`.
        labels: what ``settle`` made of them. The worker's own answer has a
            part in it.
    """
    settled = {
        (row["image_id"], row["caption_id"]): row["positive"] for row in labels.to_pylist() if row["answers"] > 1
    }
    columns = (answers[name].to_pylist() for name in ("image_id", "caption_id", "worker", "positive"))
    told = sorted(
        (worker, said, settled[image, caption])
        for image, caption, worker, said in zip(*columns, strict=True)
        if (image, caption) in settled
    )
    found = []
    for worker, own in groupby(told, key=lambda row: row[0]):
        said, label = np.array([row[1:] for row in own], dtype=np.int64).T
        found.append(_together(worker, "", said, label))
    return sorted(found, key=lambda one: (-one.pairs, one.first))


def _together(first: str, second: str, said: IntArray, other: IntArray) -> Together:
    try:
        kappa = cohen_kappa(said, other, 2)
    except DataError:  # both gave one answer throughout
        kappa = None
    return Together(first, second, said.size, float((said == other).mean()), kappa)


def _number_pairs(answers: pa.Table) -> IntArray:
    """(A,) the (image, caption) pair of every answer, from 0."""
    ids = np.stack([np.asarray(answers[name]) for name in ("image_id", "caption_id")], axis=1)
    return np.unique(ids, axis=0, return_inverse=True)[1].ravel()
