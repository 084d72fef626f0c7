"""Tables of published models, and the texts of the files of a comparison."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby

from cxc_eccv.comparison.differences import Comparison
from cxc_eccv.comparison.label_agreement import ModelAgreement
from cxc_eccv.comparison.published import Joined, Row
from cxc_eccv.registry import metric_labelled
from cxc_eccv.sources.catalog import OFFICIAL, describe_data
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.terminal import visible
from cxc_eccv.types.provenance import DataFacts
from cxc_eccv.types.result import SPREAD
from cxc_eccv.types.strict_json import Json
from cxc_eccv.wording import heading_of, show_value

LONGEST_NAME = 32
"""A longer name of a user's model stands below the table."""

SEEN = "†"
"""Beside a user's model that was trained on photographs or captions of COCO or Flickr30k."""

PUBLISHED_DATA = describe_data(DataFacts(edition=OFFICIAL), "test")
"""What published models were scored on; other reports cannot be compared with them."""


def comparison_to_json(comparison: Comparison | ModelAgreement | None, tables: Sequence[Joined] = ()) -> str:
    """The text of ``compare.json``; values are in the units of report.json."""
    content: dict[str, Json] = {"schema": 1}
    if isinstance(comparison, ModelAgreement):
        content["agreement"] = asdict(comparison)
    elif comparison is not None:
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
            "ranks_under_any_labels": comparison.ranks_under_any_labels,
            "not_compared": comparison.not_compared,
            "notes": comparison.notes,
        }
    if tables:
        content["published"] = [
            {
                **{name: getattr(joined.table, name) for name in ("name", "citation", "url")},
                "models": [asdict(row) for row in joined.rows],
            }
            for joined in tables
        ]
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def joined_to_csv(tables: Sequence[Joined]) -> str:
    """A row per model and table: unrounded values in the units of report.json, under its keys."""
    rows: list[dict[str, object]] = []
    for joined in tables:
        for row in joined.rows:
            cells: dict[str, object] = {"table": joined.table.name, "model": visible(row.model)}
            cells["published"] = row.published
            cells["trained_on"] = visible(row.trained_on)
            for key in joined.keys:
                if key in row.values:
                    cells[key] = row.values[key]
                if key in row.deviations:
                    cells[f"{key}{SPREAD}"] = row.deviations[key]
            rows.append(cells)
    return rows_to_csv(rows)


def rows_to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Write rows as CSV; a column that a row lacks is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text := io.StringIO(), names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


NEIGHBOURS = 2
"""Published models shown on each side of a user's model, and below the first."""


def brief_table(joined: Joined) -> Table:
    """The main metric and R@1 of the user's models, of the first models, and of those next to the user's."""
    main = joined.by.rpartition("/")[2]
    keys = dict.fromkeys(key for key in (joined.by, *joined.keys) if key.rpartition("/")[2] in (main, "recall_at_1"))
    table = joined_tables(replace(joined, keys=tuple(filter(None, keys))))[0]
    if not table.rows:
        return table
    listed = _list_rows(joined, keys)
    own = [place for place, row in enumerate(listed) if not row.published]
    near = {place + step for place in (0, *own) for step in range(-NEIGHBOURS, NEIGHBOURS + 1)}
    rows: list[Sequence[str | Cell]] = []
    for place, cells in enumerate(table.rows):
        if place in near:
            rows.append(cells)
        elif len(rows[-1]) > 1:
            rows.append(["..."])
    elsewhere = f"With --output, compare.html has all {len(joined.rows)} models and every metric."
    return replace(table, rows=rows, elsewhere=elsewhere)


def _list_rows(joined: Joined, keys: Collection[str]) -> list[Row]:
    """The user's models, and the published ones with one of these metrics."""
    return [row for row in joined.rows if not row.published or any(key in row.values for key in keys)]


def joined_tables(joined: Joined, others: str = "your models") -> list[Table]:
    """A row per model; best values and the ``others``, which are not published, in bold; wide tables continue below."""
    paper = joined.table
    title = f"Published models of {paper.title}"
    subtitle = paper.printed_in
    if not joined.keys:
        return [Table((), (), title, subtitle, ["no metric in common"], data=PUBLISHED_DATA)]
    parts: list[list[str]] = [[]]
    for _, group in groupby(joined.keys, key=lambda key: key.rpartition("/")[0]):
        keys = list(group)
        if len(parts[-1]) + len(keys) > 14:  # as many columns as fit a page
            parts.append([])
        parts[-1] += keys
    own = [row.model for row in joined.rows if not row.published]
    long = any(len(name) > LONGEST_NAME for name in own)
    shown = {name: f"model {place}" if long else name for place, name in enumerate(own, 1)}
    both = "" if joined.by.count("/") > 1 else ". Values are means of both directions, RSUM the sum of COCO 1K"
    legend = f"Ordered by {' '.join(filter(None, heading_of(joined.by)))}, of equal models published ones first{both}."
    names = [f"{short}: {name}" for name, short in shown.items() if long]
    names += [
        f"{SEEN} {shown[row.model]} was trained on {row.trained_on}. Its rank is fair only among models that were "
        "trained on these too."
        for row in joined.rows
        if row.trained_on
    ]
    return [
        Table(
            [("", "", ""), ("", "", "rank"), *map(heading_of, keys)],
            list(_joined_rows(joined, keys, shown)),
            f"{title}, {place} of {len(parts)}" if len(parts) > 1 else title,
            subtitle,
            [*names, legend, f"{paper.citation}. {paper.url}"] if place == len(parts) else (),
            bold=f"The best values and {others} are in bold." if place == len(parts) else "",
            data=PUBLISHED_DATA,
        )
        for place, keys in enumerate(parts, 1)
    ]


def _joined_rows(joined: Joined, keys: Sequence[str], shown: Mapping[str, str]) -> Iterator[list[str | Cell]]:
    best = {key: _find_best(joined, key) for key in keys}
    for row in _list_rows(joined, keys):
        rank = str(joined.rows.index(row) + 1) if joined.by in row.values else MISSING
        values = [_value_cell(joined, row, key, best[key]) if key in row.values else MISSING for key in keys]
        mark = f" {SEEN}" if row.trained_on else ""
        name = Cell(row.model) if row.published else Cell(f"{shown[row.model]}{mark}", strong=True)
        yield [name, rank, *values]


def _find_best(joined: Joined, key: str) -> str:
    """The best value under a metric, as it is shown."""
    metric = key.rpartition("/")[2]
    best = max if metric_labelled(metric)[0].higher_is_better else min
    value = best(row.values[key] for row in joined.rows if key in row.values)
    return show_value(metric, value, joined.table.decimals - 2)


def _value_cell(joined: Joined, row: Row, key: str, best: str) -> Cell:
    """A value as its paper prints it, with the deviation of its samples; in bold if it looks like the best."""
    metric = key.rpartition("/")[2]
    decimals = joined.table.decimals - 2
    text = show_value(metric, row.values[key], decimals)
    deviation = f"± {show_value(metric, row.deviations[key], decimals)}" if key in row.deviations else ""
    return Cell(text, deviation, strong=text == best)
