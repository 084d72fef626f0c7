"""Make the report on an annotation project from its answers, decisions and labels, and write its numbers and page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, SourceMissing
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.report.pages import page_style, template, thumbnails
from cxc_eccv.sources.library import Split
from cxc_eccv.sources.readers import LABELS_SCHEMA, LabelFile, read_labels
from cxc_eccv.studies.annotation.annotation_tables import (
    DRAWN,
    RANKS,
    AnnotationReport,
    Answered,
    Doubted,
    Told,
    show_seconds,
)
from cxc_eccv.studies.annotation.changes import LabelChanges
from cxc_eccv.studies.annotation.project import LABELS, Project
from cxc_eccv.studies.annotation.project_files import read_decisions
from cxc_eccv.studies.asking.questions import CANDIDATE, NEGATIVE, POSITIVE, Question
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.studies.asking.settling import (
    classify,
    compare_with_labels,
    compare_workers,
    keep_last,
    measure_agreement,
    settle,
)
from cxc_eccv.studies.asking.sheet_quality import (
    ACCEPTED,
    BY_HAND,
    Checks,
    SheetQuality,
    accept,
    count_known,
    group_workers,
    judge_sheets,
    judge_workers,
    keep_sheets,
)
from cxc_eccv.terminal import visible
from cxc_eccv.types import IntArray
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.writing import write_texts

NO_MODEL = "No models were given. cxc-eccv annotate report FOLDER MODELS... shows how the labels change their scores."
NOT_MERGED = "There are no labels yet. cxc-eccv annotate merge makes them from the answers."
OUT_OF_DATE = (
    "The merged labels are out of date: answers or decisions changed since. Run cxc-eccv annotate merge again."
)

MATCHES = 3.0
"""Lowest CxC rating of a caption that describes its image."""

STUDY = "cxc_eccv.studies.annotation"


def report_project(
    project: Project, changes: LabelChanges | None = None, command: str | None = None
) -> AnnotationReport:
    """The report on the current state of a project; ``changes`` has the effect of its labels on models."""
    path = project.folder / LABELS
    labels = read_labels(path) if path.is_file() else None
    answers = project.answers()
    checks = read_decisions(project.folder).checks
    judged = judge_sheets(answers, checks)
    doubted = tuple[Doubted, ...]()
    rule = project.scheme.rule if labels is None else labels.facts["rule"]
    facts = make_provenance(project.library, project.facts.split, Provenance(command=command or None))
    is_new = labels is None or _is_settled(labels, accept(answers, judged), project.scheme)
    if project.scheme.sides == ("image", "caption"):
        counted = keep_sheets(answers, judged, ACCEPTED, BY_HAND)
        doubted = find_doubted(counted, project.split)
    return report_annotation(
        Annotation(
            name=project.name,
            scheme=project.scheme,
            answers=answers,
            candidates=project.candidates(),
            sheets=project.questions(),
            changes=changes or (NOT_MERGED if labels is None else NO_MODEL),
            checks=checks,
            rule=rule,
            folder=str(project.folder),
            cautions=() if is_new else (OUT_OF_DATE,),
            provenance=facts,
            doubted=doubted,
        )
    )


def _is_settled(labels: LabelFile, accepted: pa.Table, scheme: Scheme) -> bool:
    """Whether merging the accepted answers would make the same labels again."""
    least = labels.facts.get("least_answers", 1)
    try:
        settled = settle(accepted, scheme, labels.facts["rule"], least_answers=least)
    except DataError:  # no accepted answer is left
        return False
    return bool(settled.select(LABELS_SCHEMA.names).equals(labels.table))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Annotation:
    """What is reported on; the fields that AnnotationReport has too are its own."""

    name: str
    scheme: Scheme
    answers: pa.Table
    candidates: pa.Table
    sheets: Sequence[Sequence[Question]]
    changes: LabelChanges | str
    checks: Checks = field(default_factory=Checks)
    rule: str | None = None  # None for that of the scheme
    folder: str = ""
    cautions: tuple[str, ...] = ()
    doubted: tuple[Doubted, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)


def report_annotation(annotation: Annotation) -> AnnotationReport:
    """Judge sheets and workers, and count the answers of accepted sheets."""
    scheme = annotation.scheme
    answers = annotation.answers
    checks = annotation.checks
    rule = annotation.rule
    questions = {question.pair_id: question for sheet in annotation.sheets for question in sheet}
    judged = judge_sheets(answers, checks)
    accepted = keep_last(accept(answers, judged).filter(pc.field("role") == CANDIDATE))
    classes, codes = classify(accepted, scheme)
    rows, listed = _find_lists(accepted, annotation.candidates)
    return AnnotationReport(
        name=annotation.name,
        scheme=scheme,
        candidates=annotation.candidates.num_rows,
        sheets_asked=len(annotation.sheets),
        golds={role: _count_sheets(answers.filter(pc.field("role") == role)) for role in (POSITIVE, NEGATIVE)},
        least_seconds=checks.least_seconds,
        accepts=checks.rule,
        rule=rule or scheme.rule,
        sheets=tuple(judged),
        workers=tuple(judge_workers(judged)),
        known={worker: str(known) for worker, known in count_known(answers).items()},
        activity=tuple(group_workers(judged)) if judged else (),
        classes=classes,
        agreement=measure_agreement(accepted, scheme),
        by_pair=tuple(compare_workers(accepted)),
        with_label=tuple(compare_with_labels(accepted, settle(accepted, scheme, rule))) if accepted.num_rows else (),
        by_rank=tuple(_count(np.eye(len(classes), dtype=np.int64)[codes], rows, listed, by_rank=True)),
        details={
            group.label: (tuple(group.choices), tuple(_count(_tick(accepted, group.name, group.choices), rows, listed)))
            for group in scheme.details
        },
        to_check=tuple(_tell(keep_sheets(answers, judged, BY_HAND), questions)),
        remarks=tuple(_tell(answers.filter(pc.field("remark") != ""), questions)),
        changes=annotation.changes,
        cautions=annotation.cautions,
        doubted=annotation.doubted,
        folder=annotation.folder,
        provenance=annotation.provenance,
    )


def find_doubted(answers: pa.Table, split: Split) -> tuple[Doubted, ...]:
    """Captions that people rejected for their own image, or that CxC rates below 3."""
    owners = dict(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    texts = dict(zip(split.caption_ids.tolist(), split.captions["text"].to_pylist(), strict=True))
    counts: dict[int, list[int]] = {}
    for row in answers.select(["image_id", "caption_id", "positive"]).to_pylist():
        if owners.get(row["caption_id"]) == row["image_id"]:
            count = counts.setdefault(row["caption_id"], [0, 0])
            count[0] += not row["positive"]
            count[1] += 1
    ratings: dict[int, float] = {}
    try:
        table = split.ratings("sits")
        linked = (row for row in table.to_pylist() if owners.get(row["left_id"]) == row["right_id"])
        ratings = {row["left_id"]: row["rating"] for row in linked}
    except (SourceMissing, DataError):  # CxC did not rate this split
        pass
    doubted = {caption for caption, (no, _) in counts.items() if no}
    doubted |= {caption for caption, rating in ratings.items() if rating < MATCHES}
    rows = []
    for caption in doubted:
        turned_down, total = counts.get(caption, (0, 0))
        text = " ".join(texts[caption].split())
        rows.append(Doubted(owners[caption], caption, text, turned_down, total, ratings.get(caption)))
    return tuple(sorted(rows, key=lambda row: (-row.turned_down, row.rating or 0.0, row.caption_id)))


def _count_sheets(answers: pa.Table) -> int:
    return len(set(zip(answers["sheet"].to_pylist(), answers["worker"].to_pylist(), strict=True)))


def _find_lists(answers: pa.Table, candidates: pa.Table) -> tuple[IntArray, list[tuple[str, int]]]:
    """For every answer and every list with its pair: the row of the answer, and the list's model and rank."""
    lists = {
        (row["image_id"], row["caption_id"]): [(proposal["model"], proposal["rank"]) for proposal in row["proposals"]]
        for row in candidates.select(["image_id", "caption_id", "proposals"]).to_pylist()
    }
    pairs = zip(answers["image_id"].to_pylist(), answers["caption_id"].to_pylist(), strict=True)
    places = [(row, listed) for row, pair in enumerate(pairs) for listed in lists.get(pair, ()) or [(DRAWN, 0)]]
    return np.array([row for row, _ in places], dtype=np.int64), [listed for _, listed in places]


