"""The page as Markdown, and as one self-contained HTML file: no script, no font, no image from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from cxc_eccv.report import wording
from cxc_eccv.report.charts import LABELS, RankBins, Segment, Span, line_chart, segments, span, table_depths
from cxc_eccv.report.examples import COCO, Verdicts, finding, shown_files
from cxc_eccv.report.page import ExampleGroup, Page
from cxc_eccv.report.wording import task_name
from cxc_eccv.shown import code_span, markdown_text
from cxc_eccv.types import Result

__all__ = ["render_html", "render_markdown", "template_environment"]

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

    Example:
        >>> from cxc_eccv.report.examples.table import no_examples
        >>> from cxc_eccv.report.page import page_of
        >>> from cxc_eccv.types import Report
        >>> report = Report((), {}, {"run": {"file": "<script>.npz"}, "split": "test"})
        >>> "<h1>&lt;script&gt;.npz</h1>" in render_html(page_of(report, no_examples("none")))
        True
    """
    uris = dict(images or {})
    absent = [file for file in shown_files(page.cards) if file not in uris] if images is not None else []
    return (
        _environment()
        .get_template("report.html.jinja")
        .render(
            page=page,
            css=Markup(resources.files("cxc_eccv.report").joinpath("templates/report.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
            sections=[(anchor, title) for anchor, title in SECTIONS.items() if _is_shown(anchor, page)],
            directions=list(dict.fromkeys(curve.direction for panel in page.panels for curve in panel.curves)),
            first_ranks=_by_task(page.first_ranks),
            lines=_charts(page),
            depths=table_depths(page.panels),
            bins=[(row, _bin_segments(row)) for row in page.bins],
            bin_labels=_bin_labels(page.bins),
            verdicts={name: [(row, _verdict_segments(row)) for row in rows] for name, rows in page.verdicts.items()},
            images=uris,
            missing=absent,
        )
    )


def _is_shown(anchor: str, page: Page) -> bool:
    content = {"curves": page.panels, "ranks": page.panels, "labels": page.verdicts}
    return bool(content.get(anchor, True))


def _charts(page: Page) -> list[object]:
    ends = [int(curve.ks[-1]) for panel in page.panels for curve in panel.curves]
    return [line_chart(panel, max(ends)) for panel in page.panels]


def _bin_labels(bins: Sequence[RankBins]) -> list[tuple[str, str]]:
    """Colour and label of every range; the last one only where a ranking ends early."""
    shown = len(LABELS) if any(row.counts[-1] for row in bins) else len(LABELS) - 1
    return [(f"bin{place}", label) for place, label in enumerate(LABELS[:shown])]


def _bin_segments(row: RankBins) -> list[Segment]:
    kinds = [f"bin{place}" for place in range(len(LABELS))]
    return segments(row.counts, kinds, [f"rank {label}" for label in LABELS[:-1]] + [LABELS[-1]])


def _verdict_segments(row: Verdicts) -> list[Segment]:
    """The errors under COCO: which other labels excuse them."""
    others = {task: number for task, number in row.added.items() if task != COCO}
    titles = [f"right under {task_name(task)}" for task in others]
    return segments([*others.values(), row.wrong], [*others, "wrong"], [*titles, "right under no label"])


def _by_task(rows: Sequence[Result]) -> list[tuple[str, list[tuple[Result, Span]]]]:
    return [(task, [(row, span(row)) for row in own]) for task, own in groupby(rows, key=lambda row: row.task)]


def _by_direction(groups: Iterable[ExampleGroup]) -> list[tuple[str, list[ExampleGroup]]]:
    return [(name, list(own)) for name, own in groupby(groups, key=lambda group: group.direction)]


def _breakable(file_name: str) -> Markup:
    """A file name that a narrow column may break after an underscore."""
    return escape(file_name).replace("_", Markup("_<wbr>"))


@cache
def _environment() -> Environment:
    environment = template_environment(keep_trailing_newline=True)
    environment.filters |= {"breakable": _breakable, "by_direction": _by_direction}
    return environment


def render_markdown(page: Page) -> str:
    r"""The page's text; everything out of data is escaped.

    Args:
        page: what to show.

    Example:
        >>> from cxc_eccv.report.examples.table import no_examples
        >>> from cxc_eccv.report.page import page_of
        >>> from cxc_eccv.types import Report
        >>> report = Report((), {}, {"run": {"file": "my_*.npz"}, "split": "test"})
        >>> print(render_markdown(page_of(report, no_examples("none"))).partition("\n")[0])
        # my\_\*.npz
    """
    shown = len(LABELS) if any(row.counts[-1] for row in page.bins) else len(LABELS) - 1
    text = (
        _markdown_environment()
        .get_template("report.md.jinja")
        .render(page=page, depths=table_depths(page.panels), bin_labels=LABELS[:shown])
    )
    return f"{text.rstrip()}\n"


@cache
def _markdown_environment() -> Environment:
    # Escaping by the environment makes macros and filters give Markup, which is not escaped again.
    environment = template_environment(finalize=markdown_text, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = code_span
    return environment


FILTERS = {
    "direction_name": wording.direction_name,
    "finding": finding,
    "interval": wording.interval_text,
    "rank_text": wording.rank_text,
    "task_name": wording.task_name,
    "upper_first": wording.upper_first,
    "value": wording.value_text,
}


def template_environment(**options: Any) -> Environment:  # noqa: ANN401 - those of jinja2.Environment
    """An environment in which every expression is escaped and an unknown name is an error.

    Args:
        **options: further options of ``jinja2.Environment``.

    Example:
        >>> template_environment().from_string("{{ '<b>' }}").render()
        '&lt;b&gt;'
    """
    environment = Environment(
        loader=PackageLoader("cxc_eccv.report"), autoescape=True, undefined=StrictUndefined, **options
    )
    environment.filters |= FILTERS
    environment.globals |= {"count": wording.count, "share": wording.share}
    return environment
