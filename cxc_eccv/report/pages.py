"""A report as Markdown and as a self-contained HTML file: nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cxc_eccv import wording
from cxc_eccv.presentation import Section
from cxc_eccv.presentation.page import Filter, render_page
from cxc_eccv.report.best_ranks import COCO
from cxc_eccv.report.charts import LABELS, Segment, Verdicts, finding, line_chart, segments, span
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.query_cards import find_shown_files
from cxc_eccv.report.rating_plot import draw_ratings, rating_table
from cxc_eccv.report.score_tables import (
    NOTHING,
    caution_lines,
    curve_table,
    example_tables,
    explain_rows,
    list_tables,
    origin_tables,
    rank_table,
    skipped_lines,
    verdict_table,
)
from cxc_eccv.tables import tables_to_markdown
from cxc_eccv.terminal import markdown_text, upper_first
from cxc_eccv.wording import task_name

TITLE = "Retrieval report"
"""Of a report without a name."""

SECTIONS = (
    Section("scores", "Scores"),
    Section("curves", "Recall over k"),
    Section("ranks", "Ranks of the best positives", name="Ranks"),
    Section("ratings", "Similarity by rating"),
    Section("labels", "Where the labels disagree", name="Label disagreement"),
    Section("examples", "Queries and what they retrieve", name="Queries"),
    Section("caveats", "Ties, coverage, and tasks that were not scored", name="Ties and coverage"),
)

LEGENDS = (
    "BOUNDS",
    "CHECK_FIRST",
    "COVERAGE",
    "ESTIMATE",
    "EXPECTED",
    "IF_TIES_HELP",
    "TIES",
    "UNJUDGED",
)
"""Texts of :mod:`cxc_eccv.wording` that the page shows."""


def render_html(page: Page, images: Mapping[str, str] | None = None) -> str:
    """The report as HTML; everything from the data is escaped."""
    ratings = draw_ratings(page.report)
    absent = {
        "curves": not page.panels,
        "ranks": not page.panels,
        "ratings": ratings is None,
        "labels": not page.verdicts,
    }
    content = {
        "title": page.name or TITLE,
        "data": page.data,
        "sections": [section for section in SECTIONS if not absent.get(section.anchor)],
        "facts": page.facts,
        "footnotes": [],
        "page": page,
        "directions": list(dict.fromkeys(curve.direction for curves in page.panels.values() for curve in curves)),
        "curve_table": curve_table(page),
        "rank_table": rank_table(page),
        "rating_chart": ratings,
        "rating_table": rating_table(page.report),
        "images": images,
        "missing": [] if images is None else [file for file in find_shown_files(page.cards) if file not in images],
        "ties_page": wording.find_ties_page(),
        **{name: getattr(wording, name) for name in LEGENDS},
    }
    return render_page("report.html.jinja", "cxc_eccv.report", content, FILTERS)


def _bin_segments(counts: Sequence[int]) -> list[Segment]:
    titles = [*(f"rank {label}" for label in LABELS[:-1]), LABELS[-1]]
    return segments(counts, [f"bin{place}" for place in range(len(LABELS))], titles)


def _verdict_segments(row: Verdicts) -> list[Segment]:
    """The errors under COCO, by the labels that excuse them."""
    others = {task: number for task, number in row.added.items() if task != COCO}
    titles = [f"right under {task_name(task)}" for task in others]
    return segments([*others.values(), row.wrong], [*others, "wrong"], [*titles, "right under no label"])


FILTERS: Mapping[str, Filter] = {
    "bin_segments": _bin_segments,
    "bounds": wording.bounds_text,
    "chance": wording.chance_text,
    "estimate": wording.estimate_text,
    "finding": finding,
    "if_ties_help": wording.if_ties_help_text,
    "interval": wording.interval_text,
    "judge": wording.judge_text,
    "line_chart": line_chart,
    "row_name": wording.row_name,
    "span": span,
    "unjudged": wording.unjudged_text,
    "verdict_segments": _verdict_segments,
    "verdict_table": verdict_table,
}
"""Filters of the templates of a report."""


def render_markdown(page: Page) -> str:
    """The report as Markdown; everything from the data is escaped."""
    scores = list_tables(page, wording.row_name)
    blocks = [
        f"# {markdown_text(page.first_line or TITLE)}",
        *_doubts_in_markdown(page),
        *(markdown_text(upper_first(line)) for line in caution_lines(page)),
        f"## Scores\n\n{tables_to_markdown(scores) if scores else NOTHING}",
        *(markdown_text(upper_first(line)) for line in explain_rows(page)),
    ]
    if page.panels:
        blocks.append(f"## Recall over k\n\n{tables_to_markdown([curve_table(page), rank_table(page)])}")
    if page.report.similarity_by_rating:
        blocks.append(
            f"## Similarity by rating\n\n{tables_to_markdown([replace(rating_table(page.report), title='')])}"
        )
    verdicts = [
        replace(table := verdict_table(direction, rows), notes=[finding(rows[0]), *table.notes])
        for direction, rows in page.verdicts.items()
    ]
    if verdicts:
        blocks.append(f"## Where the labels disagree\n\n{tables_to_markdown(verdicts)}")
    examples = tables_to_markdown(list(example_tables(page)))
    if page.no_examples:
        examples = markdown_text(f"No query is shown: {page.no_examples}.")
    skipped = "\n".join(f"- {markdown_text(line)}" for line in skipped_lines(page)) or "All tasks were scored."
    blocks += [
        f"## Queries and what they retrieve\n\n{examples}",
        f"## Not scored\n\n{skipped}",
        f"## Data, versions, command\n\n{tables_to_markdown(origin_tables(page))}",
    ]
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def _doubts_in_markdown(page: Page) -> list[str]:
    if not page.doubts:
        return []
    lines = [f"- {markdown_text(sentence)}" for sentence in page.doubts]
    return ["\n".join([f"**{wording.CHECK_FIRST}**", "", *lines])]
