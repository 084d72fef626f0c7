"""A report as Markdown and as a self-contained HTML file: nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from PIL import Image, ImageOps

from cxc_eccv import wording
from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.report.best_ranks import COCO
from cxc_eccv.report.charts import LABELS, Segment, Verdicts, finding, line_chart, segments, span
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.query_cards import find_shown_files
from cxc_eccv.report.score_tables import (
    NOTHING,
    caution_lines,
    curve_table,
    example_tables,
    explain_rows,
    is_code,
    list_tables,
    origin_tables,
    rank_table,
    skipped_lines,
    verdict_table,
)
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.tables import tables_to_markdown
from cxc_eccv.terminal import markdown_text, upper_first
from cxc_eccv.wording import metric_name, task_name

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
    """The report as HTML; everything from the data is escaped."""
    content = {"curves": page.panels, "ranks": page.panels, "labels": page.verdicts}
    return template("report.html.jinja", keep_trailing_newline=True).render(
        page=page,
        css=page_style(),
        sections=[(anchor, title) for anchor, title in SECTIONS.items() if content.get(anchor, True)],
        directions=list(dict.fromkeys(curve.direction for curves in page.panels.values() for curve in curves)),
        curve_table=curve_table(page),
        rank_table=rank_table(page),
        images=images,
        missing=[] if images is None else [file for file in find_shown_files(page.cards) if file not in images],
    )


def _bin_segments(counts: Sequence[int]) -> list[Segment]:
    titles = [*(f"rank {label}" for label in LABELS[:-1]), LABELS[-1]]
    return segments(counts, [f"bin{place}" for place in range(len(LABELS))], titles)


def _verdict_segments(row: Verdicts) -> list[Segment]:
    """The errors under COCO, by the labels that excuse them."""
    others = {task: number for task, number in row.added.items() if task != COCO}
    titles = [f"right under {task_name(task)}" for task in others]
    return segments([*others.values(), row.wrong], [*others, "wrong"], [*titles, "right under no label"])


def render_markdown(page: Page) -> str:
    """The report as Markdown; everything from the data is escaped."""
    scores = list_tables(page, wording.row_name)
    blocks = [
        f"# {markdown_text(page.first_line or 'Retrieval report')}",
        *_doubts_in_markdown(page),
        *(markdown_text(upper_first(line)) for line in caution_lines(page)),
        f"## Scores\n\n{tables_to_markdown(scores) if scores else NOTHING}",
        *(markdown_text(upper_first(line)) for line in explain_rows(page)),
    ]
    if page.panels:
        blocks.append(f"## Recall over k\n\n{tables_to_markdown([curve_table(page), rank_table(page)])}")
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


def page_style(*names: str, package: str = "cxc_eccv.report") -> Markup:
    """The style sheet of all pages, followed by the named ones, which a package or the report holds."""
    places = [resources.files(name).joinpath("templates") for name in (package, "cxc_eccv.report")]
    files = [next(file for place in places if (file := place / f"{name}.css").is_file()) for name in ("report", *names)]
    return Markup("".join(file.read_text(encoding="utf-8") for file in files))  # noqa: S704 - our own files


@cache
def template(name: str, package: str = "cxc_eccv.report", **options: Any) -> Template:  # noqa: ANN401 - of jinja2
    """A template of a package or of the report; every expression is escaped, and an unknown name is an error."""
    loader = ChoiceLoader([PackageLoader(package), PackageLoader("cxc_eccv.report")])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **options)
    environment.filters |= {
        "bin_segments": _bin_segments,
        "bounds": wording.bounds_text,
        "chance": wording.chance_text,
        "estimate": wording.estimate_text,
        "breakable": lambda file_name: escape(file_name).replace("_", Markup("_<wbr>")),  # in a narrow column
        "data": lambda made: describe_data(made.data, made.split),
        "direction_name": wording.direction_name,
        "finding": finding,
        "interval": wording.interval_text,
        "judge": wording.judge_text,
        "line_chart": line_chart,
        "metric_name": metric_name,
        "rank_text": wording.rank_text,
        "row_name": wording.row_name,
        "span": span,
        "task_name": task_name,
        "unjudged": wording.unjudged_text,
        "upper_first": upper_first,
        "value": wording.value_text,
        "if_ties_help": wording.if_ties_help_text,
        "is_code": is_code,
        "verdict_segments": _verdict_segments,
        "verdict_table": verdict_table,
    }
    names = (
        "BOUNDS",
        "CHECK_FIRST",
        "COVERAGE",
        "ESTIMATE",
        "EXPECTED",
        "IF_TIES_HELP",
        "TIES",
        "TIES_PAGE",
        "UNJUDGED",
    )
    environment.globals |= {name: getattr(wording, name) for name in (*names, "count", "share")}
    return environment.get_template(name)


LONGEST_SIDE = 192


def thumbnails(folder: str | Path, file_names: Collection[str], longest_side: int = LONGEST_SIDE) -> dict[str, str]:
    """File name to thumbnail, as a data URI; files that are not below the folder are left out."""
    images = ImageFolder(folder)
    return {
        name: thumbnail(content["bytes"], longest_side)
        for name in sorted(set(file_names))
        if (content := images.read(name)) is not None
    }


def page_images(
    folder: str | Path | None, file_names: Collection[str], longest_side: int = LONGEST_SIDE
) -> dict[str, str] | None:
    """Thumbnails for a page, None without a folder; warns about files that are not below the folder."""
    if folder is None:
        return None
    uris = thumbnails(folder, file_names, longest_side)
    absent = sorted(set(file_names).difference(uris))
    if absent:
        warnings.warn(
            f"{len(uris):,} of the {len(uris) + len(absent):,} photographs shown found in {folder}. The page has empty "
            f"frames for the others, the first {absent[0]}; name the folder that holds them (val2014 for COCO).",
            stacklevel=3,
        )
    return uris


def thumbnail(content: bytes, longest_side: int = LONGEST_SIDE) -> str:
    """A small JPEG of an image, without its metadata, as a data URI."""
    with Image.open(BytesIO(content)) as image:
        small = ImageOps.exif_transpose(image).convert("RGB")
    small.thumbnail((longest_side, longest_side), Image.Resampling.LANCZOS)
    out = BytesIO()
    small.save(out, "JPEG", quality=72, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
