"""Quality of answers: known pairs answered wrongly, haste, one answer throughout; by sheet and by worker."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from cxc_eccv.annotation.asking.questions import CANDIDATE, NEGATIVE, POSITIVE
from cxc_eccv.errors import InvalidOption

__all__ = ["ACCEPTED", "BY_HAND", "REJECTED", "Activity", "SheetQuality", "accept", "group_workers", "judge_sheets"]

ACCEPTED, BY_HAND, REJECTED = "accepted", "to be checked by hand", "rejected"

GROUPS = (1, 5, 10, 15, 25)
"""Sheets of a worker up to which the groups of Table B.1 reach; the last has no end."""


@dataclass(frozen=True, slots=True)
class SheetQuality:
    """One worker's answers to one sheet.

    Attributes:
        sheet: its number.
        worker: who answered.
        seconds: the answers took together.
        missed_positive: a known positive was answered as none.
        missed_negative: a known negative was answered as a positive.
        straight: all candidates got the same answer, and there are three or more.
        verdict: :data:`ACCEPTED`, :data:`BY_HAND` or :data:`REJECTED`.
    """

    sheet: int
    worker: str
    seconds: float
    missed_positive: bool
    missed_negative: bool
    straight: bool
    verdict: str


def judge_sheets(answers: pa.Table, *, least_seconds: float = 0.0) -> list[SheetQuality]:
    """A verdict on every worker's sheet, in the order of sheets and workers.

    Both known pairs answered wrongly: rejected. One of them, or the same answer for all candidates, or less time than
    the least: to be checked by hand, as the paper did with every failed sheet.

    Args:
        answers: of :func:`cxc_eccv.annotation.answers.read_answers`.
        least_seconds: time below which a sheet is too hasty; 0 for no limit.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.2 and appendix B.2.
    """
    if not least_seconds >= 0:
        raise InvalidOption(f"least_seconds={least_seconds}: give seconds of at least 0")
    sheets: defaultdict[tuple[int, str], list[dict[str, object]]] = defaultdict(list)
    for row in answers.to_pylist():
        sheets[row["sheet"], row["worker"]].append(row)
    return [_judge(sheet, worker, rows, least_seconds) for (sheet, worker), rows in sorted(sheets.items())]


def _judge(sheet: int, worker: str, rows: Sequence[dict[str, object]], least_seconds: float) -> SheetQuality:
    missed = {
        role: any(row["role"] == role and row["positive"] is not wanted for row in rows)
        for role, wanted in ((POSITIVE, True), (NEGATIVE, False))
    }
    given = Counter(row["answer"] for row in rows if row["role"] == CANDIDATE)
    straight = len(given) == 1 and given.total() >= 3
    seconds = float(sum(float(str(row["seconds"])) for row in rows))
    doubts = straight or any(missed.values()) or seconds < least_seconds
    verdict = REJECTED if all(missed.values()) else BY_HAND if doubts else ACCEPTED
    return SheetQuality(sheet, worker, seconds, missed[POSITIVE], missed[NEGATIVE], straight, verdict)


def accept(answers: pa.Table, judged: Iterable[SheetQuality], by_hand: Iterable[tuple[int, str]] = ()) -> pa.Table:
    """The answers of accepted sheets, and of those that somebody checked by hand and found good.

    Args:
        answers: as of :func:`judge_sheets`.
        judged: of :func:`judge_sheets`.
        by_hand: sheet and worker of each that was found good.

    Raises:
        InvalidOption: one of them was not to be checked.
    """
    verdicts = {(own.sheet, own.worker): own.verdict for own in judged}
    good = set(by_hand)
    for pair in sorted(good):
        if verdicts.get(pair) != BY_HAND:
            raise InvalidOption(
                f"sheet {pair[0]} of {pair[1]} is {verdicts.get(pair, 'not among the answers')}: only sheets that are "
                "to be checked by hand are accepted by hand"
            )
    good |= {pair for pair, verdict in verdicts.items() if verdict == ACCEPTED}
    keys = zip(answers["sheet"].to_pylist(), answers["worker"].to_pylist(), strict=True)
    return answers.filter(pa.array([key in good for key in keys], pa.bool_()))


@dataclass(frozen=True, slots=True)
class Activity:
    """The workers who did about as many sheets, as a row of Table B.1.

    Attributes:
        least, most: sheets of a worker of this group; None for no end.
        workers: how many.
        submitted: their sheets.
        approved: those that were accepted.
    """

    least: int
    most: int | None
    workers: int
    submitted: int
    approved: int

    @property
    def ratio(self) -> float:
        """Share of sheets that were accepted; NaN without a sheet."""
        return self.approved / self.submitted if self.submitted else float("nan")


def group_workers(judged: Sequence[SheetQuality]) -> list[Activity]:
    """Workers, sheets and accepted sheets, by how many sheets a worker did.

    References:
        Chun et al., ECCV Caption, ECCV 2022, Table B.1.

    Example:
        >>> done = [SheetQuality(n, "w", 60, False, False, False, ACCEPTED) for n in range(3)]
        >>> [(own.least, own.most, own.submitted) for own in group_workers(done) if own.workers]
        [(2, 5, 3)]
    """
    submitted = Counter(own.worker for own in judged)
    approved = Counter(own.worker for own in judged if own.verdict == ACCEPTED)
    rows = []
    for least, most in zip((1, *(end + 1 for end in GROUPS)), (*GROUPS, None), strict=True):
        workers = [worker for worker, number in submitted.items() if least <= number <= (most or np.inf)]
        counts = (sum(found[worker] for worker in workers) for found in (submitted, approved))
        rows.append(Activity(least, most, len(workers), *counts))
    return rows
