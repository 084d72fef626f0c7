"""What a simulation found, as tables, as files and as a chart."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from cxc_eccv.errors import InvalidOption
from cxc_eccv.tables import MISSING, Cell, Table, tables_to_markdown
from cxc_eccv.wording import list_names
from cxc_eccv.writing import replaced_folder
from label_loop.simulation import BASELINE, Measured, Simulation, summarise

__all__ = ["FILES", "MINUTES", "PRICE", "check_price", "draw_simulation", "simulation_tables", "write_simulation"]

PRICE = 0.78
MINUTES = 13.8
"""Dollars and minutes of a sheet of 20 questions: what ECCV Caption's second stage paid, fees included, and took."""

CHARTS = ("simulation.svg", "simulation.png")
FILES = ("simulation.json", "simulation.md", *CHARTS)
SHEET = 20

SCHEMA = 1

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4A515B")
"""Okabe and Ito's palette, told apart with any colour vision; and grey."""

MARKERS = "osDP^vX"
STYLE: Any = {"font.family": "DejaVu Sans", "svg.hashsalt": "cxc_eccv", "svg.fonttype": "path", "font.size": 9}
WIDTH = 4.2
HEIGHT = 3.6
DOTS_PER_INCH = 150

Row = Mapping[str, Any]
"""One of those that ``summarise`` yields."""


def simulation_tables(simulation: Simulation, *, price: float = PRICE, minutes: float = MINUTES) -> list[Table]:
    """What each strategy finds, and what a new true positive costs."""
    rows = list(summarise(simulation))
    if simulation.facts["experiment"] == "hidden":
        return [_hidden_table(rows, simulation.facts)]
    return [_rounds_table(rows, simulation.facts), _cost_table(rows, price, minutes)]


def check_price(price: float, minutes: float) -> None:
    """InvalidOption unless both are numbers of at least 0."""
    for name, value in (("price", price), ("minutes", minutes)):
        if not 0 <= value < float("inf"):
            raise InvalidOption(f"{name}={value}: give a number of at least 0, for a sheet of {SHEET} questions")


def _rounds_table(rows: Sequence[Row], facts: Mapping[str, Any]) -> Table:
    header = ("", "questions", "recall", "precision")
    sections = _in_sections(
        rows,
        lambda row: (
            f"round {row['round']}",
            f"{row['questions']:,.0f}",
            _cell(row["recall"], 100),
            _cell(row["precision"], 100),
        ),
    )
    rates = ", ".join(f"{100 * rate:g}" for rate in facts["error_rates"])
    notes = (
        f"Sums up to each round, {_tell_seeds(facts)}. "
        f"Recall, in percent, is of {facts['to_find']:,} true pairs that {list_names(facts['sources'])} did not know, "
        "precision of what became positive.",
        f"Rounds of {facts['budget']:,} pairs, {facts['answers']} accepted answers for each ({facts['rule']}), by "
        f"{len(facts['error_rates'])} people who err in {rates} of 100 answers. Models: {list_names(facts['models'])}; "
        "what is fitted to labels is fitted anew after every round.",
    )
    return Table(_head(header), sections, "Found", f"annotation of the {facts['split']} split, simulated", notes)


def _cost_table(rows: Sequence[Row], price: float, minutes: float) -> Table:
    header = ("", "questions", "dollars", "minutes", f"ahead of {BASELINE}")
    sections = _in_sections(
        rows,
        lambda row: (
            f"round {row['round']}",
            _cell(row["cost"], 1),
            *(
                MISSING if row["cost"] is None else f"{row['cost'][0] * of_a_sheet / SHEET:,.2f}"
                for of_a_sheet in (price, minutes)
            ),
            _ahead(row),
        ),
    )
    notes = (
        f"A sheet of {SHEET} questions costs {price:g} dollars and takes {minutes:g} minutes. All that were answered "
        "count, known pairs and sheets that were not accepted among them. Ahead: how many more true pairs are found "
        f"than by {BASELINE} in as many rounds, seed by seed.",
    )
    return Table(_head(header), sections, "Cost of a new true positive", "", notes)


def _hidden_table(rows: Sequence[Row], facts: Mapping[str, Any]) -> Table:
    header = ("questions", "found", "per 1,000 questions", "recall", f"ahead of {BASELINE}")
    sections = _in_sections(
        rows,
        lambda row: (
            f"{row['questions']:,.0f}",
            f"{row['found']:,.0f}",
            _cell(row["yield"], 1000),
            f"{100 * row['found'] / facts['to_find']:.2f}",
            _ahead(row),
        ),
    )
    notes = (
        f"{_tell_seeds(facts).capitalize()}. Hidden are {facts['to_find']:,} of {facts['known_to_eccv_alone']:,} "
        "positives that ECCV Caption alone judged; recall, in percent, is of these. Ahead: how many more are found "
        f"than by {BASELINE} with as many questions, seed by seed. Of 20 questions 18 are about proposed pairs. "
        f"Models: {list_names(facts['models'])}.",
        "A proposed pair that is not hidden is unknown, not negative: nobody judged it.",
    )
    return Table(_head(header), sections, "Hidden positives found", "ECCV Caption, test split", notes)


