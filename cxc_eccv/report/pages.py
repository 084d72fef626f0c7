"""The page as Markdown, and as one self-contained HTML file: no script, no font, no image from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from cxc_eccv.comparison.labels import task_name
from cxc_eccv.report import wording
from cxc_eccv.report.cards import shown_files
from cxc_eccv.report.charts import Segment, line_chart, segments, span, table_depths
from cxc_eccv.report.page import ExampleGroup, Page
from cxc_eccv.report.ranks import COCO, LABELS, Verdicts, finding
from cxc_eccv.shown import code_span, markdown_text

__all__ = ["render_html", "render_markdown"]

SECTIONS = {
    "scores": "Scores",
    "curves": "Recall over k",
    "ranks": "Ranks",
    "labels": "Label disagreement",
    "examples": "Queries",
    "caveats": "Ties and coverage",
    "origin": "Origin",
}


def render_html(page: Page, images: Mapping[str, str] | None = None) -> str:
    """The page's text; everything out of data is escaped.

    Args:
        page: what to show.
        images: file name to data URI of a thumbnail; None for none.
    """
    environment = _environment(keep_trailing_newline=True)
    environment.filters |= {"breakable": _breakable, "by_direction": _by_direction, "line_chart": line_chart}
    environment.filters |= {"bin_segments": _bin_segments, "verdict_segments": _verdict_segments, "span": span}
    content = {"curves": page.panels, "ranks": page.panels, "labels": page.verdicts}
    css = resources.files("cxc_eccv.report").joinpath("templates/report.css").read_text(encoding="utf-8")
    return environment.get_template("report.html.jinja").render(
        page=page,
        css=Markup(css),  # noqa: S704 - our own file
        sections=[(anchor, title) for anchor, title in SECTIONS.items() if content.get(anchor, True)],
        directions=list(dict.fromkeys(curve.direction for panel in page.panels for curve in panel.curves)),
        depths=table_depths(page.panels),
        images=images or {},
        missing=[] if images is None else [file for file in shown_files(page.cards) if file not in images],
    )


def _bin_segments(counts: Sequence[int]) -> list[Segment]:
    kinds = [f"bin{place}" for place in range(len(LABELS))]
    return segments(counts, kinds, [f"rank {label}" for label in LABELS[:-1]] + [LABELS[-1]])


def _verdict_segments(row: Verdicts) -> list[Segment]:
    """The errors under COCO: which other labels excuse them."""
    others = {task: number for task, number in row.added.items() if task != COCO}
    titles = [f"right under {task_name(task)}" for task in others]
    return segments([*others.values(), row.wrong], [*others, "wrong"], [*titles, "right under no label"])


def _by_direction(groups: Sequence[ExampleGroup]) -> list[tuple[str, list[ExampleGroup]]]:
    return [(name, list(own)) for name, own in groupby(groups, key=lambda group: group.direction)]


def _breakable(file_name: str) -> Markup:
    """A file name that a narrow column may break after an underscore."""
    return escape(file_name).replace("_", Markup("_<wbr>"))


def render_markdown(page: Page) -> str:
    r"""The page's text; everything out of data is escaped.

    Example:
        >>> from cxc_eccv.types import Report
        >>> report = Report((), {}, {"run": {"file": "my_*.npz"}, "split": "test"})
        >>> print(render_markdown(Page(report)).partition("\n")[0])
        # my\_\*.npz
    """
    # Escaping by the environment makes macros and filters give Markup, which is not escaped again.
    environment = _environment(finalize=markdown_text, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = code_span
    text = environment.get_template("report.md.jinja").render(page=page, depths=table_depths(page.panels))
    return f"{text.rstrip()}\n"


@cache
def _environment(**options: Any) -> Environment:  # noqa: ANN401 - those of jinja2.Environment
    """An environment in which every expression is escaped and an unknown name is an error."""
    loader = PackageLoader("cxc_eccv.report")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **options)
    environment.filters |= {
        "direction_name": wording.direction_name,
        "finding": finding,
        "interval": wording.interval_text,
        "rank_text": wording.rank_text,
        "row_name": wording.row_name,
        "task_name": task_name,
        "upper_first": wording.upper_first,
        "value": wording.value_text,
    }
    environment.globals |= {"count": wording.count, "share": wording.share}
    return environment