def _count(
    votes: IntArray, rows: IntArray, listed: Sequence[tuple[str, int]], *, by_rank: bool = False
) -> Iterator[Answered]:
    """Yield sums of (A, C) votes by model, also by rank with ``by_rank``, and over all answers (Tables B.2, B.3)."""
    models = np.array([model for model, _ in listed])
    ranks = np.array([rank if rank <= RANKS else 0 for _, rank in listed])

    def add(chosen: NDArray[np.bool_]) -> tuple[int, ...]:
        return tuple(votes[rows[chosen]].sum(axis=0).tolist())

    for model in sorted({model for model, _ in listed}, key=lambda model: (model == DRAWN, model)):
        of_model = models == model
        if by_rank and model != DRAWN:
            for rank in sorted(set(ranks[of_model].tolist()), key=lambda rank: rank or 999):
                yield Answered(model, rank, add(of_model & (ranks == rank)))
        yield Answered(model, None, add(of_model))
    if listed:
        yield Answered("", None, tuple(votes.sum(axis=0).tolist()))


def _tick(answers: pa.Table, group: str, choices: Iterable[str]) -> IntArray:
    """(A, C) whether each choice was ticked."""
    ticked = [json.loads(details).get(group, ()) for details in answers["details"].to_pylist()]
    names = list(choices)
    return np.array([[name in ticks for name in names] for ticks in ticked], dtype=np.int64).reshape(-1, len(names))


