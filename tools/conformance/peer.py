"""What a runner declares, the rules of other libraries stated again, the proof of every difference, and the tables."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conformance.kit import Part
from cxc_eccv.errors import InvalidOption
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks
from cxc_eccv.wording import metric_name

Order = Callable[[Part, int], PositiveRanks]
"""Ranks of a part's positives in a library's order; the number is the depth to which the library looks."""

Formula = Callable[[PositiveRanks, int], FloatArray]
"""(Q,) values of a library's metric with a cut-off K."""


def earlier_first(part: Part, _k: int = 0) -> PositiveRanks:
    """Of equal scores, the item that comes first in the gallery stands first; ids ascend with it."""
    places = np.arange(len(part.gallery))
    return _rank(part, lambda _positives: places)


def later_first(part: Part, _k: int = 0) -> PositiveRanks:
    """Of equal scores, the item that comes last in the gallery stands first."""
    places = np.arange(len(part.gallery))[::-1]
    return _rank(part, lambda _positives: places)


def positives_first(part: Part, _k: int = 0) -> PositiveRanks:
    """Of equal scores, positives stand first, as in code that counts the items with a higher score."""
    size = len(part.gallery)
    return _rank(part, lambda positives: np.arange(size) - size * np.isin(np.arange(size), positives))


def _rank(part: Part, places_of: Callable[[IntArray], IntArray]) -> PositiveRanks:
    """Ranks of all positives, where items of equal score stand in the order of their (N,) places."""
    ranks = []
    for scores, positives in zip(part.scores, part.positives, strict=True):
        places = places_of(positives)
        for position in positives:
            tied = np.flatnonzero(scores == scores[position])
            higher = np.count_nonzero(scores > scores[position])
            ranks.append(1 + higher + np.count_nonzero(places[tied] < places[position]))
    return _positive_ranks(part, np.array(ranks), np.diff(part.judgments.indptr))


def in_order(part: Part, best_first: Callable[[Part, int], Iterable[IntArray]], k: int) -> PositiveRanks:
    """Ranks in the order of (Q, any depth) positions, best first; positives that are not among these have none."""
    ranks, counts = [], []
    for order, positives in zip(best_first(part, k), part.positives, strict=True):
        places = np.flatnonzero(np.isin(order, positives)) + 1
        ranks.append(places)
        counts.append(places.size)
    return _positive_ranks(part, np.concatenate(ranks), np.array(counts))


def top_k_order(part: Part, k: int) -> PositiveRanks:
    """Ranks in the top K of ``torch.topk``, which chooses among equal scores by its algorithm."""
    return in_order(part, _top_k, k)


def _top_k(part: Part, k: int) -> Iterator[IntArray]:
    import torch

    for scores in part.scores:
        yield torch.from_numpy(scores.astype(np.float32)).topk(k).indices.numpy()


def argsort_order(part: Part, k: int) -> PositiveRanks:
    """Ranks in the order of ``torch.argsort``, which is not stable by default: its order depends on the processor."""
    return in_order(part, _argsort, k)


def _argsort(part: Part, _k: int) -> Iterator[IntArray]:
    import torch

    for scores in part.scores:
        yield torch.from_numpy(scores.astype(np.float32)).argsort(descending=True).numpy()


def _positive_ranks(part: Part, ranks: IntArray, counts: IntArray) -> PositiveRanks:
    """Ranks of the positives of every query, ascending."""
    queries = np.repeat(np.arange(counts.size), counts)
    sizes = np.full(counts.size, len(part.gallery))
    ids, n_positives = part.judgments.query_ids, part.judgments.n_positives
    indptr = np.append(0, np.cumsum(counts))
    ordered = ranks[np.lexsort((ranks, queries))].astype(np.int64)
    return PositiveRanks(ids, indptr, ordered, n_positives, sizes, np.zeros(counts.size, dtype=np.int64))


