"""The report on an annotation, and the tables that people read of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from cxc_eccv.comparison.labels import list_names
from cxc_eccv.sources.edition import describe_data
from cxc_eccv.studies.annotation.labelling.changes import LabelChanges, change_tables
from cxc_eccv.studies.asking.quality.agreement import STATISTICS, Agreement, Together
from cxc_eccv.studies.asking.quality.sheets import ACCEPTED, BY_HAND, REJECTED, Activity, SheetQuality, WorkerQuality
from cxc_eccv.studies.asking.questions import NEGATIVE, POSITIVE
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.tables import MISSING, Table
from cxc_eccv.types.reported import group_by_reason

SCHEMA = 1

RANKS = 5
"""Of Table B.2; what stands lower in a list is one row."""

LONGEST = 20
"""Rows of a table on the console; all are in the file."""

DRAWN = "\N{EMPTY SET}"
"""Stands for a model where a pair was drawn, and no model proposed it."""

OTHERS = {DRAWN: "in no list", "": "all answers, each once"}
"""What is counted beside models, and is no name of one."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers to the pairs that a model proposed."""

    model: str  # its name, or one of OTHERS
    rank: int | None  # in the model's list; 0 for what stands below Table B.2's, None for all ranks
    counts: tuple[int, ...]  # of each answer, or of each choice of details


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, to be looked at."""

    sheet: int
    worker: str
    image_id: int
    caption_id: int
    caption: str
    role: str
    answer: str  # in words
    positive: bool  # whether it makes the pair positive
    seconds: float | None  # it took, where that is known
    remark: str  # what the worker wrote
    file_name: str = ""  # of the image
    other: str = ""  # file name of a second image, or a second caption


@dataclass(frozen=True, slots=True)
class Doubted:
    """A caption of an image's own that people turned down, or that CxC rates low."""

    image_id: int
    caption_id: int
    caption: str
    turned_down: int  # by so many answers
    answers: int  # out of so many
    rating: float | None  # of CxC


