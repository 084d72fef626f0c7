"""Bias of labels: how much a model gains if people verified its proposals."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.ranking.ties import rank_labelled
from cxc_eccv.statistics import ClusterBootstrap, Estimate, interval
from cxc_eccv.studies.annotation.label_quality.sets import SIDES, find_searched, name_sides
from cxc_eccv.studies.annotation.proposing import list_proposals
from cxc_eccv.types import FloatArray, IntArray, Judgments, find_positions

MOST = 8
"""The most annotators: N annotators have 2^N sets, each with scores for every query and model."""

Scores = Mapping[str, "float | FloatArray"]
"""Model to its score, or to (S,) samples of it."""

Parts = Mapping[str, Any]
"""Means over all models (``all``), over the annotators (``own``) and over the ``others``; None without any model."""


def measure_bias(scores: Scores, full: Scores, annotators: Collection[str]) -> Parts:
    r"""The bias of scores by the choice of annotators.

    .. math:: B_\Theta = \frac{1}{|\mathrm{All}|} \sum_{\phi \in \mathrm{All}} |s_\Theta(\phi) - s_{\mathrm{All}}(\phi)|

    with the scores of every model on the labels from the annotators' proposals and from those of all; and the same mean
    over :math:`\phi \in \Theta` (self-bias) and over the others (non-self-bias).

    References:
        Chun et al., ECCV Caption, ECCV 2022, appendix E.3, equations E.5 and E.6.

    Example:
        >>> measure_bias({"a": 0.5, "b": 0.25}, {"a": 0.5, "b": 0.75}, ["a"])
        {'all': 0.25, 'own': 0.0, 'others': 0.5}
    """
    gaps: dict[str, Any] = {model: abs(scores[model] - full[model]) for model in full}
    own_gaps = [gap for model, gap in gaps.items() if model in annotators]
    others = [gap for model, gap in gaps.items() if model not in annotators]
    return {"all": _mean([*own_gaps, *others]), "own": _mean(own_gaps), "others": _mean(others)}


def bias_by_size(models: Collection[str], score: Callable[[frozenset[str]], Scores]) -> dict[int, Parts]:
    """Number of annotators to the mean bias over all sets of this size, except the set of all models."""
    full = score(frozenset(models))
    sizes = dict[int, Parts]()
    for size in range(1, len(models)):
        biases = [measure_bias(score(frozenset(subset)), full, subset) for subset in combinations(sorted(models), size)]
        sizes[size] = {part: _mean([bias[part] for bias in biases if bias[part] is not None]) for part in biases[0]}
    return sizes


def measure_gains(annotators: Collection[str], score: Callable[[frozenset[str]], Scores]) -> dict[str, Parts]:
    """Annotator to the mean signed change of scores when it joins the annotators."""
    names = sorted(annotators)
    gains = dict[str, Parts]()
    for model in names:
        rest = [other for other in names if other != model]
        sets = list(map(frozenset, chain(*(combinations(rest, size) for size in range(1, len(names))))))
        changes: dict[str, list[float | FloatArray]] = {}
        for subset in sets:
            before = score(subset)
            after = score(subset | {model})
            for other in before:
                changes.setdefault(other, []).append(after[other] - before[other])
        others = [_mean(change) for other, change in changes.items() if other != model]
        gains[model] = {"own": _mean(changes[model]), "others": _mean(others)}
    return gains


def _mean(values: Collection[Any]) -> Any:  # noqa: ANN401 - numbers or arrays of them
    return sum(values) / len(values) if values else None


@dataclass(frozen=True, slots=True, eq=False)
class ProposedLabels:
    """The verified positives of one direction, and the annotators that proposed them."""

    direction: str
    judgments: Judgments  # with gains, none of them 0
    proposers: IntArray  # (P,) annotators of each of judgments.indices, as bits: 1 for the first, 2 for the second
    annotators: tuple[str, ...]
    n_unproposed: int  # verified positives that no model proposed; they are in no set's labels
    n_unanswered: int  # proposals without an answer; they count as no match

    def members(self, number: int) -> frozenset[str]:
        """The annotators of a set, given by its bits."""
        return frozenset(name for bit, name in enumerate(self.annotators) if number >> bit & 1)

    @property
    def sizes(self) -> IntArray:
        """(T, Q) R of every query under the labels of each set of annotators; row t is the set of bits t + 1."""
        numbers = np.arange(1, 2 ** len(self.annotators))
        rows = self.judgments.rows
        return np.stack(
            [np.bincount(rows[(self.proposers & n) > 0], minlength=self.judgments.query_ids.size) for n in numbers]
        )


def join_proposals(
    verified: pd.DataFrame, proposals: pa.Table, gallery_ids: IntArray, direction: str
) -> ProposedLabels:
    """The verified positives with the annotators that proposed them in either direction."""
    annotators, proposed = _list_proposers(proposals, direction)
    pairs = verified[[*SIDES, "gain"]].merge(proposed, how="outer", on=SIDES, validate="one_to_one")
    n_unanswered = int(pairs["gain"].isna().sum())
    pairs = pairs.fillna({"gain": 0.0, "proposers": 0}).astype({"proposers": np.int64})
    positive = pairs[pairs["gain"] > 0]
    labels = positive[positive["proposers"] > 0]
    if labels.empty:
        raise DataError("none of the models' proposals was verified, so there are no labels to score models on")
    # In the order of the judgments: by query, and by place in the gallery.
    places, _ = find_positions(labels["item"].to_numpy(), gallery_ids)
    labels = labels.assign(place=places).sort_values(["query", "place"])
    query_ids = labels["query"].unique()
    judgments = Judgments.from_pairs(query_ids, gallery_ids, labels["query"], labels["item"], gains=labels["gain"])
    if judgments.unreachable.any():
        raise DataError(f"query {query_ids[judgments.unreachable.argmax()]} has a verified item outside the gallery")
    return ProposedLabels(
        direction=direction,
        judgments=judgments,
        proposers=labels["proposers"].to_numpy(),
        annotators=annotators,
        n_unproposed=len(positive) - len(labels),
        n_unanswered=n_unanswered,
    )


def _list_proposers(proposals: pa.Table, direction: str) -> tuple[tuple[str, ...], pd.DataFrame]:
    """Names of the annotators; pairs of searched queries, with the annotators of each as bits (``proposers``)."""
    listed = name_sides(list_proposals(proposals), direction)
    annotators = tuple(sorted(listed["model"].unique()))
    if len(annotators) > MOST:
        raise InvalidOption(
            f"{len(annotators)} annotators have {2 ** len(annotators) - 1:,} sets, which are too many; at most {MOST} "
            "annotators are supported"
        )
    if not annotators:
        raise DataError("no model proposed a pair, so there are no annotators")
    bits = {name: 1 << place for place, name in enumerate(annotators)}
    searched = listed[listed["query"].isin(find_searched(proposals, direction))]
    distinct = searched.drop_duplicates([*SIDES, "model"])
    distinct = distinct.assign(proposers=distinct["model"].map(bits))
    return annotators, distinct.groupby(SIDES, as_index=False)["proposers"].sum()


def score_sets(reached: IntArray, labels: ProposedLabels) -> dict[str, FloatArray]:
    """Graded R@1 and R-Precision of a model, (T, Q) each, on the labels of the sets of annotators of bits 1 to T.

    ``reached`` are (P,) counts by :class:`~cxc_eccv.ranking.readers.ReachedRows` for ``labels.judgments``, whose top
    has as many items as the query with the most labels. Each set's labels rank by the tie rule on their own.
    """
    rows = labels.judgments.rows
    gains = np.asarray(labels.judgments.gains)
    sizes = labels.sizes
    first = np.zeros(sizes.shape)
    precision = np.zeros(sizes.shape)
    for number, counts in enumerate(sizes, start=1):
        in_set = (labels.proposers & number) > 0
        owners = rows[in_set]
        set_gains = gains[in_set]
        ranks = rank_labelled(owners, reached[in_set], set_gains)
        first[number - 1] = _add_gains(owners, set_gains, ranks == 1, counts.size)
        hits = _add_gains(owners, set_gains, ranks <= counts[owners], counts.size)
        np.divide(hits, counts, out=precision[number - 1], where=counts > 0)
    return {"recall_at_1": first, "r_precision": precision}


def _add_gains(owners: IntArray, gains: FloatArray, counted: NDArray[np.bool_], n_queries: int) -> FloatArray:
    return np.asarray(np.bincount(owners[counted], weights=gains[counted], minlength=n_queries), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class BiasOfSet:
    """Scores of all models on the labels of a set of annotators, and their distance from those on all labels."""

    annotators: tuple[str, ...]
    n_without: int  # queries without a label of the set
    scores: Mapping[str, Estimate]  # of every model
    # Over all models, over the annotators and over the others; None without any model.
    bias: Mapping[str, Estimate | None]


@dataclass(frozen=True, slots=True)
class Biases:
    """Annotator bias in one direction, by one metric."""

    direction: str
    metric: str  # recall_at_1 or r_precision, graded
    n_queries: int  # queries with a positive in the labels of all annotators
    n_positives: int  # number of these labels
    n_unproposed: int  # as in ProposedLabels
    n_unanswered: int
    sets: tuple[BiasOfSet, ...]  # smaller sets first
    by_size: Mapping[int, Mapping[str, Estimate | None]]  # number of annotators to the mean bias of sets of this size
    gains: Mapping[str, Mapping[str, Estimate | None]]  # annotator to the change of scores when it joins


def measure_biases(
    reached: Mapping[str, IntArray], labels: ProposedLabels, bootstrap: ClusterBootstrap, confidence: float
) -> list[Biases]:
    """The biases by each metric, from the values of every query, model and set of annotators."""
    of_models = [score_sets(counts, labels) for counts in reached.values()]
    rows = []
    for metric in of_models[0]:
        values = np.stack([scores[metric] for scores in of_models])
        points = values.mean(axis=2, keepdims=True)
        samples = bootstrap.means(values.reshape(-1, values.shape[2]).T).reshape(*values.shape[:2], -1)
        scores = dict(zip(reached, np.concatenate([points, samples], axis=2), strict=True))
        rows.append(_measure_biases(scores, labels, metric, confidence))
    return rows


def _estimate(values: Parts, confidence: float) -> dict[str, Any]:
    """The estimates from values and their samples; None stays None."""
    return {
        name: None if drawn is None else Estimate(float(drawn[0]), *interval(drawn[1:], confidence))
        for name, drawn in values.items()
    }


def _measure_biases(scores: Mapping[str, FloatArray], labels: ProposedLabels, metric: str, confidence: float) -> Biases:
    """The biases from each model's (T, 1 + S) scores on the labels of the sets of bits 1 to T, with S samples."""
    annotators = labels.annotators
    everybody = frozenset(labels.annotators)

    def score(members: frozenset[str]) -> dict[str, FloatArray]:
        number = sum(1 << annotators.index(name) for name in members)
        return {model: values[number - 1] for model, values in scores.items()}

    estimate = partial(_estimate, confidence=confidence)
    without = (labels.sizes == 0).sum(axis=1)
    sets = []
    for number in sorted(range(1, 2 ** len(annotators)), key=lambda number: (number.bit_count(), number)):
        members = labels.members(number)
        bias = measure_bias(score(members), score(everybody), members)
        named = tuple(name for name in annotators if name in members)
        sets.append(
            BiasOfSet(
                annotators=named,
                n_without=int(without[number - 1]),
                scores=estimate(score(members)),
                bias=estimate(bias),
            )
        )
    sizes = {size: estimate(bias) for size, bias in bias_by_size(annotators, score).items()}
    gains = {name: estimate(gain) for name, gain in measure_gains(annotators, score).items()}
    return Biases(
        direction=labels.direction,
        metric=metric,
        n_queries=labels.judgments.query_ids.size,
        n_positives=labels.proposers.size,
        n_unproposed=labels.n_unproposed,
        n_unanswered=labels.n_unanswered,
        sets=tuple(sets),
        by_size=sizes,
        gains=gains,
    )