def recall(ranks: PositiveRanks, k: int) -> FloatArray:
    """The share of a query's positives that are in the top K."""
    return _sum(ranks, ranks.ranks <= k) / ranks.n_positives


def average_precision(ranks: PositiveRanks, k: int) -> FloatArray:
    """Precision at the rank of every positive in the top K, summed and divided by R."""
    return _sum(ranks, _precision(ranks) * (ranks.ranks <= k)) / ranks.n_positives


def average_precision_of_k(ranks: PositiveRanks, k: int) -> FloatArray:
    """The same sum, divided by R or K, whichever is smaller."""
    return _sum(ranks, _precision(ranks) * (ranks.ranks <= k)) / np.minimum(ranks.n_positives, k)


def average_precision_of_found(ranks: PositiveRanks, k: int) -> FloatArray:
    """The same sum, divided by the number of positives in the top K."""
    return _sum(ranks, _precision(ranks) * (ranks.ranks <= k)) / np.maximum(1, _sum(ranks, ranks.ranks <= k))


def ndcg(ranks: PositiveRanks, k: int) -> FloatArray:
    """DCG of binary labels over that of the ideal ranking."""
    ideal = np.cumsum(1 / np.log2(np.arange(2, k + 2)))
    gains = (ranks.ranks <= k) / np.log2(ranks.ranks + 1)
    return np.asarray(_sum(ranks, gains) / ideal[np.minimum(ranks.n_positives, k) - 1])


def _precision(ranks: PositiveRanks) -> FloatArray:
    starts = np.repeat(ranks.indptr[:-1], np.diff(ranks.indptr))
    return np.asarray((np.arange(ranks.ranks.size) - starts + 1) / ranks.ranks)


def _sum(ranks: PositiveRanks, values: NDArray[np.generic]) -> FloatArray:
    """(Q,) sums over the positives of each query."""
    queries = np.repeat(np.arange(ranks.query_ids.size), np.diff(ranks.indptr))
    return np.asarray(np.bincount(queries, weights=values, minlength=ranks.query_ids.size), dtype=np.float64)


EXACT = 1e-9
SINGLE = 2e-7
"""Tolerance of a mean in double and in single precision; one rank of one query of 25,000 changes more."""


class Meaning(NamedTuple):
    """Which of our metrics stands beside a library's, and how the library's is computed from ranks.

    Without ``formula`` both are the same function; else ``why`` says how they differ. ``order`` overrides the library's
    order of equal scores; ``rule`` then says it in words. ``decimals`` are those that the library rounds to.
    """

    ours: str
    k: int = 0
    formula: Formula | None = None
    why: str = ""
    order: Order | None = None
    rule: str = ""
    decimals: int | None = None


@dataclass(frozen=True)
class Peer:
    """Another library that measures retrieval.

    Attributes:
        name: in the command and the tables.
        package: its name on PyPI.
        measure: from a part and names of metrics to their values.
        metrics: labels of a part to the library's names of metrics and their meanings.
        order: how it ranks items of equal scores.
        rule: the same in words, after "ties stand".
        most_queries: how many queries of a part it is given at most, evenly spaced, or None for all.
        tolerance: of its values.
    """

    name: str
    package: str
    measure: Callable[[Part, Sequence[str]], Mapping[str, float]]
    metrics: Mapping[str, Mapping[str, Meaning]]
    order: Order
    rule: str
    most_queries: int | None = None
    tolerance: float = EXACT

    @property
    def version(self) -> str | None:
        """The installed version."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


class Comparison(NamedTuple):
    """A value of a library beside ours. ``why`` is empty where they are equal, and None where nothing explains them."""

    library: str
    version: str
    n_queries: int
    labels: str
    direction: str
    metric: str
    value: float
    key: str
    ours: float
    why: str | None


def compare(peer: Peer, part: Part) -> Iterator[Comparison]:
    """The metrics of a library on a part, each with a proof of its difference."""
    part = part.thin(peer.most_queries)
    metrics = peer.metrics[part.labels]
    values = _measure(peer, part, list(metrics))
    ranks = cache(lambda order, k: order(part, k))
    for name, meaning in metrics.items():
        value, ours = values[name], part.value(meaning.ours)
        theirs = ranks(meaning.order or peer.order, meaning.k)
        why = explain(peer, meaning, part, theirs, value, ours)
        facts = str(peer.version), len(part.queries), part.labels, part.direction
        yield Comparison(peer.name, *facts, name, value, meaning.ours, ours, why)


def _measure(peer: Peer, part: Part, metrics: Sequence[str]) -> Mapping[str, float]:
    """A library's values, without its warnings and progress bars."""
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            return peer.measure(part, metrics)
    except (ImportError, AttributeError, TypeError) as error:
        raise InvalidOption(
            f"{peer.name} {peer.version} cannot be run: {error}. Install another version, or name other libraries."
        ) from error


