"""Quality of answers by sheet and by worker: wrong answers to known pairs, haste, the same answer to all pairs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.reading import shown
from cxc_eccv.statistics import wilson
from cxc_eccv.studies.asking.questions import CANDIDATE, NEGATIVE, POSITIVE

ACCEPTED = "accepted"
BY_HAND = "to be checked by hand"
REJECTED = "rejected"

Row = Mapping[str, Any]
"""A row of :data:`cxc_eccv.studies.asking.answer_files.SCHEMA`."""

GROUPS = (1, 5, 10, 15, 25)
"""Most sheets of a worker in each group of Table B.1; the last group has no limit."""

FEWEST_STRAIGHT = 3
"""Least candidates of a sheet for a warning that all answers are equal."""

CONFIDENCE = 0.95
"""Level of the interval of a person's share of right answers to known pairs."""


@dataclass(frozen=True, slots=True)
class Checks:
    """The settings and decisions by which sheets are judged."""

    least_seconds: float = 0.0  # a faster sheet is too hasty; 0 for no limit
    # Sheet and worker to whether a check by hand accepted the answers.
    by_hand: Mapping[tuple[int, str], bool] = field(default_factory=dict)
    rejected_workers: frozenset[str] = frozenset()  # workers whose answers do not count
    # The whole interval of a person's share of right answers to known pairs must be above it; 0 for no limit, as in the
    # paper. Chance gives one half, above which four right answers of four are the fewest.
    least_accuracy: float = 0.0
    straight: bool = False  # whether a sheet with the same answer to all candidates is doubted

    def __post_init__(self) -> None:
        if not 0 <= self.least_seconds < np.inf:
            raise InvalidOption(f"least_seconds={self.least_seconds}: give seconds of at least 0")
        if not 0 <= self.least_accuracy < 1:
            raise InvalidOption(f"least_accuracy={self.least_accuracy}: give a share from 0 to below 1")

    @property
    def rule(self) -> str:
        """Which sheets are accepted without a decision, in words."""
        reasons = {
            "one of its known pairs was answered wrongly": True,
            f"it took less than {self.least_seconds:g} seconds": bool(self.least_seconds),
            "all its candidates got the same answer": self.straight,
            f"its person answered no more than {self.least_accuracy:.0%} of known pairs correctly (95% interval)": bool(
                self.least_accuracy
            ),
        }
        return f"A sheet is accepted unless {' or '.join(reason for reason, holds in reasons.items() if holds)}."


@dataclass(frozen=True, slots=True)
class SheetQuality:
    """The quality of one worker's answers to one sheet."""

    sheet: int
    worker: str
    seconds: float | None  # for all answers; None if any time is unknown
    missed_positive: bool  # a known positive was answered as a negative
    missed_negative: bool  # a known negative was answered as a positive
    straight: bool  # three or more candidates, all with the same answer
    verdict: str  # ACCEPTED, BY_HAND or REJECTED
    hasty: bool = False  # less than the least time
    checked: bool = False  # decided by hand
    unsure: str = ""  # the reason not to trust the person, from all their known pairs; empty if trusted
    rejected_worker: bool = False

    @property
    def doubts(self) -> list[str]:
        """The reasons to doubt the sheet, in words."""
        doubts = {
            "the known positive was answered as a negative": self.missed_positive,
            "the known negative was answered as a positive": self.missed_negative,
            "the same answer to all candidates": self.straight,
            "answered in less than the least time": self.hasty,
            "the worker is rejected": self.rejected_worker,
            self.unsure: bool(self.unsure),
        }
        return [doubt for doubt, holds in doubts.items() if holds]


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """The known pairs that a person answered, and the right answers among them."""

    right: int = 0
    answered: int = 0

    @property
    def bounds(self) -> tuple[float, float]:
        """Wilson's interval of the share; 0 to 1 without answers."""
        if not self.answered:
            return 0.0, 1.0
        return wilson((np.arange(self.answered) < self.right).astype(np.float64), CONFIDENCE)

    @property
    def may_be_chance(self) -> bool:
        """Whether answers are wrong, and the interval contains one half."""
        return self.right < self.answered and self.bounds[0] <= 0.5

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{self.right} of {self.answered} [{low:.0%}, {high:.0%}]"


def judge_sheets(answers: pa.Table, checks: Checks | None = None) -> list[SheetQuality]:
    """A verdict on every worker's sheet, in the order of sheets and workers.

    As in the paper, a sheet is accepted unless a known pair was answered wrongly; then it is to be checked by hand. The
    answers of a person who got no known pair of a sheet are judged by the known pairs of the person's other sheets.
    ``checks`` has the outcomes, and stricter settings: a least time, a least share of right answers to all known pairs
    of the person, and different answers to the candidates.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.2 and appendix B.2.
    """
    checks = checks or Checks()
    sheets: defaultdict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in answers.to_pylist():
        sheets[row["sheet"], row["worker"]].append(row)
    people = count_known(answers)
    judged = {key: _judge(key, rows, checks, people[key[1]]) for key, rows in sorted(sheets.items())}
    for (sheet, worker), good in checks.by_hand.items():
        if (sheet, worker) not in judged:
            raise InvalidOption(
                f"sheet {sheet} of {shown(worker)} is not among the answers, so it cannot be decided. Give an answered "
                "sheet, here and among earlier decisions"
            )
        if worker not in checks.rejected_workers:
            judged[sheet, worker] = replace(judged[sheet, worker], verdict=ACCEPTED if good else REJECTED, checked=True)
    return list(judged.values())


