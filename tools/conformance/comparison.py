"""What is declared of a library, the proof of every difference, and the tables."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from conformance.kit import EXACT, Part, parts
from conformance.rules import Formula, Order
from conformance.values import check_ours
from cxc_eccv.errors import InvalidOption
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.types import PositiveRanks
from cxc_eccv.wording import metric_name

SINGLE = 2e-7
"""Tolerance of a mean in single precision; one rank of one query of 25,000 changes more."""


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
        package: its name on PyPI, with the version that the page shows.
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
            return version(self.package.partition("==")[0])
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
        value = values[name]
        ours = part.value(meaning.ours)
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


FEWEST = 20
"""Images of the smallest kit: a query's top 10 must exist."""


def run_kit(chosen: Collection[Peer], n_images: int = 5_000) -> list[Comparison]:
    """Compare the installed ones of these libraries with our values.

    Args:
        chosen: runners; one whose library is not installed is left out.
        n_images: size of the kit, which has five captions an image.

    Returns:
        A comparison per library, labels, direction and metric, in the order of the libraries.

    Raises:
        InvalidOption: the kit has fewer than 20 images.
        DataError: our values are not those of ``expected.json``.
    """
    if n_images < FEWEST:
        raise InvalidOption(f"the kit needs at least {FEWEST} images, not {n_images}")
    installed = [peer for peer in chosen if peer.version is not None]
    rows = []
    for part in parts(n_images):
        check_ours(part, n_images)
        rows += [row for peer in installed for row in compare(peer, part)]
        del part  # the scores of one direction at a time
    order = [peer.name for peer in installed]
    return sorted(rows, key=lambda row: order.index(row.library))


HEADER = ("metric", "labels", "ours", "i2t", "ours", "t2i", "ours", "difference")
PROSE = frozenset({1, 2, 7})
UNEXPLAINED = "UNEXPLAINED"
LEGEND = "In percent. links: a caption belongs to its image; topics: to every image of its topic."


def comparison_tables(chosen: Sequence[Peer], rows: Sequence[Comparison]) -> list[Table]:
    """A table per library, with a row per metric and the values of both directions."""
    tables = [_table(peer, [row for row in rows if row.library == peer.name]) for peer in chosen]
    equal = sum(row.why == "" for row in rows)
    unexplained = sum(row.why is None for row in rows)
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
