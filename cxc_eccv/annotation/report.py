"""The report on an annotation: what came back, how good it is, how far people agree, and what it changed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.annotation.asking.questions import CANDIDATE, NEGATIVE, POSITIVE
from cxc_eccv.annotation.asking.schemes import Scheme
from cxc_eccv.annotation.labelling.changes import LabelChanges, change_tables
from cxc_eccv.annotation.labelling.settling import settle, weigh_workers
from cxc_eccv.annotation.project import LABELS, Project
from cxc_eccv.annotation.quality.agreement import (
    STATISTICS,
    Agreement,
    Together,
    classify,
    compare_with_labels,
    compare_workers,
    measure_agreement,
)
from cxc_eccv.annotation.quality.sheets import (
    ACCEPTED,
    BY_HAND,
    REJECTED,
    Activity,
    Checks,
    SheetQuality,
    WorkerQuality,
    accept,
    group_workers,
    judge_sheets,
    judge_workers,
    keep_sheets,
    read_checks,
)
from cxc_eccv.comparison.labels import list_names
from cxc_eccv.errors import DataError
from cxc_eccv.evaluation.report import provenance_of
from cxc_eccv.sources.readers import LABELS_SCHEMA, read_labels
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.types import IntArray
from cxc_eccv.types.reported import group_by_reason

__all__ = ["OTHERS", "AnnotationReport", "Told", "report_annotation", "report_project", "show_seconds"]

SCHEMA = 1

RANKS = 5
"""Of Table B.2; what stands lower in a list is one row."""

LONGEST = 20
"""Rows of a table on the console; all are in the file."""

DRAWN = "\N{EMPTY SET}"
"""Stands for a model where a pair was drawn, and no model proposed it."""

NO_MODEL = "No model was named: cxc-eccv annotate report FOLDER MODELS... shows what the labels change for them."
NOT_MERGED = "No labels are merged yet: cxc-eccv annotate merge makes them of the answers."

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
        role: of :mod:`cxc_eccv.annotation.asking.questions`.
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
            alone answered, whom the model believes.
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
        n_sheets, verdicts = len(self.sheets), [own.verdict for own in self.sheets]
        seconds = [own.seconds for own in self.sheets if own.seconds is not None]

        def count(number: int, among: int = n_sheets) -> list[str]:
            return [f"{number:,}", f"{number / among:.1%}" if among else MISSING]

        positive, negative = (self.golds[role] for role in (POSITIVE, NEGATIVE))
        both = sum(own.missed_positive and own.missed_negative for own in self.sheets)
        rows: list[Sequence[str | Cell]] = [
            ["answered sheets", f"{n_sheets:,}", ""],
            *([verdict, *count(verdicts.count(verdict))] for verdict in (ACCEPTED, REJECTED, BY_HAND)),
            ["decided by hand", *count(sum(own.checked for own in self.sheets))],
            ["What speaks against them"],
            ["known positive answered as none", *count(sum(own.missed_positive for own in self.sheets), positive)],
            ["known negative answered as positive", *count(sum(own.missed_negative for own in self.sheets), negative)],
            ["both", *count(both, min(positive, negative))],
            ["the same answer to all candidates", *count(sum(own.straight for own in self.sheets))],
        ]
        if self.least_seconds:
            hasty = sum(own.hasty for own in self.sheets)
            rows.append([f"less than {self.least_seconds:g} seconds", *count(hasty)])
        if seconds:
            middle = {"median": float(np.median(seconds)), "mean": float(np.mean(seconds))}
            times = {**middle, "shortest": min(seconds), "longest": max(seconds)}
            rows.append(["Time of a sheet"])
            rows += [[name, show_seconds(time), ""] for name, time in times.items()]
        notes = [
            "A sheet with both known pairs wrong is rejected, one with anything else against it checked by hand; its "
            f"answers count once it is accepted: {self.command} --accept SHEET:WORKER, or --reject."
        ]
        if min(positive, negative) < n_sheets:
            notes.append("Sheets without a known pair of a kind cannot fail it: their verdicts rest on the rest alone.")
        if len(seconds) < n_sheets:
            notes.append(f"The time is not known of {n_sheets - len(seconds):,} sheets: their format tells none.")
        if seconds and not self.least_seconds:
            notes.append(f"No sheet is too hasty, as no least time is set: {self.command} --least-seconds.")
        header = [("",), ("Sheets",), ("Of them",)]
        return Table(header, rows, title, asked, notes=notes, cautions=self.cautions)

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
        labels, rows = {own.first: own for own in self.with_label}, []
        for own in self.workers[:most]:
            counts = (
                own.submitted,
                own.accepted,
                own.rejected,
                own.missed_positives,
                own.missed_negatives,
                own.straight,
            )
            told = [f"{number:,}" for number in (*counts, *([own.hasty] if self.least_seconds else []))]
            label = labels.get(own.worker)
            with_label = (
                [MISSING] * 3 if label is None else [f"{label.pairs:,}", f"{label.share:.1%}", show(label.kappa)]
            )
            reliable = self.reliability.get(own.worker)
            rows.append(
                [
                    *(own.worker, *told, show_seconds(own.median_seconds), *with_label),
                    MISSING if reliable is None else f"{reliable:.1%}",
                ]
            )
        header = ["Worker", "sheets", "accepted", "rejected", "missed yes", "missed no", "one answer"]
        header += ["hasty"] * bool(self.least_seconds) + [
            "median time",
            "shared pairs",
            "as labelled",
            "kappa",
            "reliable",
        ]
        notes = [
            "missed yes, missed no: sheets whose known positive, or known negative, was answered wrongly. Shared "
            f"pairs: also judged by others; as labelled: share of them that the worker says what is settled of all "
            f"answers ({self.rule.replace('_', ' ')}), which the worker's own is among; kappa: Cohen's of the two; "
            "reliable: the chance that an answer is right, by Dawid and Skene's model, which believes what most say."
        ]
        return Table([(text,) for text in header], rows, "Workers", notes=[*self._more(self.workers, most), *notes])

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


def report_project(
    project: Project, changes: LabelChanges | None = None, command: str | None = None
) -> AnnotationReport:
    """The report on an annotation project as it is now.

    Args:
        project: with or without answers.
        changes: what its labels do to models; None where no model was given.
        command: recorded as it is.
    """
    content, path = project.library.karpathy(project.split), project.folder / LABELS
    labels = read_labels(path) if path.is_file() else None
    answers, checks = project.answers(), read_checks(project.folder)
    rule = "majority" if labels is None else labels.facts["rule"]
    cautions = []
    if labels is not None:
        counted = accept(answers, judge_sheets(answers, checks))
        try:
            settled = settle(counted, project.scheme, rule, least_answers=labels.facts.get("least_answers", 1))
        except DataError:  # nothing that was accepted is left to be settled
            settled = LABELS_SCHEMA.empty_table()
        if not settled.equals(labels.table):
            cautions.append(
                "The merged labels are not what the answers say by now: answers came, or sheets were decided, since. "
                "cxc-eccv annotate merge makes them anew."
            )
    why = NOT_MERGED if labels is None else NO_MODEL
    facts = provenance_of(project.library, split=project.split, **({"command": command} if command else {}))
    return report_annotation(
        answers,
        project.candidates(),
        project.scheme,
        name=project.name,
        sheets_asked=len(project.questions()),
        captions=dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True)),
        changes=why if changes is None else changes,
        checks=checks,
        rule=rule,
        folder=str(project.folder),
        cautions=cautions,
        provenance=facts,
    )


def report_annotation(
    answers: pa.Table,
    candidates: pa.Table,
    scheme: Scheme,
    *,
    name: str,
    sheets_asked: int,
    captions: Mapping[int, str],
    changes: LabelChanges | str,
    checks: Checks | None = None,
    rule: str = "majority",
    folder: str = "",
    cautions: Sequence[str] = (),
    provenance: Mapping[str, Any] | None = None,
) -> AnnotationReport:
    """Judge sheets and workers, and count what accepted sheets say.

    Args:
        answers: of :func:`cxc_eccv.annotation.answers.read_answers`; no row before people answered.
        candidates: of :data:`cxc_eccv.annotation.proposing.candidates.CANDIDATES`: all that is asked about.
        scheme: how people were asked.
        name: of the labels that the answers become.
        sheets_asked: how many there are.
        captions: caption id to its text.
        changes: what the labels do to models, or the reason why that is not known.
        checks: the least time of a sheet, and what was decided by hand.
        rule: by which the answers are settled.
        folder: of the project, for commands to copy.
        cautions: what else to know.
        provenance: recorded as it is.

    References:
        Chun et al., ECCV Caption, ECCV 2022, appendices B.2 and B.3, Tables B.1 to B.3.
    """
    checks = checks or Checks()
    judged = judge_sheets(answers, checks)
    accepted = _keep_last(accept(answers, judged).filter(pc.field("role") == CANDIDATE))
    classes, codes = classify(accepted, scheme)
    labels = settle(accepted, scheme, rule) if accepted.num_rows else None
    rows, listed = _find_lists(accepted, candidates)
    return AnnotationReport(
        name=name,
        scheme=scheme,
        folder=folder,
        candidates=candidates.num_rows,
        sheets_asked=sheets_asked,
        golds={role: _count_sheets(answers.filter(pc.field("role") == role)) for role in (POSITIVE, NEGATIVE)},
        least_seconds=checks.least_seconds,
        rule=rule,
        sheets=tuple(judged),
        workers=tuple(judge_workers(judged)),
        activity=tuple(group_workers(judged)) if judged else (),
        classes=classes,
        agreement=measure_agreement(accepted, scheme),
        by_pair=tuple(compare_workers(accepted)),
        with_label=() if labels is None else tuple(compare_with_labels(accepted, labels)),
        reliability=weigh_workers(accepted, scheme) if len(pc.unique(accepted["worker"])) > 1 else {},
        by_rank=tuple(_count_by_rank(codes, rows, listed, len(classes))),
        details={
            own.label: (tuple(own.choices), tuple(_count_ticks(accepted, rows, listed, own.name, own.choices)))
            for own in scheme.details
        },
        to_check=tuple(_tell(keep_sheets(answers, judged, BY_HAND), captions)),
        remarks=tuple(_tell(answers.filter(pc.field("remark") != ""), captions)),
        changes=changes,
        cautions=tuple(cautions),
        provenance=provenance or {},
    )


def _keep_last(answers: pa.Table) -> pa.Table:
    """Of several answers of a worker about a pair the last, as for the labels."""
    keys = zip(*(answers[name].to_pylist() for name in ("image_id", "caption_id", "worker")), strict=True)
    return answers.take(pa.array(sorted({key: row for row, key in enumerate(keys)}.values()), pa.int64()))


def _count_sheets(answers: pa.Table) -> int:
    return len(set(zip(answers["sheet"].to_pylist(), answers["worker"].to_pylist(), strict=True)))


def _find_lists(answers: pa.Table, candidates: pa.Table) -> tuple[IntArray, list[tuple[str, int]]]:
    """An answer and a list that holds its pair, as often as there are such lists: its row, model and rank."""
    lists = {
        (row["image_id"], row["caption_id"]): [(one["model"], one["rank"]) for one in row["proposals"]]
        for row in candidates.select(["image_id", "caption_id", "proposals"]).to_pylist()
    }
    pairs = zip(answers["image_id"].to_pylist(), answers["caption_id"].to_pylist(), strict=True)
    found = [(row, listed) for row, pair in enumerate(pairs) for listed in lists.get(pair, ()) or [(DRAWN, 0)]]
    return np.array([row for row, _ in found], dtype=np.int64), [listed for _, listed in found]


def _count_by_rank(
    codes: IntArray, rows: IntArray, listed: Sequence[tuple[str, int]], n_classes: int
) -> Iterable[Answered]:
    """Table B.2: of every model the answers by rank, then all of them; and each answer once."""

    def count(own: Sequence[int]) -> tuple[int, ...]:
        return tuple(np.bincount(codes[rows[list(own)]], minlength=n_classes).tolist())

    places: dict[str, dict[int, list[int]]] = {}
    for place, (model, rank) in enumerate(listed):
        places.setdefault(model, {}).setdefault(rank if rank <= RANKS else 0, []).append(place)
    for model in sorted(places, key=lambda model: (model == DRAWN, model)):
        ranks = places[model]
        if model != DRAWN:
            yield from (
                Answered(model, rank, count(ranks[rank])) for rank in sorted(ranks, key=lambda rank: rank or 999)
            )
        yield Answered(model, None, count([place for own in ranks.values() for place in own]))
    if places:
        yield Answered("", None, tuple(np.bincount(codes, minlength=n_classes).tolist()))


def _count_ticks(
    answers: pa.Table, rows: IntArray, listed: Sequence[tuple[str, int]], group: str, choices: Iterable[str]
) -> Iterable[Answered]:
    """Table B.3: how often each choice was ticked, by model; and of each answer once."""
    names = list(choices)
    ticks = np.zeros((answers.num_rows, len(names)), dtype=np.int64)
    for row, details in enumerate(answers["details"].to_pylist()):
        ticks[row, [names.index(tick) for tick in json.loads(details).get(group, ())]] = 1
    models = np.array([model for model, _ in listed])
    for model in sorted(set(models.tolist()), key=lambda model: (model == DRAWN, model)):
        yield Answered(model, None, tuple(ticks[rows[models == model]].sum(axis=0).tolist()))
    if len(listed):
        yield Answered("", None, tuple(ticks.sum(axis=0).tolist()))


def _tell(answers: pa.Table, captions: Mapping[int, str]) -> Iterable[Told]:
    for row in answers.to_pylist():
        answer = json.loads(row["answer"])
        if isinstance(answer, dict):
            answer = " and ".join(name for name, holds in answer.items() if holds) or "none"
        told = str(answer).replace("_", " ")
        ticks = [tick.replace("_", " ") for own in json.loads(row["details"]).values() for tick in own]
        yield Told(
            row["sheet"],
            row["worker"],
            row["image_id"],
            row["caption_id"],
            " ".join(captions[row["caption_id"]].split()),
            row["role"],
            f"{told}: {', '.join(ticks)}" if ticks else told,
            row["positive"],
            row["seconds"],
            row["remark"],
        )