@dataclass(frozen=True, slots=True)
class AnnotationReport:
    """What people answered, sheet by sheet and in tables."""

    name: str  # of the labels that the answers become
    scheme: Scheme
    candidates: int  # pairs that are asked about
    sheets_asked: int  # sheets that they are on
    golds: Mapping[str, int]  # role of the known pairs to the number of answered sheets that have one
    least_seconds: float  # of a sheet that is not too hasty; 0 for no limit
    rule: str  # by which the answers are settled
    sheets: tuple[SheetQuality, ...]
    workers: tuple[WorkerQuality, ...]
    known: Mapping[str, str]  # worker to known pairs answered rightly, of how many, with the interval of the share
    activity: tuple[Activity, ...]
    classes: tuple[str, ...]  # names of the answers in by_rank
    agreement: tuple[Agreement, ...]  # about the answers, and about what is positive
    by_pair: tuple[Together, ...]  # workers with each other
    with_label: tuple[Together, ...]  # workers with the settled labels
    reliability: Mapping[str, float]  # worker to the chance that an answer is right, by Dawid and Skene's model
    by_rank: tuple[Answered, ...]  # Table B.2
    # Table B.3: title of a group to its choices and their counts.
    details: Mapping[str, tuple[tuple[str, ...], tuple[Answered, ...]]]
    to_check: tuple[Told, ...]  # answers of the sheets that somebody has to look at
    remarks: tuple[Told, ...]  # answers with a remark
    changes: LabelChanges | str  # what new labels do to models, or why that is not known
    cautions: tuple[str, ...] = ()  # what else to know before believing the numbers
    doubted: tuple[Doubted, ...] = ()
    folder: str = ""  # of the project, as commands name it; empty outside of one
    provenance: Mapping[str, Any] = field(default_factory=dict)  # of data, models and versions

    def to_dict(self) -> dict[str, Any]:
        """All of it, for a file of JSON."""
        content = asdict(self) | {"scheme": self.scheme.name, "positive_from": self.scheme.positive}
        if isinstance(self.changes, str):
            content |= {"changes": None, "no_changes": self.changes}
        del content["folder"]
        return {"schema": SCHEMA, **content}

    def tables(self, most: int | None = LONGEST) -> list[Table]:
        """What the command line prints; of long tables the first rows, or all with None."""
        tables = [
            self.sheet_table,
            *([self.activity_table, self.worker_table(most)] if self.sheets else []),
            *([self.doubt_table(most)] if self.to_check else []),
            *([self.agreement_table] if self.sheets else []),
            *([self.pair_table(most)] if self.by_pair else []),
            *([self.rank_table, *self.detail_tables] if self.by_rank else []),
            *([self.caption_table(most)] if self.sheets and self.doubted else []),
            *self.change_tables,
        ]
        return [replace(table, data=describe_data(self.provenance)) for table in tables]

    @property
    def sheet_table(self) -> Table:
        """How many sheets came back, what speaks against them, and how long they took."""
        title = f"Answers to {self.name}"
        asked = f"{self.candidates:,} candidates on {self.sheets_asked:,} sheets, scheme {self.scheme.name}"
        if not self.sheets:
            return Table([], [], title, asked, notes=["No answers yet: cxc-eccv annotate import reads them."])
        seconds = [sheet.seconds for sheet in self.sheets if sheet.seconds is not None]
        rows, notes = [*self._count_sheets()], [*self._explain_sheets(len(seconds))]
        if seconds:
            middle = {"median": float(np.median(seconds)), "mean": float(np.mean(seconds))}
            times = middle | {"shortest": min(seconds), "longest": max(seconds)}
            rows += [["Time of a sheet"], *([name, show_seconds(time), ""] for name, time in times.items())]
        header = [("",), ("Sheets",), ("Of them",)]
        return Table(header, rows, title, asked, notes=notes, cautions=self.cautions)

    def _count_sheets(self) -> Iterator[list[str]]:
        """By verdict, and by what speaks against them."""
        sheets = self.sheets
        positive, negative = (self.golds[role] for role in (POSITIVE, NEGATIVE))

        def count(name: str, holds: Iterable[bool], among: int = len(sheets)) -> list[str]:
            number = sum(holds)
            return [name, f"{number:,}", f"{number / among:.1%}" if among else MISSING]

        yield ["answered sheets", f"{len(sheets):,}", ""]
        for verdict in (ACCEPTED, REJECTED, BY_HAND):
            yield count(verdict, (sheet.verdict == verdict for sheet in sheets))
        yield count("decided by hand", (sheet.checked for sheet in sheets))
        yield ["What speaks against them"]
        yield count("known positive answered as none", (sheet.missed_positive for sheet in sheets), positive)
        yield count("known negative answered as positive", (sheet.missed_negative for sheet in sheets), negative)
        both = (sheet.missed_positive and sheet.missed_negative for sheet in sheets)
        yield count("both", both, min(positive, negative))
        yield count("the same answer to all candidates", (sheet.straight for sheet in sheets))
        if self.least_seconds:
            yield count(f"less than {self.least_seconds:g} seconds", (sheet.hasty for sheet in sheets))

    def _explain_sheets(self, n_timed: int) -> Iterator[str]:
        n_sheets = len(self.sheets)
        yield (
            "A sheet with anything against it is checked by hand, and its answers count once it is accepted: "
            f"{self.command} --accept SHEET:WORKER, or --reject. The same answer to all candidates is a warning alone, "
            "unless --straight asks for more."
        )
        if min(self.golds[role] for role in (POSITIVE, NEGATIVE)) < n_sheets:
            yield "Sheets without a known pair of a kind cannot fail it: their verdicts rest on the rest alone."
        if n_timed < n_sheets:
            yield f"The time is not known of {n_sheets - n_timed:,} sheets: their format tells none."
        if n_timed and not self.least_seconds:
            yield f"No sheet is too hasty, as no least time is set: {self.command} --least-seconds."

    @property
    def command(self) -> str:
        """By which people decide about sheets."""
        return f"cxc-eccv annotate check {shlex.quote(self.folder or 'FOLDER')}"

    def command_for(self, sheet: int, worker: str) -> str:
        """By which people accept a sheet."""
        return f"{self.command} --accept {shlex.quote(f'{sheet}:{worker}')}"

    @property
    def activity_table(self) -> Table:
        """Table B.1."""
        rows = []
        for group in self.activity:
            sheets = f"{group.least} to {group.most}" if group.most else f"{group.least} and more"
            if group.least == group.most:
                sheets = str(group.least)
            counts = (group.workers, group.submitted, group.approved)
            rows.append([sheets, *map("{:,}".format, counts), show(group.ratio, "{:.1%}")])
        header = [("Sheets of a worker",), ("Workers",), ("Submitted",), ("Accepted",), ("Ratio",)]
        return Table(header, rows, "Workers by sheets", "Table B.1 of ECCV Caption")

    def worker_table(self, most: int | None = None) -> Table:
        """Sums of every worker, and the agreement with the settled labels."""
        labels = {pair.first: pair for pair in self.with_label}
        hasty = ["hasty"] if self.least_seconds else []
        header = ["Worker", "sheets", "accepted", "rejected", "known right", "missed yes", "missed no", "one answer"]
        header += hasty
        header += ["median time", "shared pairs", "as labelled", "kappa", "reliable"]
        rows = []
        for worker in self.workers[:most]:
            counts = [worker.submitted, worker.accepted, worker.rejected]
            missed = [worker.missed_positives, worker.missed_negatives, worker.straight]
            missed += [worker.hasty] if hasty else []
            label = labels.get(worker.worker)
            agreed = [MISSING] * 3 if label is None else [f"{label.pairs:,}", f"{label.share:.1%}", show(label.kappa)]
            reliable = show(self.reliability.get(worker.worker), "{:.1%}")
            time = show_seconds(worker.median_seconds)
            numbers = [*map("{:,}".format, counts), self.known[worker.worker], *map("{:,}".format, missed)]
            rows.append([worker.worker, *numbers, time, *agreed, reliable])
        notes = [
            "Known right: known pairs answered rightly, of how many, with the 95% interval of the share; who is not "
            "above the toss of a coin with all of it is checked by hand. Missed yes, missed no: sheets whose known "
            "positive, or known negative, was answered wrongly. Shared pairs: also judged by others; as labelled: "
            "share of them that the worker says what is settled of all answers "
            f"({self.rule.replace('_', ' ')}), which the worker's own is among; kappa: Cohen's of the two; reliable: "
            "the chance that an answer is right, by Dawid and Skene's model, which believes what most say."
        ]
        return Table([(text,) for text in header], rows, "Workers", notes=[*_more(self.workers, most), *notes])

    def doubt_table(self, most: int | None = None) -> Table:
        """Sheets that somebody has to look at."""
        doubted = [sheet for sheet in self.sheets if sheet.verdict == BY_HAND]
        rows = [
            [f"{sheet.sheet}:{sheet.worker}", "; ".join(sheet.doubts), show_seconds(sheet.seconds)]
            for sheet in doubted[:most]
        ]
        header = [("Sheet and worker",), ("Why",), ("Time",)]
        notes = _more(doubted, most)
        return Table(header, rows, "To be checked by hand", prose=frozenset([1]), notes=notes)

    @property
    def agreement_table(self) -> Table:
        """All coefficients."""
        header = [("Agreement",), *((agreement.about,) for agreement in self.agreement)]
        rows = [["pairs judged by two or more", *(f"{agreement.pairs:,}" for agreement in self.agreement)]]
        for name, title in STATISTICS.items():
            form = "{:.1%}" if name == "share" else "{:.3f}"
            rows.append([title, *(show(agreement.values.get(name), form) for agreement in self.agreement)])
        notes = [
            f"{agreement.about}, {list_names(STATISTICS[name] for name in names)}: {reason}."
            for agreement in self.agreement
            for reason, names in group_by_reason(agreement.not_computed).items()
        ]
        return Table(header, rows, "How far people agree", "candidates of accepted sheets", notes=notes)

    def pair_table(self, most: int | None = None) -> Table:
        """Workers two by two."""
        rows = [
            [f"{pair.first}, {pair.second}", f"{pair.pairs:,}", f"{pair.share:.1%}", show(pair.kappa)]
            for pair in self.by_pair[:most]
        ]
        header = [("Workers",), ("Shared pairs",), ("Agree",), ("Cohen's kappa",)]
        notes = ["On what is positive. No kappa has a value where all answers of both are the same."]
        return Table(header, rows, "Workers two by two", notes=[*_more(self.by_pair, most), *notes])

    @property
    def rank_table(self) -> Table:
        """Table B.2."""
        rows: list[Sequence[str]] = []
        for model in dict.fromkeys(line.model for line in self.by_rank if line.model not in OTHERS):
            rows.append([model])
            rows += [[_name_rank(line.rank), *_shares(line.counts)] for line in self.by_rank if line.model == model]
        rows.append(["Beside models"])
        rows += [[OTHERS[line.model], *_shares(line.counts)] for line in self.by_rank if line.model in OTHERS]
        header = [("Rank",), *((name,) for name in self.classes), ("Answers",)]
        notes = [
            "Percent of the answers to pairs that a model proposed, by their rank in its lists of both directions; an "
            "answer counts for every list that has its pair. Pairs known to match before were not asked about."
        ]
        return Table(header, rows, "Answers by model and rank", "Table B.2 of ECCV Caption", notes=notes)

    @property
    def detail_tables(self) -> list[Table]:
        """Tables B.3: what falls short, by model."""
        tables = []
        for title, (choices, lines) in self.details.items():
            rows = [[OTHERS.get(line.model, line.model), *_shares(line.counts)] for line in lines]
            header = [("",), *((choice.replace("_", " "),) for choice in choices), ("Ticks",)]
            tables.append(Table(header, rows, title.rstrip("?"), "percent of the ticks, Table B.3 of ECCV Caption"))
        return tables

    def caption_table(self, most: int | None = None) -> Table:
        """What may be invalid captions, appendix C.1 of ECCV Caption."""
        rows = [
            [str(own.caption_id), own.caption, f"{own.turned_down} of {own.answers}", show(own.rating, "{:.2f}")]
            for own in self.doubted[:most]
        ]
        header = [("Caption",), ("",), ("Turned down",), ("CxC",)]
        notes = [*_more(self.doubted, most), "Look at them: some describe nothing, or another image."]
        title = "Captions that may not describe their own image"
        return Table(header, rows, title, "appendix C.1 of ECCV Caption", prose=frozenset([1]), notes=notes)

    @property
    def change_tables(self) -> list[Table]:
        """What the labels do to models, or why that is not known."""
        if isinstance(self.changes, str):
            return [Table([], [], "What changed for models", notes=[self.changes])]
        return change_tables(self.changes)


def _more(rows: Sequence[object], most: int | None) -> list[str]:
    return [] if most is None or len(rows) <= most else [f"{len(rows) - most:,} more with --output."]


def show_seconds(seconds: float | None) -> str:
    """A time as people say it, ``5 min 12 s``, or that it is not known."""
    if seconds is None:
        return MISSING
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def show(value: float | None, form: str = "{:.3f}") -> str:
    """A number, or that there is none."""
    return MISSING if value is None else form.format(value)


def _name_rank(rank: int | None) -> str:
    return "all" if rank is None else str(rank) if rank else f"below {RANKS}"


def _shares(counts: Sequence[int]) -> list[str]:
    total = sum(counts)
    return [*(f"{100 * count / total:.1f}" if total else MISSING for count in counts), f"{total:,}"]