def explain(peer: Peer, meaning: Meaning, part: Part, theirs: PositiveRanks, value: float, ours: float) -> str | None:
    """Why a value is not ours: only if the library's rules, stated again, give exactly its value."""

    def equal(left: float, right: float) -> bool:
        return abs(left - right) <= peer.tolerance

    def restate(ranks: PositiveRanks) -> float:
        return part.value(meaning.ours, ranks) if meaning.formula is None else meaning.formula(ranks, meaning.k).mean()

    if equal(value, ours):
        return ""
    exact = restate(theirs)
    stated = exact if meaning.decimals is None else round(float(exact), meaning.decimals)
    if not equal(value, stated):
        return None
    defined = restate(part.ranks)  # their formula, our ties
    reasons = [": ".join(filter(None, ("ties", meaning.rule)))] if not equal(exact, defined) else []
    reasons += [meaning.why] if not equal(defined, ours) else []
    return "; ".join(reasons) or f"rounded to {meaning.decimals} decimals"


HEADER = ("metric", "labels", "ours", "i2t", "ours", "t2i", "ours", "difference")
PROSE = frozenset({1, 2, 7})
UNEXPLAINED = "UNEXPLAINED"
LEGEND = "In percent. links: a caption belongs to its image; topics: to every image of its topic."


def comparison_tables(chosen: Sequence[Peer], rows: Sequence[Comparison]) -> list[Table]:
    """A table per library, with a row per metric and the values of both directions."""
    tables = [_table(peer, [row for row in rows if row.library == peer.name]) for peer in chosen]
    equal, unexplained = sum(row.why == "" for row in rows), sum(row.why is None for row in rows)
    counts = (
        f"{len(rows)} values: {equal} equal, {len(rows) - equal - unexplained} explained, {unexplained} unexplained."
    )
    return [*tables, Table((), (), notes=(LEGEND, counts))]


def _table(peer: Peer, rows: Sequence[Comparison]) -> Table:
    rule = f"ties stand {peer.rule}"
    if peer.version is None:
        return Table((), (), peer.name, rule, [f"not installed: pip install {peer.package}"])
    few = f"; at most {peer.most_queries:,} queries, evenly spaced" if peer.most_queries else ""
    header = [(heading,) for heading in HEADER]
    return Table(header, list(_lines(rows)), f"{peer.name} {peer.version}", rule + few, prose=PROSE)


def _lines(rows: Sequence[Comparison]) -> Iterator[Sequence[str | Cell]]:
    for labels, metric in dict.fromkeys((row.labels, row.metric) for row in rows):
        both = [row for row in rows if (row.labels, row.metric) == (labels, metric)]
        values = [f"{100 * value:.2f}" for row in both for value in (row.value, row.ours)]
        reasons = [reason for row in both for reason in (UNEXPLAINED if row.why is None else row.why).split("; ")]
        yield [
            metric,
            labels,
            metric_name(both[0].key),
            *values,
            "; ".join(filter(None, dict.fromkeys(reasons))) or MISSING,
        ]
