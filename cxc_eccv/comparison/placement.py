"""A model's place among published models, metric by metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cxc_eccv.comparison.published import PublishedTable
from cxc_eccv.comparison.published.both_directions import both_directions
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.catalog import OFFICIAL, load_catalog
from cxc_eccv.types import Report

__all__ = ["Placement", "Standing", "check_placeable", "place", "standings"]

LESS_IS_MORE = ("median_rank",)
"""The only published metric whose smaller values are better."""

UNROUNDED = ("median_rank", "rsum")
SPLIT = "test"


@dataclass(frozen=True, slots=True)
class Standing:
    """One model under one metric.

    Attributes:
        model: its name.
        value: in the report's units.
        published: whether the value is a printed one.
    """

    model: str
    value: float
    published: bool


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of one of the user's models under one metric.

    Attributes:
        table: name of the published table.
        key: ``task/direction/metric``, or ``task/metric`` for the mean of both directions.
        model: its name.
        value: rounded as the table prints it.
        rank: 1 for the best; of equal values, published ones rank above, the user's models follow in the order given.
        n_models: models ranked, the user's among them.
        above, below: names of the neighbours in the order, None at its ends.
    """

    table: str
    key: str
    model: str
    value: float
    rank: int
    n_models: int
    above: str | None
    below: str | None


def place(table: PublishedTable, reports: Mapping[str, Report]) -> tuple[Placement, ...]:
    """Rank models together with the published ones under every metric that both have.

    Args:
        table: published figures.
        reports: name of a model to its report on the COCO test split.

    Returns:
        A placement per metric and model, in the order of the table's metrics.

    Raises:
        InvalidOption: a report is not of the official data's test split.

    Example:
        >>> from cxc_eccv.comparison.published import cxc_table
        >>> from cxc_eccv.types import Result
        >>> facts = {"split": "test", "data": {"edition": "official", "files": {}}}
        >>> report = Report((Result("cxc", "t2t", "recall_at_1", 0.41, 25_000),), {}, facts)
        >>> found = place(cxc_table(), {"mine": report})[0]
        >>> found.rank, found.n_models, found.above, found.below
        (4, 8, 'VSRN (released)', 'VSE++')
    """
    for name, report in reports.items():
        check_placeable(name, report)
    placements = []
    for key in table.keys:
        order = standings(table, key, reports)
        names = [None, *(one.model for one in order), None]
        placements += [
            Placement(table.name, key, one.model, one.value, rank, len(order), names[rank - 1], names[rank + 1])
            for rank, one in enumerate(order, 1)
            if not one.published
        ]
    return tuple(placements)


def standings(table: PublishedTable, key: str, reports: Mapping[str, Report]) -> list[Standing]:
    """All models that have a metric, best first; of equal values, the published ones first.

    Args:
        table: published figures.
        key: one of ``table.keys``.
        reports: name of a model to its report.

    Example:
        >>> from cxc_eccv.comparison.published import cxc_table
        >>> [one.model for one in standings(cxc_table(), "cxc/i2i/median_rank", {})][:2]
        ['VSE++', 'VSRN (released)']
    """
    ranked = [Standing(model, value, True) for model, value in table.scores_of(key).items()]
    for name, report in reports.items():
        value = _scores(report, table.decimals).get(key)
        if value is not None:
            ranked.append(Standing(name, value, False))
    sign = 1 if key.rpartition("/")[2] in LESS_IS_MORE else -1
    return sorted(ranked, key=lambda one: sign * one.value)


def check_placeable(name: str, report: Report) -> None:
    """Refuse a report that published figures say nothing about.

    Raises:
        InvalidOption: another edition of the data, another split, or a raw file that is not the official one.

    Example:
        >>> check_placeable("mine", Report((), {}, {"split": "test", "data": {"edition": "official"}}))
    """
    data = report.provenance.get("data") or {}
    for what, found, wanted in (
        ("edition", data.get("edition"), OFFICIAL),
        ("split", report.provenance.get("split"), SPLIT),
    ):
        if found != wanted:
            raise InvalidOption(
                f"{name} cannot be placed among published models: its {what} is {found!r}, theirs is {wanted!r}. "
                "Evaluate it on the official data's test split."
            )
    catalog = load_catalog()
    for file, sha256 in (data.get("files") or {}).items():
        official = catalog.entry(file).sha256 if file in catalog else None
        if official is not None and sha256 != official:
            raise InvalidOption(
                f"{name} cannot be placed among published models: it was scored with a modified {file}, of sha256 "
                f"{sha256}; the official file has {official}."
            )


def _scores(report: Report, decimals: int) -> dict[str, float]:
    """The report's scores as a paper would print them, and those over both directions."""
    rounded = {row.key: row.value if row.metric in UNROUNDED else round(row.value, decimals) for row in report.results}
    return rounded | both_directions(rounded)
