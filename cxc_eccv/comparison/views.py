"""Comparisons and placements to look at: console tables, and the text of compare.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from cxc_eccv.comparison.labels import metric_name, show_value, task_name
from cxc_eccv.comparison.paired import Comparison, Difference
from cxc_eccv.comparison.published import Agreement, Placement, PublishedTable
from cxc_eccv.shown import visible
from cxc_eccv.terminal import Sheet
from cxc_eccv.types.reported import group_by_reason

__all__ = ["comparison_to_json", "render_comparison", "render_placements"]

SCHEMA = 1
P_VALUE = "two-sided: 2 (1 + min(samples <= 0, samples >= 0)) / (samples + 1), at most 1"
RESAMPLED = "images with all their queries, with replacement, the same draws for both models"


def comparison_to_json(
    comparison: Comparison | None,
    placements: Sequence[Placement] = (),
    tables: Sequence[PublishedTable] = (),
    agreement: Agreement | None = None,
) -> str:
    """The text of ``compare.json``; values are in the units of report.json."""
    content: dict[str, Any] = {"schema": SCHEMA}
    if comparison is not None:
        content |= _record(comparison)
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


def _record(comparison: Comparison) -> dict[str, Any]:
    return {
        "baseline": comparison.baseline,
        "models": comparison.models,
        "settings": {
            **asdict(comparison.settings),
            "resampled": RESAMPLED,
            "interval": "percentile",
            "p_value": P_VALUE,
            "correction": "Holm",
            "tests": len(comparison.differences),
        },
        "differences": [
            {"key": row.key, **asdict(row), "significant": comparison.significant(row)}
            for row in comparison.differences
        ],
        "not_compared": comparison.not_compared,
        "notes": comparison.notes,
    }


LEAST_SHOWN = 0.001
LONGEST_HEADING = 16
"""Longer names of models do not stand above columns; the title or a legend has them."""

STACKED = (
    ((0,), (1,), (2,), (3, 4), (5, 6), (7,)),
    ((0,), (1, 2), (3, 4), (5, 6, 7)),
)
"""Columns of a comparison that share one in a narrow terminal: value over interval, p over Holm, and so on."""


def render_comparison(comparison: Comparison) -> RenderableType:
    """A table per model against the baseline, what was left out, and the notes."""
    settings, n_tests = comparison.settings, len(comparison.differences)
    blocks: list[RenderableType] = []
    for model in comparison.models:
        blocks.append(Text(visible(f"{model} against {comparison.baseline}"), style="bold"))
        blocks.append(_differences([row for row in comparison.differences if row.model == model], comparison))
        blocks += [
            Text(visible(f"not compared: {', '.join(keys)}: {reason}"), style="dim")
            for reason, keys in group_by_reason(comparison.not_compared.get(model, {})).items()
        ]
    family = "the main metric of each task" if settings.metrics == "main" else "all metrics"
    legend = (
        f"Percent, or ranks. Difference with its {100 * settings.confidence:g}% interval; p two-sided, from a paired "
        f"bootstrap over images ({settings.samples:,} samples, seed {settings.seed}); Holm: p corrected for {n_tests} "
        f"tests ({family}), * under {settings.level:.2g}; won:lost counts the queries that the model does better or "
        "worse."
    )
    notes = (Text(visible(f"note: {note}")) for note in comparison.notes)
    return Group(*blocks, Text(legend, style="dim"), *notes)


def render_placements(table: PublishedTable, placements: Sequence[Placement], names: Sequence[str]) -> RenderableType:
    """A row per metric: each model's value, its rank, and for one model its neighbours.

    The placements are those of the table, the names those of the models in order.
    """
    by_key: dict[str, dict[str, Placement]] = {}
    for placement in placements:
        by_key.setdefault(placement.key, {})[placement.model] = placement
    title = Text.assemble(("Among published models", "bold"), (f"  {table.title}, {table.printed_in}", "dim"))
    if not by_key:
        return Group(title, Text("  no metric in common\n", style="dim"))
    legend, headings = _headings(names)
    source = Text(f"Of equal values, published models rank first. {table.citation}. {table.url}\n", style="dim")
    pairs = [(2 * place + 1, 2 * place + 2) for place in range(len(names))]  # no table ends between value and rank
    header = ["", *(cell for heading in headings for cell in (heading, "rank"))]
    if len(names) == 1:
        header, pairs = [*header, "just above", "just below"], [*pairs, (3, 4)]
    rows = list(_placement_rows(by_key, names, table.decimals - 2))
    prose = frozenset(range(2 * len(names) + 1, len(header)))
    return Group(title, *legend, Sheet(header, rows, prose, [[(0,), *pairs]]), source)


def _headings(names: Sequence[str]) -> tuple[list[Text], list[str]]:
    """A legend of the names that are too long to stand above a column, and what stands there."""
    if all(len(name) <= LONGEST_HEADING for name in names):
        return [], list(names)
    headings = ["model"] if len(names) == 1 else [f"model {place}" for place in range(1, len(names) + 1)]
    return [Text(visible(f"{short}: {name}")) for short, name in zip(headings, names, strict=True)], headings


def _placement_rows(
    by_key: Mapping[str, Mapping[str, Placement]], names: Sequence[str], decimals: int
) -> Iterator[Sequence[str]]:
    for task in dict.fromkeys(key.split("/")[0] for key in by_key):
        yield [task_name(task)]
        for key in (key for key in by_key if key.split("/")[0] == task):
            cells = [cell for name in names for cell in _placement_cells(by_key[key].get(name), decimals)]
            alone = by_key[key].get(names[0]) if len(names) == 1 else None
            yield [_row_name(key), *cells, *([alone.above or "", alone.below or ""] if alone else [])]


def _differences(rows: Sequence[Difference], comparison: Comparison) -> Sheet:
    model = rows[0].model if rows else ""
    is_short = max(len(model), len(comparison.baseline)) <= LONGEST_HEADING
    names = (comparison.baseline, model) if is_short else ("baseline", "model")
    header = ("", *names, "difference", "interval", "p", "Holm", "won:lost")
    lines: list[Sequence[str]] = []
    styles = []
    for task in dict.fromkeys(row.task for row in rows):
        own = [row for row in rows if row.task == task]
        lines += [[task_name(task)], *(_difference_cells(row, comparison.significant(row)) for row in own)]
        styles += ["", *("bold" if comparison.significant(row) else "" for row in own)]
    return Sheet(header, lines, stacked=STACKED, styles=styles)


def _difference_cells(row: Difference, significant: bool) -> list[str]:
    return [
        _row_name(row.key),
        show_value(row.metric, row.baseline_value),
        show_value(row.metric, row.value),
        show_value(row.metric, row.difference, "+.1f"),
        f"[{show_value(row.metric, row.low, '+.1f')}, {show_value(row.metric, row.high, '+.1f')}]",
        _p(row.p_value),
        f"{_p(row.p_holm)} {'*' if significant else ' '}",
        f"{row.better:,}:{row.worse:,}" if row.direction else "",
    ]


def _placement_cells(place: Placement | None, decimals: int) -> list[str]:
    if place is None:
        return ["", ""]
    return [
        show_value(place.key.rpartition("/")[2], place.value, f".{decimals}f"),
        f"{place.rank} of {place.n_models}",
    ]


def _row_name(key: str) -> str:
    """Direction and metric; ``both`` is their mean, or RSUM."""
    _, *direction, metric = key.split("/")
    return f"  {''.join(direction) or 'both'} {metric_name(metric)}"


def _p(value: float) -> str:
    return f"<{LEAST_SHOWN}" if value < LEAST_SHOWN else f"{value:.3f}"
