"""A bump chart of the ranks of models from metric to metric."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from cxc_eccv.comparison.published import HEADLINES, PublishedTable, Standing, check_placeable, standings
from cxc_eccv.errors import InvalidOption
from cxc_eccv.types import Report
from cxc_eccv.wording import list_names, metric_name, task_name

MARKS = (
    ("#0072B2", "o", "white"),
    ("#D55E00", "s", "black"),
    ("#009E73", "D", "black"),
    ("#CC79A7", "P", "black"),
    ("#E69F00", "h", "black"),
    ("#56B4E9", "X", "black"),
)
"""Line colour, shape and number colour of each model: Okabe and Ito's palette, told apart with any colour vision."""

QUIET, GUIDE, INK = "#B9BEC6", "#EEF0F3", "#4A515B"
STYLE = {"font.family": "DejaVu Sans", "svg.hashsalt": "cxc_eccv", "svg.fonttype": "path", "text.parse_math": False}
COLUMN_INCHES, ROW_INCHES, DOTS_PER_INCH = 0.95, 0.27, 150
MARGIN, ABOVE, BELOW = 3.1, 5.0, 2.2
"""Columns left and right of the lines; rows above and below them."""

RANK_GAP, NAME_GAP, EDGE = 0.4, 0.6, 0.25
LEAST_INCHES, LONGEST_NAME, MOST_NAMES = 10.0, 30, 3
MARK_SIZE, OPEN_MARK_SIZE = 18, 24


def charted_metrics(table: PublishedTable, reports: Mapping[str, Report]) -> list[str]:
    """The headline metrics of the paper that all models have, in the paper's order."""
    n_models = len(table.models) + len(reports)
    return [key for key in HEADLINES if len(standings(table, key, reports)) == n_models]


def draw_rank_chart(table: PublishedTable, reports: Mapping[str, Report], paths: Sequence[Path]) -> None:
    """Draw the ranks under every headline metric, one to six models in colour over the published ones in grey."""
    for name, report in reports.items():
        check_placeable(name, report)
    keys = charted_metrics(table, reports)
    if len(keys) < 2:
        raise InvalidOption(
            f"a chart needs at least 2 metrics over both directions that all models have; {list_names(reports)} and "
            f"the published models share {list_names(keys) or 'none'}"
        )
    if not 0 < len(reports) <= len(MARKS):
        raise InvalidOption(f"a chart shows 1 to {len(MARKS)} models among the published ones, not {len(reports)}")
    n_models = len(table.models) + len(reports)
    with import_matplotlib().rc_context(STYLE):
        width, height = len(keys) - 1 + 2 * MARGIN, n_models + ABOVE + BELOW
        size = max(LEAST_INCHES, width * COLUMN_INCHES), height * ROW_INCHES
        figure = import_matplotlib("figure").Figure(figsize=size)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(-MARGIN, len(keys) - 1 + MARGIN), ylim=(n_models + BELOW, -ABOVE))
        axes.set_axis_off()
        _draw_titles(axes, table, reports, n_models)
        _draw_headings(axes, keys, n_models)
        _draw_models(axes, [standings(table, key, reports) for key in keys], list(reports))
        # No date in the file, so that equal inputs give equal files.
        metadata = {"Date": None, "Title": f"Ranks of {list_names(reports)}"}
        for path in paths:
            marked = metadata if path.suffix == ".svg" else None
            figure.savefig(path, dpi=DOTS_PER_INCH, metadata=marked, facecolor="white")


def _draw_titles(axes: Any, table: PublishedTable, names: Iterable[str], n_models: int) -> None:  # noqa: ANN401 - matplotlib comes late
    shown = [_shorten(name) for name in names]
    subject = list_names(shown) if len(shown) <= MOST_NAMES else f"{len(shown)} models"
    title = f"{subject} among {len(table.models)} published models"
    subtitle = "Rank under each metric, 1 is best; mean of image-to-text and text-to-image retrieval, COCO test split."
    source = f"Grey: {table.citation.split(', ')[0]}, {table.title} ({table.url}), {table.printed_in}."
    left = EDGE - MARGIN
    axes.text(left, 1 - ABOVE, title, fontsize=15, weight="bold", color="black", va="center")
    axes.text(left, 2.1 - ABOVE, subtitle, fontsize=10.5, color=INK, va="center")
    axes.text(left, n_models + BELOW - 0.7, source, fontsize=8.5, color=INK, va="center")