def _head(names: Sequence[str]) -> list[tuple[str]]:
    return [(name,) for name in names]


def _in_sections(rows: Sequence[Row], cells: Callable[[Row], tuple[str | Cell, ...]]) -> list[Sequence[str | Cell]]:
    """The rows of each strategy below its name."""
    found: list[Sequence[str | Cell]] = []
    for strategy, own in groupby(rows, key=itemgetter("strategy")):
        found.append((strategy,))
        found += map(cells, own)
    return found


def _tell_seeds(facts: Mapping[str, Any]) -> str:
    if facts["seeds"] == 1:
        return "of one seed, so that there are no intervals"
    return f"means over {facts['seeds']} seeds, with 95% intervals: a bootstrap over the seeds"


def _cell(measured: Measured | None, factor: float) -> Cell | str:
    return MISSING if measured is None else _show(lambda own: f"{factor * own:,.1f}", *measured)


def _ahead(row: Row) -> Cell | str:
    if row["ahead"] is None or row["strategy"] == BASELINE:
        return MISSING
    return _show(lambda own: f"{own:+.0f}", *row["ahead"])


def _show(form: Callable[[float], str], value: float, low: float | None, high: float | None) -> Cell:
    return Cell(form(value), interval="" if low is None or high is None else f"[{form(low)}, {form(high)}]")


def write_simulation(
    simulation: Simulation, folder: Path, *, price: float = PRICE, minutes: float = MINUTES, command: str | None = None
) -> list[Path]:
    """Write the numbers of every seed and of all together, the tables and the chart."""
    tables = simulation_tables(simulation, price=price, minutes=minutes)
    content = {
        "schema": SCHEMA,
        "results": list(summarise(simulation)),
        "counts": simulation.counts.to_pylist(),
        "sheet": {"questions": SHEET, "dollars": price, "minutes": minutes},
        "provenance": {**simulation.facts, **({} if command is None else {"command": command})},
    }
    with replaced_folder(folder, FILES) as part:
        (part / "simulation.json").write_text(f"{json.dumps(content, indent=1)}\n", encoding="utf-8", newline="\n")
        (part / "simulation.md").write_text(tables_to_markdown(tables), encoding="utf-8", newline="\n")
        draw_simulation(simulation, [part / name for name in CHARTS])
        names = [name for name in FILES if (part / name).is_file()]
    return [folder / name for name in names]


def draw_simulation(simulation: Simulation, paths: Sequence[Path]) -> None:
    """Draw recall, precision and what a new positive costs over the questions that were asked, a line per strategy.

    Every round has its interval. The files are ``.svg``, ``.png`` or ``.pdf``.
    """
    rows = list(summarise(simulation))
    facts = simulation.facts
    rounds = facts["experiment"] == "rounds"
    panels = [
        ("recall", 100, f"percent of {facts['to_find']:,} {'true pairs' if rounds else 'hidden positives'} found")
    ]
    panels += [("precision", 100, "precision of new positives, percent")] if rounds else []
    panels += [("cost", 1, "questions for each one found")]
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH * len(panels), HEIGHT), layout="constrained")
        every = figure.subplots(1, len(panels))
        for axes, (measure, factor, label) in zip(every, panels, strict=True):
            for place, (strategy, group) in enumerate(groupby(rows, key=itemgetter("strategy"))):
                style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
                _draw_line(axes, list(group), measure, factor, style | {"label": strategy})
            axes.set(xlabel="questions", ylabel=label)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color="#EEF0F3")
            axes.set_axisbelow(True)
            axes.set_xlim(left=0)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            if measure == "cost":
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axes.yaxis.set_major_formatter("{x:,.0f}")
                axes.yaxis.set_minor_formatter("")
            else:
                axes.set_ylim(bottom=0)
        every[0].legend(frameon=False)
        for path in paths:
            figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_line(axes: Any, rows: Sequence[Row], measure: str, factor: float, style: dict[str, Any]) -> None:  # noqa: ANN401 - matplotlib comes late
    shown = [row for row in rows if row[measure] is not None]
    if not shown:
        return
    values, lows, highs = zip(*(row[measure] for row in shown), strict=True)
    spans = [
        [0.0 if end is None else factor * abs(value - end) for value, end in zip(values, ends, strict=True)]
        for ends in (lows, highs)
    ]
    asked = [row["questions"] for row in shown]
    axes.errorbar(asked, [factor * value for value in values], spans, capsize=3, linewidth=1.8, markersize=5, **style)