def count_known(answers: pa.Table) -> dict[str, KnownAnswers]:
    """Worker to the number of answered known pairs, and of right answers."""
    counts = {worker: [0, 0] for worker in answers["worker"].to_pylist()}
    columns = (answers[name].to_pylist() for name in ("worker", "role", "positive"))
    for worker, role, positive in zip(*columns, strict=True):
        if role != CANDIDATE:
            counts[worker][0] += positive is (role == POSITIVE)
            counts[worker][1] += 1
    return {worker: KnownAnswers(*count) for worker, count in counts.items()}


def sum_known(answers: pa.Table) -> KnownAnswers:
    """The known pairs that all people together answered."""
    counts = count_known(answers).values()
    return KnownAnswers(sum(known.right for known in counts), sum(known.answered for known in counts))


def _judge(key: tuple[int, str], rows: Sequence[Row], checks: Checks, known: KnownAnswers) -> SheetQuality:
    sheet, worker = key
    missed = {
        role: any(row["role"] == role and row["positive"] is not expected for row in rows)
        for role, expected in ((POSITIVE, True), (NEGATIVE, False))
    }
    answers = [_answer_value(row["answer"]) for row in rows if row["role"] == CANDIDATE]
    straight = len(set(answers)) == 1 and len(answers) >= FEWEST_STRAIGHT
    times = [row["seconds"] for row in rows]
    seconds = None if None in times else float(sum(times))
    hasty = seconds is not None and seconds < checks.least_seconds
    unsure = ""
    if checks.least_accuracy and known.bounds[0] <= checks.least_accuracy:
        unsure = f"{known} known pairs right are not above {checks.least_accuracy:.0%}"
    elif known.right < known.answered and all(row["role"] == CANDIDATE for row in rows):
        unsure = f"{known} known pairs right, none of them among these answers"
    doubted = (checks.straight and straight) or hasty or unsure or any(missed.values())
    rejected = worker in checks.rejected_workers
    verdict = REJECTED if rejected else BY_HAND if doubted else ACCEPTED
    wrong = missed[POSITIVE], missed[NEGATIVE]
    return SheetQuality(
        sheet, worker, seconds, *wrong, straight, verdict, hasty, unsure=unsure, rejected_worker=rejected
    )


def _answer_value(answer: str) -> object:
    """The hashable value of a column ``answer``; 3 and 3.0 are equal."""
    value = json.loads(answer)
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def accept(answers: pa.Table, judged: Iterable[SheetQuality]) -> pa.Table:
    """The answers of accepted sheets."""
    return keep_sheets(answers, judged, ACCEPTED)


def keep_sheets(answers: pa.Table, judged: Iterable[SheetQuality], *verdicts: str) -> pa.Table:
    """The answers of the sheets with one of these verdicts."""
    sheets = {(sheet.sheet, sheet.worker) for sheet in judged if sheet.verdict in verdicts}
    keys = zip(answers["sheet"].to_pylist(), answers["worker"].to_pylist(), strict=True)
    return answers.filter(pa.array([key in sheets for key in keys], pa.bool_()))


@dataclass(frozen=True, slots=True)
class WorkerQuality:
    """Sums over all sheets of one worker."""

    worker: str
    submitted: int
    accepted: int
    rejected: int  # sheets that are neither accepted nor rejected are to be checked by hand
    missed_positives: int
    missed_negatives: int
    straight: int  # sheets with the same answer to all candidates
    hasty: int
    median_seconds: float | None  # of the sheets with known times; None without any


def judge_workers(judged: Iterable[SheetQuality]) -> list[WorkerQuality]:
    """Sums over the sheets of each worker, by descending number of sheets."""
    by_worker: defaultdict[str, list[SheetQuality]] = defaultdict(list)
    for sheet in judged:
        by_worker[sheet.worker].append(sheet)
    workers = []
    for worker, sheets in sorted(by_worker.items(), key=lambda item: (-len(item[1]), item[0])):
        seconds = [sheet.seconds for sheet in sheets if sheet.seconds is not None]
        verdicts = Counter(sheet.verdict for sheet in sheets)
        workers.append(
            WorkerQuality(
                worker=worker,
                submitted=len(sheets),
                accepted=verdicts[ACCEPTED],
                rejected=verdicts[REJECTED],
                missed_positives=sum(sheet.missed_positive for sheet in sheets),
                missed_negatives=sum(sheet.missed_negative for sheet in sheets),
                straight=sum(sheet.straight for sheet in sheets),
                hasty=sum(sheet.hasty for sheet in sheets),
                median_seconds=float(np.median(seconds)) if seconds else None,
            )
        )
    return workers


@dataclass(frozen=True, slots=True)
class Activity:
    """The workers with a similar number of sheets: a row of Table B.1."""

    least: int  # fewest sheets of a worker of this group
    most: int | None  # None for no limit
    workers: int
    submitted: int
    approved: int

    @property
    def ratio(self) -> float | None:
        """Share of accepted sheets; None without sheets."""
        return self.approved / self.submitted if self.submitted else None


def group_workers(judged: Sequence[SheetQuality]) -> list[Activity]:
    """Workers, sheets and accepted sheets, grouped by the sheets of a worker: Table B.1 of ECCV Caption."""
    submitted = Counter(sheet.worker for sheet in judged)
    approved = Counter(sheet.worker for sheet in judged if sheet.verdict == ACCEPTED)
    rows = []
    for before, most in pairwise((0, *GROUPS, None)):
        least = (before or 0) + 1
        workers = [worker for worker, number in submitted.items() if least <= number <= (most or np.inf)]
        counts = (sum(sheets[worker] for worker in workers) for sheets in (submitted, approved))
        rows.append(Activity(least, most, len(workers), *counts))
    return rows
