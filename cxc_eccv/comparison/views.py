"""Tables of comparisons and placements, and the texts of their files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from cxc_eccv.comparison.differences import LONGEST_HEADING, Comparison
from cxc_eccv.comparison.published import Agreement, ModelOrder, Placement, PublishedTable, Standing
from cxc_eccv.comparison.ranks import ranks_under_any_labels
from cxc_eccv.sources.catalog import OFFICIAL, describe_data
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.terminal import visible
from cxc_eccv.types.reported import SPREAD
from cxc_eccv.wording import heading_of, key_name, show_value, task_name

PUBLISHED_DATA = describe_data({"data": {"edition": OFFICIAL}, "split": "test"})
"""What published models were scored on; other reports cannot be placed among them."""


def comparison_to_json(
    comparison: Comparison | None,
    placements: Sequence[Placement] = (),
    tables: Sequence[PublishedTable] = (),
    agreement: Agreement | None = None,
) -> str:
    """The text of ``compare.json``; values are in the units of report.json."""
    content: dict[str, Any] = {"schema": 1}
    if comparison is not None:
        content |= {
            "data": comparison.data,
            "baseline": comparison.baseline,
            "models": comparison.models,
            "settings": {
                **asdict(comparison.settings),
                "resampled": "images with all their queries, with replacement, the same draws for both models",
                "interval": "percentile",
                "p_value": "two-sided: 2 (1 + min(samples <= 0, samples >= 0)) / (samples + 1), at most 1",
                "correction": "Holm",
                "tests": len(comparison.differences),
            },
            "differences": [
                {"key": row.key, **asdict(row), "significant": comparison.significant(row)}
                for row in comparison.differences
            ],
            "ranks": [{"key": row.key, **asdict(row)} for row in comparison.ranks],
            "ranks_under_any_labels": ranks_under_any_labels(comparison.ranks),
            "not_compared": comparison.not_compared,
            "notes": comparison.notes,
        }
    if tables:
        content["published"] = {
            "sources": [{name: getattr(table, name) for name in ("name", "citation", "url")} for table in tables],
            "placements": [asdict(placement) for placement in placements],
        }
    if agreement is not None:
        content["published"]["agreement"] = {
            "statistic": "Kendall tau-b",
            "metrics": agreement.metrics,
            "models": len(agreement.models),
            "tau": agreement.tau.tolist(),
        }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def order_to_csv(order: ModelOrder) -> str:
    """A row per model: unrounded values in the units of report.json, under its keys."""
    rows: list[dict[str, object]] = []
    for model in order.models:
        row: dict[str, object] = {"model": visible(model.name), "published": model.published}
        for key, standings in order.standings.items():
            if model in standings:
                row |= {key: standings[model].value, f"{key}{SPREAD}": standings[model].deviation}
        rows.append({name: value for name, value in row.items() if value is not None})
    return rows_to_csv(rows)


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Write rows as CSV; a column that a row lacks is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text := io.StringIO(), names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def placement_table(table: PublishedTable, placements: Sequence[Placement], names: Sequence[str]) -> Table:
    """A row per metric with each model's value and rank, and for a single model its neighbours."""
    title, subtitle = "Among published models", f"{table.title}, {table.printed_in}"
    by_key: dict[str, dict[str, Placement]] = {}
    for placement in placements:
        by_key.setdefault(placement.key, {})[placement.model] = placement
    if not by_key:
        return Table((), (), title, subtitle, ["no metric in common"], data=PUBLISHED_DATA)
    legend, headings = [], list(names)
    if any(len(name) > LONGEST_HEADING for name in names):
        headings = ["model"] if len(names) == 1 else [f"model {place}" for place in range(1, len(names) + 1)]
        legend = [f"{short}: {name}" for short, name in zip(headings, names, strict=True)]
    header = ["", *(cell for heading in headings for cell in (heading, "rank"))]
    if len(names) == 1:
        header += ["just above", "just below"]
    return Table(
        [(heading,) for heading in header],
        list(_placement_rows(by_key, names, table.decimals - 2)),
        title,
        subtitle,
        [*legend, f"With equal values, published models rank first. {table.citation}. {table.url}"],
        prose=frozenset(range(2 * len(names) + 1, len(header))),
        data=PUBLISHED_DATA,
    )


def _placement_rows(
    by_key: Mapping[str, Mapping[str, Placement]], names: Sequence[str], decimals: int
) -> Iterator[Sequence[str | Cell]]:
    for task in dict.fromkeys(key.split("/")[0] for key in by_key):
        yield [task_name(task)]
        for key in (key for key in by_key if key.split("/")[0] == task):
            cells: list[str | Cell] = []
            for place in (by_key[key].get(name) for name in names):
                cells += [_value_cell(key, place, decimals), f"{place.rank} of {place.n_models}"] if place else ["", ""]
            alone = by_key[key].get(names[0]) if len(names) == 1 else None
            yield [key_name(key), *cells, *([alone.above or "", alone.below or ""] if alone else [])]


def _value_cell(key: str, standing: Placement | Standing, decimals: int, best: str = "") -> Cell:
    """A value as its paper prints it, with the deviation of its samples; in bold if it looks like the best."""
    metric = key.rpartition("/")[2]
    text = show_value(metric, standing.value, decimals)
    deviation = "" if standing.deviation is None else f"± {show_value(metric, standing.deviation, decimals)}"
    return Cell(text, deviation, strong=text == best)


def order_tables(order: ModelOrder) -> list[Table]:
    """A row per model, with the user's models and the best values in bold; wide tables continue below."""
    paper = order.table
    title, subtitle = f"Published models of {paper.title}", paper.printed_in
    if not order.standings:
        return [Table((), (), title, subtitle, ["no metric in common"], data=PUBLISHED_DATA)]
    parts: list[list[str]] = [[]]
    for _, group in groupby(order.standings, key=lambda key: key.rpartition("/")[0]):
        keys = list(group)
        if len(parts[-1]) + len(keys) > 14:  # as many columns as fit a page
            parts.append([])
        parts[-1] += keys
    both = "" if order.by.count("/") > 1 else "; means of both directions, RSUM of COCO 1K"
    legend = (
        f"In the order of {' '.join(filter(None, heading_of(order.by)))}{both}; best values and your models in bold."
    )
    return [
        Table(
            [("", "", ""), ("", "", "rank"), *map(heading_of, keys)],
            list(_order_rows(order, keys)),
            f"{title}, {place} of {len(parts)}" if len(parts) > 1 else title,
            subtitle,
            [legend, f"{paper.citation}. {paper.url}"] if place == len(parts) else (),
            data=PUBLISHED_DATA,
        )
        for place, keys in enumerate(parts, 1)
    ]


def _order_rows(order: ModelOrder, keys: Sequence[str]) -> Iterator[list[str | Cell]]:
    decimals = order.table.decimals - 2
    shown = {key: order.standings[key] for key in keys}
    best = {key: _value_cell(key, next(iter(of_key.values())), decimals).text for key, of_key in shown.items()}
    for place, model in enumerate(order.models, 1):
        if model.published and not any(model in of_key for of_key in shown.values()):
            continue
        rank = str(place) if model in order.standings[order.by] else MISSING
        values = [
            _value_cell(key, of_key[model], decimals, best[key]) if model in of_key else MISSING
            for key, of_key in shown.items()
        ]
        yield [Cell(model.name, strong=not model.published), rank, *values]
