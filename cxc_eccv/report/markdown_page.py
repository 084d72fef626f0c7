"""The report as Markdown."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment

from cxc_eccv.report.page import Page
from cxc_eccv.report.rank_bins import LABELS
from cxc_eccv.report.recall_curves import table_depths
from cxc_eccv.report.template_environment import template_environment
from cxc_eccv.shown import code_span, markdown_text

__all__ = ["render_markdown"]


def render_markdown(page: Page) -> str:
    r"""The page's text; everything out of data is escaped.

    Args:
        page: what to show.

    Example:
        >>> from cxc_eccv.report.examples_table import no_examples
        >>> from cxc_eccv.report.page import page_of
        >>> from cxc_eccv.types import Report
        >>> report = Report((), {}, {"run": {"file": "my_*.npz"}, "split": "test"})
        >>> print(render_markdown(page_of(report, no_examples("none"))).partition("\n")[0])
        # my\_\*.npz
    """
    shown = len(LABELS) if any(row.counts[-1] for row in page.bins) else len(LABELS) - 1
    text = (
        _environment()
        .get_template("report.md.jinja")
        .render(page=page, depths=table_depths(page.panels), bin_labels=LABELS[:shown])
    )
    return f"{text.rstrip()}\n"


@cache
def _environment() -> Environment:
    # Escaping by the environment makes macros and filters give Markup, which is not escaped again.
    environment = template_environment(finalize=markdown_text, trim_blocks=True, lstrip_blocks=True)
    environment.filters["code"] = code_span
    return environment
