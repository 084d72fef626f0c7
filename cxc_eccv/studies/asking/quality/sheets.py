"""Quality of answers: known pairs answered wrongly, haste, one answer throughout; by sheet and by worker."""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import integer, read_json, require_keys, shown, text
from cxc_eccv.studies.asking.questions import CANDIDATE, NEGATIVE, POSITIVE
from cxc_eccv.writing import write_json

__all__ = [
    "ACCEPTED",
    "BY_HAND",
    "CHECKS",
    "REJECTED",
    "Activity",
    "Checks",
    "SheetQuality",
    "WorkerQuality",
    "accept",
    "group_workers",
    "judge_sheets",
    "judge_workers",
    "keep_sheets",
    "read_checks",
    "write_checks",
]

ACCEPTED, BY_HAND, REJECTED = "accepted", "to be checked by hand", "rejected"

CHECKS = "checks.json"
"""File of a project with what people decided about sheets."""

GROUPS = (1, 5, 10, 15, 25)
"""Sheets of a worker up to which the groups of Table B.1 reach; the last has no end."""

FEWEST_STRAIGHT = 3
"""Candidates from which on the same answer for all of a sheet tells something."""

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Checks:
    """What decides about sheets beside their answers."""

    least_seconds: float = 0.0  # time below which a sheet is too hasty; 0 for no limit
    # Sheet and worker to whether somebody who looked found the answers good.
    by_hand: Mapping[tuple[int, str], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 <= self.least_seconds < np.inf:
            raise InvalidOption(f"least_seconds={self.least_seconds}: give seconds of at least 0")


@dataclass(frozen=True, slots=True)
class SheetQuality:
    """One worker's answers to one sheet."""

    sheet: int
    worker: str
    seconds: float | None  # the answers took together; None where that is not known of all of them
    missed_positive: bool  # a known positive was answered as none
    missed_negative: bool  # a known negative was answered as a positive
    straight: bool  # all candidates got the same answer, and there are three or more
    verdict: str  # ACCEPTED, BY_HAND or REJECTED
    hasty: bool = False  # less than the least time; never where it is not known
    checked: bool = False  # somebody decided it by hand

    @property
    def doubts(self) -> list[str]:
        """What speaks against it, in words."""
        doubts = {
            "the known positive was answered as none": self.missed_positive,
            "the known negative was answered as a positive": self.missed_negative,
            "the same answer to all candidates": self.straight,
            "less than the least time": self.hasty,
        }
        return [doubt for doubt, holds in doubts.items() if holds]


def judge_sheets(answers: pa.Table, checks: Checks | None = None) -> list[SheetQuality]:
    """A verdict on every worker's sheet, in the order of sheets and workers.

    Both known pairs answered wrongly: rejected. One of them, or the same answer for all candidates, or less time than
    the least: to be checked by hand, as the paper did with every failed sheet; the outcome is in ``checks``.

    Raises:
        InvalidOption: a decision about a sheet that is not among the answers, or that finds one good whose known pairs
            were both answered wrongly.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.2 and appendix B.2.
    """
    checks = checks or Checks()
    sheets: defaultdict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in answers.to_pylist():
        sheets[row["sheet"], row["worker"]].append(row)
    judged = {key: _judge(*key, rows, checks.least_seconds) for key, rows in sorted(sheets.items())}
    for (sheet, worker), good in checks.by_hand.items():
        quality = judged.get((sheet, worker))
        if quality is None:
            raise InvalidOption(
                f"sheet {sheet} of {shown(worker)} is not among the answers: nobody can decide about it. Name one that "
                f"is, here and in {CHECKS}"
            )
        if good and quality.missed_positive and quality.missed_negative:
            raise InvalidOption(
                f"sheet {sheet} of {shown(worker)} is rejected: both its known pairs were answered wrongly, and only "
                f"sheets that are to be checked by hand are accepted by hand, here and in {CHECKS}"
            )
        judged[sheet, worker] = replace(quality, verdict=ACCEPTED if good else REJECTED, checked=True)
    return list(judged.values())


def _judge(sheet: int, worker: str, rows: Sequence[Mapping[str, Any]], least_seconds: float) -> SheetQuality:
    missed = {
        role: any(row["role"] == role and row["positive"] is not wanted for row in rows)
        for role, wanted in ((POSITIVE, True), (NEGATIVE, False))
    }
    answers = [_answer_value(row["answer"]) for row in rows if row["role"] == CANDIDATE]
    straight = len(set(answers)) == 1 and len(answers) >= FEWEST_STRAIGHT
    times = [row["seconds"] for row in rows]
    seconds = None if None in times else float(sum(times))
    hasty = seconds is not None and seconds < least_seconds
    doubts = straight or hasty or any(missed.values())
    verdict = REJECTED if all(missed.values()) else BY_HAND if doubts else ACCEPTED
    return SheetQuality(sheet, worker, seconds, missed[POSITIVE], missed[NEGATIVE], straight, verdict, hasty)


def _answer_value(answer: str) -> object:
    """What a column ``answer`` says, as something that can be counted: 3 and 3.0 are one answer."""
    value = json.loads(answer)
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def accept(answers: pa.Table, judged: Iterable[SheetQuality]) -> pa.Table:
    """The answers of accepted sheets."""
    return keep_sheets(answers, judged, ACCEPTED)


def keep_sheets(answers: pa.Table, judged: Iterable[SheetQuality], verdict: str) -> pa.Table:
    """The answers of the sheets with a verdict."""
    kept = {(sheet.sheet, sheet.worker) for sheet in judged if sheet.verdict == verdict}
    keys = zip(answers["sheet"].to_pylist(), answers["worker"].to_pylist(), strict=True)
    return answers.filter(pa.array([key in kept for key in keys], pa.bool_()))


def read_checks(folder: Path) -> Checks:
    """What was decided about the sheets of a project; nothing where no file says it.

    People may edit the file: it has no checksum, and every field of it is checked.
    """
    path = folder / CHECKS
    if not path.is_file():
        return Checks()
    content = require_keys(path, "", read_json(path), ("schema", "least_seconds", "by_hand"))
    least, rows = content["least_seconds"], content["by_hand"]
    if type(content["schema"]) is not int or content["schema"] != SCHEMA:
        raise MalformedSource(path, "schema", shown(content["schema"]), f"{SCHEMA}, which this version reads")
    if type(least) not in (int, float) or not 0 <= least <= sys.float_info.max:
        raise MalformedSource(path, "least_seconds", shown(least), "seconds, from 0 on")
    if not isinstance(rows, list):
        raise MalformedSource(path, "by_hand", shown(rows), "a list of decisions")
    by_hand: dict[tuple[int, str], bool] = {}
    for number, row in enumerate(rows):
        place = f"by_hand[{number}]"
        decision = require_keys(path, place, row, ("sheet", "worker", "accepted"))
        key = integer(path, f"{place}, sheet", decision["sheet"]), text(path, f"{place}, worker", decision["worker"])
        if type(decision["accepted"]) is not bool:
            raise MalformedSource(path, f"{place}, accepted", shown(decision["accepted"]), "true or false")
        if key in by_hand:
            raise MalformedSource(path, place, f"sheet {key[0]} of {shown(key[1])} again", "one decision about a sheet")
        by_hand[key] = decision["accepted"]
    return Checks(float(least), by_hand)


def write_checks(folder: Path, checks: Checks) -> Path:
    """Write what was decided, whole or not at all."""
    rows = [
        {"sheet": sheet, "worker": worker, "accepted": good} for (sheet, worker), good in sorted(checks.by_hand.items())
    ]
    return write_json(folder / CHECKS, {"schema": SCHEMA, "least_seconds": checks.least_seconds, "by_hand": rows})


@dataclass(frozen=True, slots=True)
class WorkerQuality:
    """Sums over all sheets of one worker."""

    worker: str
    submitted: int
    accepted: int
    rejected: int  # sheets that are neither accepted nor rejected are to be checked by hand
    missed_positives: int
    missed_negatives: int
    straight: int  # sheets with one answer throughout
    hasty: int
    median_seconds: float | None  # of the sheets whose time is known; None of none


def judge_workers(judged: Iterable[SheetQuality]) -> list[WorkerQuality]:
    """Sums over the sheets of each worker, those with the most sheets first."""
    by_worker: defaultdict[str, list[SheetQuality]] = defaultdict(list)
    for sheet in judged:
        by_worker[sheet.worker].append(sheet)
    workers = []
    for worker, sheets in sorted(by_worker.items(), key=lambda item: (-len(item[1]), item[0])):
        seconds = [sheet.seconds for sheet in sheets if sheet.seconds is not None]
        workers.append(
            WorkerQuality(
                worker,
                len(sheets),
                sum(sheet.verdict == ACCEPTED for sheet in sheets),
                sum(sheet.verdict == REJECTED for sheet in sheets),
                sum(sheet.missed_positive for sheet in sheets),
                sum(sheet.missed_negative for sheet in sheets),
                sum(sheet.straight for sheet in sheets),
                sum(sheet.hasty for sheet in sheets),
                float(np.median(seconds)) if seconds else None,
            )
        )
    return workers


@dataclass(frozen=True, slots=True)
class Activity:
    """The workers who did about as many sheets, as a row of Table B.1."""

    least: int  # sheets of a worker of this group
    most: int | None  # None for no end
    workers: int
    submitted: int
    approved: int

    @property
    def ratio(self) -> float | None:
        """Share of sheets that were accepted; None without a sheet."""
        return self.approved / self.submitted if self.submitted else None


def group_workers(judged: Sequence[SheetQuality]) -> list[Activity]:
    """Workers, sheets and accepted sheets by how many sheets a worker did: Table B.1 of ECCV Caption."""
    submitted = Counter(sheet.worker for sheet in judged)
    approved = Counter(sheet.worker for sheet in judged if sheet.verdict == ACCEPTED)
    rows = []
    for least, most in zip((1, *(end + 1 for end in GROUPS)), (*GROUPS, None), strict=True):
        workers = [worker for worker, number in submitted.items() if least <= number <= (most or np.inf)]
        counts = (sum(sheets[worker] for worker in workers) for sheets in (submitted, approved))
        rows.append(Activity(least, most, len(workers), *counts))
    return rows