def _tell(answers: pa.Table, questions: Mapping[str, Question]) -> Iterator[Told]:
    for row in answers.to_pylist():
        answer = json.loads(row["answer"])
        question = questions[row["pair_id"]]
        if isinstance(answer, dict):
            answer = " and ".join(name for name, holds in answer.items() if holds) or "none"
        words = str(answer).replace("_", " ")
        ticks = [tick.replace("_", " ") for group in json.loads(row["details"]).values() for tick in group]
        same = {name: row[name] for name in ("sheet", "worker", "image_id", "caption_id", "role", "positive")}
        same |= {name: row[name] for name in ("seconds", "remark")}
        text = f"{words}: {', '.join(ticks)}" if ticks else words
        yield Told(**same, caption=question.caption, answer=text, file_name=question.file_name, other=question.other)


def render_annotated(report: AnnotationReport, images: Path | None = None) -> str:
    """The page: one self-contained HTML file without a script; what people typed is escaped."""
    names = {name for answer in report.to_check for name in (answer.file_name, answer.other) if name}
    return template("annotated.html.jinja", STUDY, keep_trailing_newline=True).render(
        report=report,
        css=page_style("annotated", package=STUDY),
        images={} if images is None else thumbnails(images, names),
        checked=list(_sheets_to_check(report)),
        visible=visible,
        seconds=show_seconds,
        facts=_list_facts(report),
    )


class _SheetToCheck(NamedTuple):
    quality: SheetQuality
    told: Sequence[Told]
    command: str


def _sheets_to_check(report: AnnotationReport) -> Iterator[_SheetToCheck]:
    """Yield the sheets to be checked by hand, with their answers."""
    quality = {(sheet.sheet, sheet.worker): sheet for sheet in report.sheets}
    for (sheet, worker), answers in groupby(report.to_check, key=lambda answer: (answer.sheet, answer.worker)):
        command = f"{report.command} --accept {shlex.quote(f'{sheet}:{worker}')}"
        yield _SheetToCheck(quality[sheet, worker], list(answers), command)


def _list_facts(report: AnnotationReport) -> list[tuple[str, str]]:
    provenance = report.provenance
    facts = {
        "Command": provenance.command,
        "Rule for labels": report.rule,
        "Scheme": report.scheme.citation,
        "Data edition": provenance.data.edition,
        "Data fingerprint": provenance.data.fingerprint,
        "Package version": provenance.package.version,
    }
    return [(title, str(value)) for title, value in facts.items() if value]


def write_annotated(folder: Path, report: AnnotationReport, images: Path | None = None) -> list[Path]:
    """Write the numbers and the page atomically; keep other files of the folder."""
    texts = {
        "annotation_report.json": json.dumps(report.to_dict(), indent=2, allow_nan=False, ensure_ascii=False) + "\n",
        "annotation_report.html": render_annotated(report, images),
    }
    return write_texts(folder, texts, recorded=True)
