"""The report on an annotation, and its tables."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from cxc_eccv.presentation import Section, ShownResult, list_facts
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.studies.annotation.changes import LabelChanges, change_tables
from cxc_eccv.studies.asking.answer_files import list_rows
from cxc_eccv.studies.asking.questions import NEGATIVE, POSITIVE
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.studies.asking.settling import STATISTICS, Agreement
from cxc_eccv.studies.asking.sheet_quality import ACCEPTED, BY_HAND, REJECTED, list_doubts
from cxc_eccv.tables import MISSING, Table
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.result import group_by_reason
from cxc_eccv.wording import list_names

ANNOTATION_SCHEMA = 1

RANKS = 5
"""Ranks with a row in Table B.2; lower ranks share a row."""

MOST_CONSOLE_ROWS = 20
"""Rows of a table on the console; the file has all."""

DRAWN = "\N{EMPTY SET}"
"""Stands for the model of randomly drawn pairs."""

ALL_ANSWERS = ""
"""Stands for the model of all answers together."""

OTHERS = {DRAWN: "in no list", ALL_ANSWERS: "all answers, each once"}
"""Titles of the counts that belong to no model."""


HOW_TO_CHECK = (
    "Look at the answers, and decide whether they count. Wrong answers to known pairs are marked; a known positive is "
    "an image with one of its own captions, a known negative a random pair that no model ranks near the top."
)


@dataclass(frozen=True, slots=True)
class AnswerToCheck:
    """An answer to be checked or with a remark."""

    sheet: int
    worker: str
    image_id: int
    caption_id: int
    caption: str
    role: str
    answer: str  # in words
    positive: bool  # whether it makes the pair positive
    seconds: float | None  # None if unknown
    remark: str
    file_name: str = ""  # of the image
    other: str = ""  # file name of a second image, or a second caption


@dataclass(frozen=True, slots=True)
class RejectedCaption:
    """A caption that people rejected for its own image, or that CxC rates low."""

    image_id: int
    caption_id: int
    caption: str
    turned_down: int  # answers that reject it
    answers: int  # all answers about it
    rating: float | None  # of CxC


@dataclass(frozen=True, slots=True)
class AnnotationReport(ShownResult):
    """The numbers of the report: answers, sheets, workers, agreement and effect on models."""

    page_template: ClassVar[tuple[str, str]] = ("annotated.html.jinja", "cxc_eccv.studies.annotation")

    name: str  # name of the labels
    scheme: Scheme
    candidates: int  # number of candidates
    sheets_asked: int  # number of sheets with them
    golds: Mapping[str, int]  # role of known pairs to the number of answered sheets with one
    least_seconds: float  # faster sheets are too hasty; 0 for no limit
    accepts: str  # which sheets are accepted without a decision, in words
    rule: str  # rule that makes the labels
    sheets: pd.DataFrame  # of judge_sheets
    workers: pd.DataFrame  # of judge_workers
    known: Mapping[str, str]  # worker to the right answers to known pairs, with the interval of their share
    activity: pd.DataFrame  # of group_workers; no row without answers
    classes: tuple[str, ...]  # names of the answers in by_rank
    agreement: tuple[Agreement, ...]  # about the answers, and about positives
    by_pair: pd.DataFrame  # workers with each other, of compare_workers
    with_label: pd.DataFrame  # workers with the labels, of compare_with_labels
    by_rank: pd.DataFrame  # Table B.2, of count_by_rank: model, rank, and the count of each class
    details: Mapping[str, pd.DataFrame]  # Table B.3: title of a group to the counts of its choices, of count_by_model
    to_check: tuple[AnswerToCheck, ...]  # answers of the sheets to be checked by hand
    remarks: tuple[AnswerToCheck, ...]  # answers with a remark
    changes: LabelChanges | str  # the effect of new labels on models, or the reason that it is unknown
    cautions: tuple[str, ...] = ()  # warnings about the numbers
    doubted: tuple[RejectedCaption, ...] = ()
    folder: str = ""  # of the project, for commands; empty without a project
    provenance: Provenance = field(default_factory=Provenance)  # of data, models and versions

    @property
    def title(self) -> str:
        """The name of the labels."""
        return f"Annotation of {self.name}"

    @property
    def data(self) -> str:
        """The split and the edition of the data in words."""
        return describe_data(self.provenance.data, self.provenance.split)

    def facts(self) -> list[tuple[str, str]]:
        """The command, the rule, and the versions."""
        return list_facts(
            {
                "Command": self.provenance.command,
                "Rule for labels": self.rule,
                "Scheme": self.scheme.citation,
                "Data edition": self.provenance.data.edition,
                "Data fingerprint": self.provenance.data.fingerprint,
                "Package version": self.provenance.package.version,
            }
        )

    def record(self) -> dict[str, Any]:
        """All numbers."""
        content = asdict(self) | {"scheme": self.scheme.name, "positive_from": self.scheme.positive}
        for name in ("sheets", "workers", "activity", "by_pair", "with_label"):
            content[name] = list_rows(getattr(self, name))
        content["by_rank"] = _list_counts(self.by_rank)
        content["details"] = {
            title: (_list_choices(counts), _list_counts(counts)) for title, counts in self.details.items()
        }
        if isinstance(self.changes, str):
            content |= {"changes": None, "no_changes": self.changes}
        del content["folder"]
        return {"schema": ANNOTATION_SCHEMA, **content, "provenance": to_json(self.provenance)}

    def tables(self) -> list[Table]:
        """The console tables, with the first rows of long ones."""
        tables = [
            self.sheet_table,
            *([self.activity_table, shorten(self.worker_table)] if len(self.sheets) else []),
            *([shorten(self.doubt_table)] if self.to_check else []),
            *([self.agreement_table] if len(self.sheets) else []),
            *([shorten(self.pair_table)] if len(self.by_pair) else []),
            *([self.rank_table, *self.detail_tables] if len(self.by_rank) else []),
            *([shorten(self.caption_table)] if len(self.sheets) and self.doubted else []),
            *self.change_tables,
        ]
        return [replace(table, data=self.data) for table in tables]

    def sections(self) -> list[Section]:
        """The tables in full, by what they are about; the template shows the answers."""
        is_answered = len(self.sheets) > 0
        workers = [self.activity_table, self.worker_table] if is_answered else []
        agreement = [self.agreement_table] if is_answered else []
        agreement += [self.pair_table] if is_answered and len(self.by_pair) else []
        models = [self.rank_table, *self.detail_tables] if len(self.by_rank) else []
        captions = [self.caption_table] if is_answered and self.doubted else []
        sections = {
            "sheets": Section("sheets", "Sheets", [self.sheet_table]),
            "check": Section("check", "To be checked by hand", lead=HOW_TO_CHECK, name="To be checked"),
            "workers": Section("workers", "Workers", workers),
            "agreement": Section("agreement", "Agreement", agreement),
            "models": Section("models", "Answers to each model's pairs", models, name="Models"),
            "changes": Section("changes", "Changes of every model's scores", self.change_tables, name="What changed"),
            "captions": Section("captions", "Captions that may be invalid", captions),
            "remarks": Section("remarks", "Remarks"),
        }
        answers = {"check": self.to_check, "remarks": self.remarks}
        return [section for name, section in sections.items() if section.tables or answers.get(name)]

    def page_content(self, images: str | Path | None = None) -> dict[str, Any]:
        """The answers to be checked and those with a remark, with thumbnails from the folder ``images``."""
        names = {name for answer in self.to_check for name in (answer.file_name, answer.other) if name}
        shown = {}
        if images is not None:
            from cxc_eccv.presentation.thumbnails import thumbnails

            shown = thumbnails(images, names)
        return {"report": self, "images": shown, "checked": list(self._list_sheets_to_check()), "seconds": show_seconds}

    def _list_sheets_to_check(self) -> Iterator[dict[str, Any]]:
        """Yield the sheets to be checked by hand, each with its answers and the command that accepts it."""
        doubts = {(row.sheet, row.worker): list_doubts(row) for row in self.sheets.itertuples()}
        for (sheet, worker), answers in groupby(self.to_check, key=lambda answer: (answer.sheet, answer.worker)):
            command = f"{self.command} --accept {shlex.quote(f'{sheet}:{worker}')}"
            yield {
                "sheet": sheet,
                "worker": worker,
                "doubts": doubts[sheet, worker],
                "answers": list(answers),
                "command": command,
            }

    @property
    def sheet_table(self) -> Table:
        """The number of answered sheets, the doubts about them, and their times."""
        title = f"Answers to {self.name}"
        asked = f"{self.candidates:,} candidates on {self.sheets_asked:,} sheets, scheme {self.scheme.name}"
        if self.sheets.empty:
            return Table([], [], title, asked, notes=["No answers yet: cxc-eccv annotate import reads them."])
        seconds = self.sheets["seconds"].dropna().tolist()
        rows = [*self._count_sheets()]
        notes = [*self._explain_sheets(len(seconds))]
        if seconds:
            times = {"median": float(np.median(seconds)), "mean": float(np.mean(seconds))}
            times |= {"shortest": min(seconds), "longest": max(seconds)}
            rows += [["Time of a sheet"], *([name, show_seconds(time), ""] for name, time in times.items())]
        return Table(_head("", "Sheets", "Of them"), rows, title, asked, notes=notes, cautions=self.cautions)

    def _count_sheets(self) -> Iterator[list[str]]:
        """Yield the counts of sheets by verdict and by doubt."""
        sheets = self.sheets
        positive, negative = (self.golds[role] for role in (POSITIVE, NEGATIVE))

        def count(name: str, holds: pd.Series, among: int = len(sheets)) -> list[str]:
            number = int(holds.sum())
            return [name, f"{number:,}", f"{number / among:.1%}" if among else MISSING]

        yield ["answered sheets", f"{len(sheets):,}", ""]
        for verdict in (ACCEPTED, REJECTED, BY_HAND):
            yield count(verdict, sheets["verdict"] == verdict)
        yield count("decided by hand", sheets["checked"])
        yield ["Doubts"]
        yield count("known positive answered as negative", sheets["missed_positive"], positive)
        yield count("known negative answered as positive", sheets["missed_negative"], negative)
        yield count("both", sheets["missed_positive"] & sheets["missed_negative"], min(positive, negative))
        yield count("the same answer to all candidates", sheets["straight"])
        if self.least_seconds:
            yield count(f"less than {self.least_seconds:g} seconds", sheets["hasty"])

    def _explain_sheets(self, n_timed: int) -> Iterator[str]:
        n_sheets = len(self.sheets)
        yield (
            f"{self.accepts} Check the others by hand; their answers count once you accept them: "
            f"{self.command} --accept SHEET:WORKER, or --reject. Stricter: --least-accuracy, --least-seconds, "
            "--straight."
        )
        if min(self.golds[role] for role in (POSITIVE, NEGATIVE)) < n_sheets:
            yield "Some sheets lack a known pair of one kind; their verdicts depend on the other checks."
        if n_timed < n_sheets:
            yield f"The times of {n_sheets - n_timed:,} sheets are unknown, since their format has none."
        if n_timed and not self.least_seconds:
            yield f"No sheet is too hasty, since no least time is set: {self.command} --least-seconds."

    @property
    def command(self) -> str:
        """The command that decides about sheets."""
        return f"cxc-eccv annotate check {shlex.quote(self.folder or 'FOLDER')}"

    @property
    def activity_table(self) -> Table:
        """Table B.1."""
        rows = []
        for group in list_rows(self.activity):
            least = group["least"]
            most = group["most"]
            sheets = f"{least} to {most}" if most else f"{least} and more"
            if least == most:
                sheets = str(least)
            counts = [group[name] for name in ("workers", "submitted", "approved")]
            ratio = group["approved"] / group["submitted"] if group["submitted"] else None
            rows.append([sheets, *map("{:,}".format, counts), show(ratio, "{:.1%}")])
        header = _head("Sheets of a worker", "Workers", "Submitted", "Accepted", "Ratio")
        return Table(header, rows, "Workers by sheets", "Table B.1 of ECCV Caption")

    @property
    def worker_table(self) -> Table:
        """Sums of every worker, and their agreement with the labels."""
        labels = {row["first"]: row for row in list_rows(self.with_label)}
        hasty = ["hasty"] if self.least_seconds else []
        header = ["Worker", "sheets", "accepted", "rejected", "known right", "missed yes", "missed no", "one answer"]
        header += [*hasty, "median time", "shared pairs", "as labelled", "kappa"]
        rows = []
        for each in list_rows(self.workers):
            counts = [each[name] for name in ("submitted", "accepted", "rejected")]
            missed = [each[name] for name in ("missed_positives", "missed_negatives", "straight", *hasty)]
            label = labels.get(each["worker"])
            agreed = [MISSING] * 3
            if label is not None:
                agreed = [f"{label['pairs']:,}", f"{label['share']:.1%}", show(label["kappa"])]
            numbers = [*map("{:,}".format, counts), self.known[each["worker"]], *map("{:,}".format, missed)]
            rows.append([each["worker"], *numbers, show_seconds(each["median_seconds"]), *agreed])
        notes = [
            "Known right: right answers to known pairs, with the 95% interval of their share; chance gives 50%. "
            "Missed yes, missed no: sheets with a wrong answer to the "
            "known positive or negative. Shared pairs: also judged by others; as labelled: share of them on which the "
            f"worker agrees with the label ({self.rule}), to which the worker contributed; kappa: Cohen's kappa of the "
            "two."
        ]
        return Table(_head(*header), rows, "Workers", notes=notes)

    @property
    def doubt_table(self) -> Table:
        """The people and the sheets to be checked by hand."""
        return tabulate_doubts(self.sheets)

    @property
    def agreement_table(self) -> Table:
        """The coefficients of agreement."""
        header = _head("Agreement", *(agreement.about for agreement in self.agreement))
        rows = [["pairs judged by two or more", *(f"{agreement.pairs:,}" for agreement in self.agreement)]]
        for name, title in STATISTICS.items():
            form = "{:.1%}" if name == "share" else "{:.3f}"
            rows.append([title, *(show(agreement.values.get(name), form) for agreement in self.agreement)])
        notes = [
            f"{agreement.about}, {list_names(STATISTICS[name] for name in names)}: {reason}."
            for agreement in self.agreement
            for reason, names in group_by_reason(agreement.not_computed).items()
        ]
        return Table(header, rows, "Agreement between people", "candidates of accepted sheets", notes=notes)

    @property
    def pair_table(self) -> Table:
        """The agreement of every two workers."""
        rows = [
            [f"{pair['first']}, {pair['second']}", f"{pair['pairs']:,}", f"{pair['share']:.1%}", show(pair["kappa"])]
            for pair in list_rows(self.by_pair)
        ]
        header = _head("Workers", "Shared pairs", "Agree", "Cohen's kappa")
        notes = ["About positives. Kappa is undefined if all answers of both are equal."]
        return Table(header, rows, "Agreement of pairs of workers", notes=notes)

    @property
    def rank_table(self) -> Table:
        """Table B.2."""
        rows: list[Sequence[str]] = []
        titles = {None: "all", 0: f"below {RANKS}"}
        lines = _list_counts(self.by_rank)
        for model, of_model in groupby(lines, key=itemgetter("model")):
            if model not in OTHERS:
                rows.append([model])
                rows += [[titles.get(line["rank"], str(line["rank"])), *_shares(line["counts"])] for line in of_model]
        rows.append(["Not by model"])
        rows += [[OTHERS[line["model"]], *_shares(line["counts"])] for line in lines if line["model"] in OTHERS]
        notes = [
            "Percent of the answers to pairs that a model proposed, by their rank in its lists of both directions. An "
            "answer counts for every list with its pair. Pairs that were known to match were not asked about."
        ]
        header = _head("Rank", *self.classes, "Answers")
        return Table(header, rows, "Answers by model and rank", "Table B.2 of ECCV Caption", notes=notes)

    @property
    def detail_tables(self) -> list[Table]:
        """Tables B.3: shortcomings by model."""
        tables = []
        for title, counts in self.details.items():
            lines = _list_counts(counts)
            rows = [[OTHERS.get(line["model"], line["model"]), *_shares(line["counts"])] for line in lines]
            header = _head("", *(choice.replace("_", " ") for choice in _list_choices(counts)), "Ticks")
            tables.append(Table(header, rows, title.rstrip("?"), "percent of the ticks, Table B.3 of ECCV Caption"))
        return tables

    @property
    def caption_table(self) -> Table:
        """Captions that may be invalid, appendix C.1 of ECCV Caption."""
        rows = [
            [str(row.caption_id), row.caption, f"{row.turned_down} of {row.answers}", show(row.rating, "{:.2f}")]
            for row in self.doubted
        ]
        header = _head("Caption", "", "Rejected", "CxC")
        title = "Captions that may not describe their own image"
        notes = ["Check them: some describe nothing, or another image."]
        return Table(header, rows, title, "appendix C.1 of ECCV Caption", prose=frozenset([1]), notes=notes)

    @property
    def change_tables(self) -> list[Table]:
        """The effect of the labels on models, or the reason that it is unknown."""
        if isinstance(self.changes, str):
            return [Table([], [], "Changes of models' scores", notes=[self.changes])]
        return change_tables(self.changes)


def tabulate_doubts(judged: pd.DataFrame) -> Table:
    """The people and the sheets to be checked by hand; a reason to doubt a person has one row for all sheets."""
    by_hand = judged[judged["verdict"] == BY_HAND]
    people = Counter((sheet.worker, sheet.unsure) for sheet in by_hand.itertuples() if sheet.unsure)
    rows = [[worker, f"{why} (sheets: {number:,})", ""] for (worker, why), number in people.items()]
    for sheet in by_hand.itertuples():
        doubts = [doubt for doubt in list_doubts(sheet) if doubt != sheet.unsure]
        if doubts:
            seconds = None if np.isnan(sheet.seconds) else sheet.seconds
            rows.append([f"{sheet.sheet}:{sheet.worker}", "; ".join(doubts), show_seconds(seconds)])
    return Table(_head("Worker, or sheet:worker", "Why", "Time"), rows, "To be checked by hand", prose=frozenset([1]))


def shorten(table: Table) -> Table:
    """The first rows of a long table, for the console."""
    if len(table.rows) <= MOST_CONSOLE_ROWS:
        return table
    notes = [f"{len(table.rows) - MOST_CONSOLE_ROWS:,} more with --output.", *table.notes]
    return replace(table, rows=table.rows[:MOST_CONSOLE_ROWS], notes=notes)


def _head(*names: str) -> list[tuple[str]]:
    return [(name,) for name in names]


def show_seconds(seconds: float | None) -> str:
    """A time such as ``5 min 12 s``, or a dash for None."""
    if seconds is None:
        return MISSING
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def show(value: float | None, form: str = "{:.3f}") -> str:
    """A formatted number, or a dash for None."""
    return MISSING if value is None else form.format(value)


def _list_choices(counts: pd.DataFrame) -> list[str]:
    """The choices that are counted."""
    return list(counts.columns.drop(["model", "rank"]))


def _list_counts(counts: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of counts: model, rank (0 for lower ranks, None for all) and the count of every choice."""
    rows = list_rows(counts[["model", "rank"]])
    numbers = counts[_list_choices(counts)].to_numpy().tolist()
    return [{**row, "counts": of_row} for row, of_row in zip(rows, numbers, strict=True)]


def _shares(counts: Sequence[int]) -> list[str]:
    total = sum(counts)
    return [*(f"{100 * count / total:.1f}" if total else MISSING for count in counts), f"{total:,}"]
