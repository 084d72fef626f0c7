"""Comparisons and placements as console tables."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cxc_eccv.comparison.difference import Comparison, Difference
from cxc_eccv.comparison.labels import metric_name, shown_value, task_name
from cxc_eccv.comparison.placement import Placement
from cxc_eccv.comparison.published import PublishedTable

__all__ = ["render_comparison", "render_placements"]

LEAST_SHOWN = 0.001
NEIGHBOUR_WIDTH = 24


def render_comparison(comparison: Comparison) -> RenderableType:
    """A table per model against the baseline, what was left out, and the notes.

    Example:
        >>> from rich.console import Console
        >>> from cxc_eccv.comparison.difference import Settings
        >>> one = Difference("new", "old", "cxc", "t2t", "recall_at_1", 0.42, 0.38, 0.04, 0.02, 0.06, 0.001, 0.003,
        ...                  True, 9, 5, 100, 20)
        >>> console = Console(width=100)
        >>> with console.capture() as shown:
        ...     console.print(render_comparison(Comparison("old", ("new",), Settings(), (one,))))
        >>> "+4.0 [+2.0, +6.0]" in shown.get(), "0.003 *" in shown.get()
        (True, True)
    """
    settings, n_tests = comparison.settings, len(comparison.differences)
    level = 1 - settings.confidence
    blocks: list[RenderableType] = []
    for model in comparison.models:
        rows = [one for one in comparison.differences if one.model == model]
        blocks += [Text.assemble((f"{model} against {comparison.baseline}", "bold")), _differences(rows, comparison)]
        blocks += _left_out(comparison.not_compared.get(model, {}))
    legend = (
        f"Percent, or ranks. Difference with its {100 * settings.confidence:g}% interval; p two-sided, from a paired "
        f"bootstrap over images ({settings.samples:,} samples, seed {settings.seed}); Holm: p corrected for {n_tests} "
        f"tests, * under {level:.2g}; won:lost counts the queries that the model does better or worse."
    )
    return Group(*blocks, Text(legend, style="dim"), *(Text(f"note: {note}") for note in comparison.notes))


def render_placements(table: PublishedTable, placements: Sequence[Placement], names: Sequence[str]) -> RenderableType:
    """A row per metric: each model's value, its rank, and for one model its neighbours.

    Args:
        table: the published figures.
        placements: of that table.
        names: of the models, in order.
    """
    grid = Table(box=box.SIMPLE_HEAD)
    grid.add_column("", no_wrap=True)
    for name in names:
        grid.add_column(name, justify="right", min_width=6, overflow="fold")
        grid.add_column("rank", justify="right", no_wrap=True)
    if len(names) == 1:
        for neighbour in ("just above", "just below"):
            grid.add_column(neighbour, no_wrap=True, max_width=NEIGHBOUR_WIDTH)
    by_key: dict[str, dict[str, Placement]] = {}
    for one in placements:
        by_key.setdefault(one.key, {})[one.model] = one
    for task in dict.fromkeys(key.split("/")[0] for key in by_key):
        grid.add_section()
        grid.add_row(task_name(task))
        for key in (key for key in by_key if key.split("/")[0] == task):
            cells = [_placement_cells(by_key[key].get(name), table.decimals - 2, len(names) == 1) for name in names]
            grid.add_row(_row_name(key), *itertools.chain(*cells))
    title = Text.assemble(("Among published models", "bold"), (f"  {table.title}, {table.printed_in}", "dim"))
    if not by_key:
        return Group(title, Text("  no metric in common\n", style="dim"))
    source = Text(f"Of equal values, published models rank first. {table.citation}. {table.url}\n", style="dim")
    return Group(title, grid, source)


def _differences(rows: Sequence[Difference], comparison: Comparison) -> Table:
    grid = Table(box=box.SIMPLE_HEAD)
    grid.add_column("", no_wrap=True)
    for heading in (comparison.baseline, rows[0].model if rows else ""):
        grid.add_column(heading, justify="right", min_width=6, overflow="fold")
    for heading in ("difference", "p", "Holm", "won:lost"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for task in dict.fromkeys(one.task for one in rows):
        grid.add_section()
        grid.add_row(task_name(task))
        for one in rows:
            if one.task == task:
                significant = comparison.significant(one)
                grid.add_row(*_difference_cells(one, significant), style="bold" if significant else "")
    return grid


def _difference_cells(one: Difference, significant: bool) -> list[str]:
    interval = f"[{shown_value(one.metric, one.low, '+.1f')}, {shown_value(one.metric, one.high, '+.1f')}]"
    return [
        _row_name(one.key),
        shown_value(one.metric, one.baseline_value),
        shown_value(one.metric, one.value),
        f"{shown_value(one.metric, one.difference, '+.1f')} {interval}",
        _p(one.p_value),
        f"{_p(one.p_holm)} {'*' if significant else ' '}",
        f"{one.better:,}:{one.worse:,}" if one.direction else "",
    ]


def _placement_cells(one: Placement | None, decimals: int, with_neighbours: bool) -> list[str]:
    if one is None:
        return ["", ""]
    value = shown_value(one.key.rpartition("/")[2], one.value, f".{decimals}f")
    neighbours = [one.above or "", one.below or ""] if with_neighbours else []
    return [value, f"{one.rank} of {one.n_models}", *neighbours]


def _left_out(reasons: Mapping[str, str]) -> list[Text]:
    by_reason: dict[str, list[str]] = {}
    for key, reason in reasons.items():
        by_reason.setdefault(reason, []).append(key)
    return [Text(f"not compared: {', '.join(keys)}: {reason}", style="dim") for reason, keys in by_reason.items()]


def _row_name(key: str) -> str:
    """Direction and metric; ``both`` is their mean, or RSUM."""
    _, *direction, metric = key.split("/")
    return f"  {''.join(direction) or 'both'} {metric_name(metric)}"


def _p(value: float) -> str:
    return f"<{LEAST_SHOWN}" if value < LEAST_SHOWN else f"{value:.3f}"
