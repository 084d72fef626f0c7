"""Make the report on an annotation project from its answers, decisions and labels, and write its numbers and page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from cxc_eccv.errors import DataError, SourceMissing
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.sources.library import Split
from cxc_eccv.sources.readers import LABELS_SCHEMA, LabelFile, read_labels
from cxc_eccv.studies.annotation.annotation_tables import (
    ALL_ANSWERS,
    DRAWN,
    RANKS,
    AnnotationReport,
    AnswerToCheck,
    RejectedCaption,
)
from cxc_eccv.studies.annotation.changes import LabelChanges
from cxc_eccv.studies.annotation.project import LABELS, Project
from cxc_eccv.studies.annotation.proposing import list_proposals
from cxc_eccv.studies.asking.answer_files import list_rows
from cxc_eccv.studies.asking.questions import CANDIDATE, NEGATIVE, PAIR, POSITIVE, Question
from cxc_eccv.studies.asking.schemes import Details, Scheme
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
    accept,
    count_known,
    group_workers,
    judge_workers,
    keep_sheets,
)
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.writing import write_texts

NO_MODEL = "No models were given. cxc-eccv annotate report FOLDER MODELS... shows how the labels change their scores."
NOT_MERGED = "There are no labels yet. cxc-eccv annotate merge makes them from the answers."
OUT_OF_DATE = (
    "The merged labels are out of date: answers or decisions changed since. Run cxc-eccv annotate merge again."
)

MATCHES = 3.0
"""Lowest CxC rating of a caption that describes its image."""


def report_project(
    project: Project, changes: LabelChanges | None = None, command: str | None = None
) -> AnnotationReport:
    """The report on the current state of a project; ``changes`` has the effect of its labels on models."""
    # First of all, as it names the files that were read: ratings of captions are no part of what is reported.
    facts = make_provenance(project.library, project.facts.split, Provenance(command=command or None))
    path = project.folder / LABELS
    labels = read_labels(path) if path.is_file() else None
    rule = project.scheme.rule if labels is None else labels.facts["rule"]
    is_new = labels is None or _is_settled(labels, accept(project.answers, project.verdicts), project.scheme)
    rejected_captions = tuple[RejectedCaption, ...]()
    if project.scheme.sides == ("image", "caption"):
        counted = keep_sheets(project.answers, project.verdicts, ACCEPTED, BY_HAND)
        rejected_captions = find_rejected_captions(counted, project.split)
    return report_annotation(
        Annotation(
            name=project.name,
            scheme=project.scheme,
            answers=project.answers,
            judged=project.verdicts,
            candidates=project.candidates,
            sheets=project.questions,
            changes=changes or (NOT_MERGED if labels is None else NO_MODEL),
            checks=project.decisions.checks,
            rule=rule,
            folder=str(project.folder),
            cautions=() if is_new else (OUT_OF_DATE,),
            provenance=facts,
            doubted=rejected_captions,
        )
    )


def _is_settled(labels: LabelFile, accepted: pd.DataFrame, scheme: Scheme) -> bool:
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
    answers: pd.DataFrame
    judged: pd.DataFrame  # a verdict on every sheet
    candidates: pa.Table  # each pair once
    sheets: Sequence[Sequence[Question]]
    changes: LabelChanges | str
    checks: Checks = field(default_factory=Checks)
    rule: str | None = None  # None for that of the scheme
    folder: str = ""
    cautions: tuple[str, ...] = ()
    doubted: tuple[RejectedCaption, ...] = ()
    provenance: Provenance = field(default_factory=Provenance)


def report_annotation(annotation: Annotation) -> AnnotationReport:
    """Sum up sheets and workers, and count the answers of accepted sheets."""
    scheme = annotation.scheme
    answers = annotation.answers
    judged = annotation.judged
    rule = annotation.rule or scheme.rule
    questions = {question.pair_id: question for question in chain(*annotation.sheets)}
    accepted = accept(answers, judged)
    accepted = keep_last(accepted[accepted["role"] == CANDIDATE])
    labels = settle(accepted, scheme, rule) if len(accepted) else LABELS_SCHEMA.empty_table()
    classes, codes = classify(accepted, scheme)
    lists = list_proposals(annotation.candidates)[[*PAIR, "model", "rank"]]
    lists["rank"] = lists["rank"].where(lists["rank"] <= RANKS, 0)
    given = pd.DataFrame(np.eye(len(classes), dtype=np.int64)[codes], accepted.index, classes)
    return AnnotationReport(
        name=annotation.name,
        scheme=scheme,
        candidates=annotation.candidates.num_rows,
        sheets_asked=len(annotation.sheets),
        golds={role: _count_sheets(answers[answers["role"] == role]) for role in (POSITIVE, NEGATIVE)},
        least_seconds=annotation.checks.least_seconds,
        accepts=annotation.checks.rule,
        rule=rule,
        sheets=judged,
        workers=judge_workers(judged),
        known={worker: str(known) for worker, known in count_known(answers).items()},
        activity=group_workers(judged) if len(judged) else group_workers(judged).head(0),
        classes=classes,
        agreement=measure_agreement(accepted, scheme),
        by_pair=compare_workers(accepted),
        with_label=compare_with_labels(accepted, labels),
        by_rank=count_by_rank(accepted, given, lists),
        details={
            group.label: count_by_model(accepted, mark_choices(accepted, group), lists) for group in scheme.details
        },
        to_check=tuple(describe_answers(keep_sheets(answers, judged, BY_HAND), questions)),
        remarks=tuple(describe_answers(answers[answers["remark"] != ""], questions)),
        changes=annotation.changes,
        cautions=annotation.cautions,
        doubted=annotation.doubted,
        folder=annotation.folder,
        provenance=annotation.provenance,
    )


def find_rejected_captions(answers: pd.DataFrame, split: Split) -> tuple[RejectedCaption, ...]:
    """Captions that people rejected for their own image, or that CxC rates below 3."""
    captions = pd.DataFrame(
        {
            "caption_id": split.caption_ids,
            "image_id": split.caption_image_ids,
            "caption": [" ".join(text.split()) for text in split.captions["text"].to_pylist()],
        }
    )
    own = answers[[*PAIR, "positive"]].merge(captions[PAIR], on=PAIR, validate="many_to_one")
    rejections = (~own["positive"]).groupby(own["caption_id"]).agg(turned_down="sum", answers="size")
    captions = captions.set_index("caption_id").join(rejections).join(_find_ratings(captions, split))
    captions = captions.fillna({"turned_down": 0, "answers": 0}).astype({"turned_down": int, "answers": int})
    rejected = captions[(captions["turned_down"] > 0) | (captions["rating"] < MATCHES)]
    rows = list_rows(rejected.reset_index())
    rows.sort(key=lambda row: (-row["turned_down"], row["rating"] or 0.0, row["caption_id"]))
    return tuple(RejectedCaption(**row) for row in rows)


def _find_ratings(captions: pd.DataFrame, split: Split) -> pd.Series:
    """CxC's ratings of captions with their own images, by caption id; empty if CxC did not rate the split."""
    try:
        ratings = split.ratings("sits").select(["left_id", "right_id", "rating"]).to_pandas()
    except (SourceMissing, DataError):
        return pd.Series(name="rating", dtype=np.float64)
    ratings = ratings.rename(columns={"left_id": "caption_id", "right_id": "image_id"})
    return ratings.merge(captions[PAIR], on=PAIR, validate="many_to_one").groupby("caption_id")["rating"].last()


