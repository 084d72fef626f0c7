"""The report on an annotation, and the tables that people read of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from cxc_eccv.comparison.labels import list_names
from cxc_eccv.studies.annotation.labelling.changes import LabelChanges, change_tables
from cxc_eccv.studies.asking.quality.agreement import STATISTICS, Agreement, Together
from cxc_eccv.studies.asking.quality.sheets import ACCEPTED, BY_HAND, REJECTED, Activity, SheetQuality, WorkerQuality
from cxc_eccv.studies.asking.questions import NEGATIVE, POSITIVE
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.tables import MISSING, Table
from cxc_eccv.types.reported import group_by_reason

__all__ = ["DRAWN", "OTHERS", "RANKS", "AnnotationReport", "Answered", "Told", "show_seconds"]

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
    """Answers to the pairs that a model proposed.

    Attributes:
        model: its name, or one of :data:`OTHERS`.
        rank: in the model's list; 0 for what stands below Table B.2's, None for all ranks.
        counts: of each answer, or of each choice of details.
    """

    model: str
    rank: int | None
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, to be looked at.

    Attributes:
        sheet, worker: where it stands.
        image_id, caption_id, caption: what it is about.
        role: of :mod:`cxc_eccv.studies.asking.questions`.
        answer: in words.
        positive: whether it makes the pair positive.
        seconds: it took, where that is known.
        remark: what the worker wrote.
    """

    sheet: int
    worker: str
    image_id: int
    caption_id: int
    caption: str
    role: str
    answer: str
    positive: bool
    seconds: float | None
    remark: str


