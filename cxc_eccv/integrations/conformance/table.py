"""Tables of all comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cxc_eccv.comparison.labels import metric_name
from cxc_eccv.integrations.conformance.peer import Comparison, Peer
from cxc_eccv.tables import MISSING, Cell, Table

HEADER = ("metric", "labels", "ours", "i2t", "ours", "t2i", "ours", "difference")
STACKED = (((0,), (1, 2), (3, 4), (5, 6), (7,)),)
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
    return Table(header, list(_lines(rows)), f"{peer.name} {peer.version}", rule + few, prose=PROSE, stacked=STACKED)


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