def _draw_headings(axes: Any, keys: Sequence[str], n_models: int) -> None:  # noqa: ANN401 - matplotlib comes late
    """Draw a guide and a name for each metric, and the task above its metrics."""
    for x, key in enumerate(keys):
        axes.text(x, 0.1, metric_name(key.split("/")[1]), ha="center", va="center", fontsize=9, color=INK)
        axes.plot((x, x), (0.6, n_models + 0.4), color=GUIDE, linewidth=0.8, zorder=0)
    for task, group in itertools.groupby(range(len(keys)), key=lambda x: keys[x].split("/")[0]):
        places = list(group)
        style = {"ha": "center", "va": "bottom", "fontsize": 9.5, "weight": "bold", "linespacing": 1.1}
        name = task_name(task) if len(places) > 1 else task_name(task).replace(" ", "\n")
        axes.text((places[0] + places[-1]) / 2, -0.95, name, color="black", **style)
        axes.plot((places[0] - 0.35, places[-1] + 0.35), (-0.65, -0.65), color=INK, linewidth=0.8)


def _draw_models(axes: Any, orders: Sequence[Sequence[Standing]], names: Sequence[str]) -> None:  # noqa: ANN401 - matplotlib comes late
    """Draw a line for each model with its name at both ends; the user's models are on top."""
    columns = [
        {(standing.published, standing.model): rank for rank, standing in enumerate(order, 1)} for order in orders
    ]
    for published, name in sorted(columns[0], key=lambda model: not model[0]):
        ranks = [column[published, name] for column in columns]
        if published:
            _draw_line(axes, ranks, color=QUIET, linewidth=1.2)
        else:
            colour, shape, ink = MARKS[names.index(name)]
            _draw_line(axes, ranks, color="white", linewidth=5.5)
            _draw_line(axes, ranks, color=colour, linewidth=3.2)
            _draw_marks(axes, ranks, colour, shape, ink)
        style = {"va": "center_baseline", "fontsize": 9, "color": INK if published else "black"}
        style["weight"] = "normal" if published else "bold"
        for x, rank, side, away in ((0, ranks[0], "right", -1), (len(ranks) - 1, ranks[-1], "left", 1)):
            axes.text(x + away * RANK_GAP, rank, str(rank), ha="center", **style)
            axes.text(x + away * NAME_GAP, rank, _shorten(name), ha=side, **style)


def _draw_line(axes: Any, ranks: Sequence[int], **style: object) -> None:  # noqa: ANN401 - matplotlib comes late
    """Draw curves that are level at each metric, so that crossings stay readable."""
    path, patches = import_matplotlib("path").Path, import_matplotlib("patches")
    points, codes = [(0.0, float(ranks[0]))], [path.MOVETO]
    for x, (start, end) in enumerate(itertools.pairwise(ranks)):
        points += [(x + 0.5, start), (x + 0.5, end), (x + 1, end)]
        codes += [path.CURVE4] * 3
    axes.add_patch(patches.PathPatch(path(points, codes), fill=False, capstyle="round", **style))


def _draw_marks(axes: Any, ranks: Sequence[int], colour: str, shape: str, ink: str) -> None:  # noqa: ANN401 - matplotlib comes late
    places = range(len(ranks))
    style = {"linestyle": "none", "color": colour, "markeredgecolor": "white", "zorder": 3}
    axes.plot(places, ranks, marker=shape, markersize=OPEN_MARK_SIZE if shape in "PX" else MARK_SIZE, **style)
    for x, rank in zip(places, ranks, strict=True):
        style = {"ha": "center", "va": "center_baseline", "fontsize": 8.5, "weight": "bold", "zorder": 4}
        axes.text(x, rank, str(rank), color=ink, **style)


def _shorten(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def import_matplotlib(module: str | None = None) -> ModuleType:
    """Import matplotlib, or a module of it; InvalidOption says how to install it."""
    try:
        package = importlib.import_module("matplotlib")
        return importlib.import_module(f"matplotlib.{module}") if module else package
    except ImportError:
        raise InvalidOption("charts need matplotlib, which is not installed: pip install 'cxc_eccv[report]'") from None