@dataclass(frozen=True, slots=True)
class AnnotationReport:
    """What people answered, sheet by sheet and in tables.

    Attributes:
        name: of the labels that the answers become.
        scheme: how people were asked.
        folder: of the project, as commands name it; empty outside of one.
        candidates: pairs that are asked about.
        sheets_asked: sheets that they are on.
        golds: role of the known pairs to the number of answered sheets that have one.
        least_seconds: of a sheet that is not too hasty; 0 for no limit.
        rule: by which the answers are settled.
        sheets, workers, activity: verdicts, and their sums.
        classes: names of the answers in ``by_rank``.
        agreement: about the answers, and about what is positive.
        by_pair, with_label: of workers with each other, and with the settled labels.
        reliability: worker to the chance that an answer is right, by Dawid and Skene's model; nobody where one worker
            alone answered, whom the model believes, or where it does not settle.
        by_rank: Table B.2.
        details: title of a group of details to its choices, and to their counts: Table B.3.
        to_check: answers of the sheets that somebody has to look at.
        remarks: answers with a remark.
        changes: what new labels do to models, or the reason why that is not known.
        cautions: what else to know before believing the numbers.
        provenance: of data, models and versions.
    """

    name: str
    scheme: Scheme
    folder: str
    candidates: int
    sheets_asked: int
    golds: Mapping[str, int]
    least_seconds: float
    rule: str
    sheets: tuple[SheetQuality, ...]
    workers: tuple[WorkerQuality, ...]
    activity: tuple[Activity, ...]
    classes: tuple[str, ...]
    agreement: tuple[Agreement, ...]
    by_pair: tuple[Together, ...]
    with_label: tuple[Together, ...]
    reliability: Mapping[str, float]
    by_rank: tuple[Answered, ...]
    details: Mapping[str, tuple[tuple[str, ...], tuple[Answered, ...]]]
    to_check: tuple[Told, ...]
    remarks: tuple[Told, ...]
    changes: LabelChanges | str
    cautions: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for a file of JSON."""
        content = asdict(self) | {"scheme": self.scheme.name, "positive_from": self.scheme.positive}
        if isinstance(self.changes, str):
            content |= {"changes": None, "no_changes": self.changes}
        del content["folder"]
        return {"schema": SCHEMA, **content}

    def tables(self, most: int | None = LONGEST) -> list[Table]:
        """What the command line prints; of long tables the first rows, or all with None."""
        return [
            self.sheet_table,
            *([self.activity_table, self.worker_table(most)] if self.sheets else []),
            *([self.doubt_table(most)] if self.to_check else []),
            *([self.agreement_table] if self.sheets else []),
            *([self.pair_table(most)] if self.by_pair else []),
            *([self.rank_table, *self.detail_tables] if self.by_rank else []),
            *self.change_tables,
        ]

    @property
    def sheet_table(self) -> Table:
        """How many sheets came back, what speaks against them, and how long they took."""
        title = f"Answers to {self.name}"
        asked = f"{self.candidates:,} candidates on {self.sheets_asked:,} sheets, scheme {self.scheme.name}"
        if not self.sheets:
            return Table([], [], title, asked, notes=["No answers yet: cxc-eccv annotate import reads them."])
        header = [("",), ("Sheets",), ("Of them",)]
        rows = [*self._count_sheets(), *self._time_sheets()]
        return Table(header, rows, title, asked, notes=list(self._explain_sheets()), cautions=self.cautions)

    def _count_sheets(self) -> Iterator[list[str]]:
        """By verdict, and by what speaks against them."""
        n_sheets, verdicts = len(self.sheets), [own.verdict for own in self.sheets]
        positive, negative = (self.golds[role] for role in (POSITIVE, NEGATIVE))

        def count(number: int, among: int = n_sheets) -> list[str]:
            return [f"{number:,}", f"{number / among:.1%}" if among else MISSING]

        yield ["answered sheets", f"{n_sheets:,}", ""]
        for verdict in (ACCEPTED, REJECTED, BY_HAND):
            yield [verdict, *count(verdicts.count(verdict))]
        yield ["decided by hand", *count(sum(own.checked for own in self.sheets))]
        yield ["What speaks against them"]
        yield ["known positive answered as none", *count(sum(own.missed_positive for own in self.sheets), positive)]
        yield ["known negative answered as positive", *count(sum(own.missed_negative for own in self.sheets), negative)]
        both = sum(own.missed_positive and own.missed_negative for own in self.sheets)
        yield ["both", *count(both, min(positive, negative))]
        yield ["the same answer to all candidates", *count(sum(own.straight for own in self.sheets))]
        if self.least_seconds:
            yield [f"less than {self.least_seconds:g} seconds", *count(sum(own.hasty for own in self.sheets))]

    @property
    def _seconds(self) -> list[float]:
        """Of the sheets whose time is known."""
        return [own.seconds for own in self.sheets if own.seconds is not None]

    def _time_sheets(self) -> Iterator[list[str]]:
        seconds = self._seconds
        if seconds:
            yield ["Time of a sheet"]
            middle = {"median": float(np.median(seconds)), "mean": float(np.mean(seconds))}
            for name, time in (middle | {"shortest": min(seconds), "longest": max(seconds)}).items():
                yield [name, show_seconds(time), ""]

    def _explain_sheets(self) -> Iterator[str]:
        n_sheets, n_timed = len(self.sheets), len(self._seconds)
        yield (
            "A sheet with both known pairs wrong is rejected, one with anything else against it checked by hand; its "
            f"answers count once it is accepted: {self.command} --accept SHEET:WORKER, or --reject."
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
        for own in self.activity:
            sheets = f"{own.least} to {own.most}" if own.most else f"{own.least} and more"
            ratio = MISSING if own.ratio is None else f"{own.ratio:.1%}"
            counts = (own.workers, own.submitted, own.approved)
            rows.append([str(own.least) if own.least == own.most else sheets, *map("{:,}".format, counts), ratio])
        header = [("Sheets of a worker",), ("Workers",), ("Submitted",), ("Accepted",), ("Ratio",)]
        return Table(header, rows, "Workers by sheets", "Table B.1 of ECCV Caption")

    def worker_table(self, most: int | None = None) -> Table:
        """Sums of every worker, and the agreement with the settled labels."""
        labels = {own.first: own for own in self.with_label}
        header = ["Worker", "sheets", "accepted", "rejected", "missed yes", "missed no", "one answer"]
        header += ["hasty"] if self.least_seconds else []
        header += ["median time", "shared pairs", "as labelled", "kappa", "reliable"]
        rows = [self._describe_worker(own, labels.get(own.worker)) for own in self.workers[:most]]
        notes = [
            "missed yes, missed no: sheets whose known positive, or known negative, was answered wrongly. Shared "
            f"pairs: also judged by others; as labelled: share of them that the worker says what is settled of all "
            f"answers ({self.rule.replace('_', ' ')}), which the worker's own is among; kappa: Cohen's of the two; "
            "reliable: the chance that an answer is right, by Dawid and Skene's model, which believes what most say."
        ]
        return Table([(text,) for text in header], rows, "Workers", notes=[*self._more(self.workers, most), *notes])

    def _describe_worker(self, own: WorkerQuality, label: Together | None) -> list[str]:
        missed = (own.missed_positives, own.missed_negatives)
        counts = [own.submitted, own.accepted, own.rejected, *missed, own.straight]
        counts += [own.hasty] if self.least_seconds else []
        with_label = [MISSING] * 3 if label is None else [f"{label.pairs:,}", f"{label.share:.1%}", show(label.kappa)]
        reliable = show(self.reliability.get(own.worker), "{:.1%}")
        return [own.worker, *map("{:,}".format, counts), show_seconds(own.median_seconds), *with_label, reliable]

    def doubt_table(self, most: int | None = None) -> Table:
        """Sheets that somebody has to look at."""
        doubted = [own for own in self.sheets if own.verdict == BY_HAND]
        rows = [
            [f"{own.sheet}:{own.worker}", "; ".join(own.doubts), show_seconds(own.seconds)] for own in doubted[:most]
        ]
        header = [("Sheet and worker",), ("Why",), ("Time",)]
        notes = self._more(doubted, most)
        return Table(header, rows, "To be checked by hand", prose=frozenset([1]), notes=notes)

    @property
    def agreement_table(self) -> Table:
        """All coefficients."""
        header = [("Agreement",), *((own.about,) for own in self.agreement)]
        rows = [
            ["pairs judged by two or more", *(f"{own.pairs:,}" for own in self.agreement)],
            *(
                [
                    title,
                    *(show(own.values.get(name), "{:.1%}" if name == "share" else "{:.3f}") for own in self.agreement),
                ]
                for name, title in STATISTICS.items()
            ),
        ]
        notes = [
            f"{own.about}, {list_names(STATISTICS[name] for name in names)}: {reason}."
            for own in self.agreement
            for reason, names in group_by_reason(own.not_computed).items()
        ]
        return Table(header, rows, "How far people agree", "candidates of accepted sheets", notes=notes)

    def pair_table(self, most: int | None = None) -> Table:
        """Workers two by two."""
        rows = [
            [f"{own.first}, {own.second}", f"{own.pairs:,}", f"{own.share:.1%}", show(own.kappa)]
            for own in self.by_pair[:most]
        ]
        header = [("Workers",), ("Shared pairs",), ("Agree",), ("Cohen's kappa",)]
        notes = ["On what is positive. No kappa has a value where all answers of both are the same."]
        return Table(header, rows, "Workers two by two", notes=[*self._more(self.by_pair, most), *notes])

    @property
    def rank_table(self) -> Table:
        """Table B.2."""
        rows: list[Sequence[str]] = []
        for model in dict.fromkeys(own.model for own in self.by_rank if own.model not in OTHERS):
            rows.append([model])
            rows += [[_name_rank(own.rank), *_shares(own.counts)] for own in self.by_rank if own.model == model]
        rows.append(["Beside models"])
        rows += [[OTHERS[own.model], *_shares(own.counts)] for own in self.by_rank if own.model in OTHERS]
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
        for title, (choices, counted) in self.details.items():
            rows = [[OTHERS.get(own.model, own.model), *_shares(own.counts)] for own in counted]
            header = [("",), *((choice.replace("_", " "),) for choice in choices), ("Ticks",)]
            tables.append(Table(header, rows, title.rstrip("?"), "percent of the ticks, Table B.3 of ECCV Caption"))
        return tables

    @property
    def change_tables(self) -> list[Table]:
        """What the labels do to models, or why that is not known."""
        if isinstance(self.changes, str):
            return [Table([], [], "What changed for models", notes=[self.changes])]
        return change_tables(self.changes)

    @staticmethod
    def _more(rows: Sequence[object], most: int | None) -> list[str]:
        return [] if most is None or len(rows) <= most else [f"{len(rows) - most:,} more with --output."]


def show_seconds(seconds: float | None) -> str:
    """A time as people say it, or that it is not known.

    Example:
        >>> show_seconds(7.25), show_seconds(312), show_seconds(7_320)
        ('7.2 s', '5 min 12 s', '2 h 2 min')
    """
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
    return [*(f"{100 * one / total:.1f}" if total else MISSING for one in counts), f"{total:,}"]