def _count_sheets(answers: pd.DataFrame) -> int:
    return len(answers.drop_duplicates(["sheet", "worker"]))


def count_by_rank(answers: pd.DataFrame, votes: pd.DataFrame, lists: pd.DataFrame) -> pd.DataFrame:
    """Table B.2: sums of the votes by model and rank, by model alone (no rank), and over all answers (no model)."""
    by_model = count_by_model(answers, votes, lists)
    listed = answers[PAIR].join(votes).merge(lists, on=PAIR)
    by_rank = listed.groupby(["model", "rank"], as_index=False)[list(votes)].sum()
    return _order_counts(pd.concat([by_rank, by_model]))


def count_by_model(answers: pd.DataFrame, votes: pd.DataFrame, lists: pd.DataFrame) -> pd.DataFrame:
    """Table B.3: sums of the votes by model, and over all answers, each once (no model); nothing without answers.

    Args:
        answers: the answers.
        votes: a column per choice, a row per answer: 1 where the answer makes it.
        lists: model and rank of the lists that propose each pair; a drawn pair is in none, and counts for DRAWN.
    """
    listed = answers[PAIR].join(votes).merge(lists, how="left", on=PAIR).fillna({"model": DRAWN})
    sums = listed.groupby("model", as_index=False)[list(votes)].sum()
    if len(answers):
        sums.loc[len(sums)] = {"model": ALL_ANSWERS, **votes.sum()}
    sums.insert(1, "rank", pd.array([None] * len(sums), dtype="Int64"))
    return _order_counts(sums)


def _order_counts(counts: pd.DataFrame) -> pd.DataFrame:
    """The counts by model, those of no model last; of a model by rank, lower ranks and all of them last."""
    keys = pd.DataFrame(
        {
            "group": counts["model"].map({DRAWN: 1, ALL_ANSWERS: 2}).fillna(0),
            "model": counts["model"],
            "rank": counts["rank"].replace(0, RANKS + 1).fillna(RANKS + 2),
        }
    )
    order = np.lexsort([keys[name] for name in ("rank", "model", "group")])
    return counts.iloc[order].reset_index(drop=True)


def mark_choices(answers: pd.DataFrame, group: Details) -> pd.DataFrame:
    """A column per choice of a group, 1 where an answer ticks it."""
    ticked = [json.loads(details).get(group.name, ()) for details in answers["details"]]
    marks = pd.DataFrame(0, index=answers.index, columns=list(group.choices))
    for name in group.choices:
        marks[name] = [int(name in ticks) for ticks in ticked]
    return marks


def describe_answers(answers: pd.DataFrame, questions: Mapping[str, Question]) -> Iterator[AnswerToCheck]:
    """Yield answers in words, with what their questions show."""
    for row in list_rows(answers):
        answer = json.loads(row["answer"])
        question = questions[row["pair_id"]]
        if isinstance(answer, dict):
            answer = " and ".join(name for name, holds in answer.items() if holds) or "none"
        words = str(answer).replace("_", " ")
        ticks = [tick.replace("_", " ") for tick in chain(*json.loads(row["details"]).values())]
        yield AnswerToCheck(
            sheet=row["sheet"],
            worker=row["worker"],
            image_id=row["image_id"],
            caption_id=row["caption_id"],
            caption=question.caption,
            role=row["role"],
            answer=f"{words}: {', '.join(ticks)}" if ticks else words,
            positive=row["positive"],
            seconds=row["seconds"],
            remark=row["remark"],
            file_name=question.file_name,
            other=question.other,
        )


def write_annotated(folder: Path, report: AnnotationReport, images: Path | None = None) -> list[Path]:
    """Write the numbers and the page atomically; keep other files of the folder."""
    texts = {
        "annotation_report.json": report.to_json(),
        "annotation_report.html": report.to_html(images),
    }
    return write_texts(folder, texts, recorded=True)
