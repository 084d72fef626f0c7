"""Quality of answers by sheet and by worker: wrong answers to known pairs, haste, the same answer to all pairs.

Answers are the frame of :func:`cxc_eccv.studies.asking.answer_files.tabulate`, a row for each.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.reading import shown
from cxc_eccv.statistics import wilson
from cxc_eccv.studies.asking.questions import CANDIDATE, NEGATIVE, POSITIVE

ACCEPTED = "accepted"
BY_HAND = "to be checked by hand"
REJECTED = "rejected"

SHEET = ["sheet", "worker"]
"""The number of a sheet, and who answered it."""

VERDICTS = [
    *SHEET,
    "seconds",  # for all answers; missing if any time is unknown
    "missed_positive",  # a known positive was answered as a negative
    "missed_negative",  # a known negative was answered as a positive
    "straight",  # three or more candidates, all with the same answer
    "verdict",  # ACCEPTED, BY_HAND or REJECTED
    "hasty",  # less than the least time
    "checked",  # decided by hand
    "unsure",  # the reason not to trust the person, from all their known pairs; empty if trusted
    "rejected_worker",
]
"""Columns of the quality of one worker's answers to one sheet."""

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


def judge_sheets(answers: pd.DataFrame, checks: Checks | None = None) -> pd.DataFrame:
    """A verdict on every worker's sheet: the columns of :data:`VERDICTS`, in the order of sheets and workers.

    As in the paper, a sheet is accepted unless a known pair was answered wrongly; then it is to be checked by hand. The
    answers of a person who got no known pair of a sheet are judged by the known pairs of the person's other sheets.
    ``checks`` has the outcomes, and stricter settings: a least time, a least share of right answers to all known pairs
    of the person, and different answers to the candidates.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.2 and appendix B.2.
    """
    checks = checks or Checks()
    sheets = _measure_sheets(answers)
    keys = list(zip(sheets["sheet"], sheets["worker"], strict=True))
    _refuse_unanswered(checks, keys)
    people = count_known(answers)
    known = [people[worker] for worker in sheets["worker"]]
    sheets["unsure"] = list(map(partial(_doubt_person, checks), known, sheets["has_known"]))
    sheets["hasty"] = sheets["seconds"] < checks.least_seconds
    sheets["rejected_worker"] = sheets["worker"].isin(checks.rejected_workers)
    doubtful = sheets["missed_positive"] | sheets["missed_negative"] | sheets["hasty"] | (sheets["unsure"] != "")
    if checks.straight:
        doubtful |= sheets["straight"]
    decided = pd.Series([checks.by_hand.get(key) for key in keys], index=sheets.index, dtype=object)
    sheets["checked"] = decided.notna() & ~sheets["rejected_worker"]
    sheets["verdict"] = ACCEPTED
    sheets.loc[doubtful, "verdict"] = BY_HAND
    sheets.loc[decided.eq(True), "verdict"] = ACCEPTED
    sheets.loc[decided.eq(False) | sheets["rejected_worker"], "verdict"] = REJECTED
    return sheets[VERDICTS]


def _measure_sheets(answers: pd.DataFrame) -> pd.DataFrame:
    """What the answers of each sheet and worker show: their time, wrong answers to known pairs, and equal answers."""
    is_candidate = answers["role"] == CANDIDATE
    marked = answers[[*SHEET, "seconds"]].assign(
        missed_positive=(answers["role"] == POSITIVE) & ~answers["positive"],
        missed_negative=(answers["role"] == NEGATIVE) & answers["positive"],
        has_known=~is_candidate,
    )
    by_sheet = marked.groupby(SHEET)
    sheets = by_sheet[["missed_positive", "missed_negative", "has_known"]].any()
    # Not the frame's sum, which leaves out unknown times.
    sheets["seconds"] = by_sheet["seconds"].agg(lambda times: float(sum(times.tolist())))
    candidates = answers.loc[is_candidate, SHEET].assign(value=answers["answer"].map(_normalize_answer))
    values = candidates.groupby(SHEET)["value"]
    straight = (values.nunique() == 1) & (values.size() >= FEWEST_STRAIGHT)
    sheets["straight"] = straight.reindex(sheets.index, fill_value=False)
    return sheets.reset_index()


def _normalize_answer(answer: str) -> str:
    """The same text for equal answers, as for 3 and 3.0."""
    value = json.loads(answer)
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return repr(float(value)) if isinstance(value, int | float) else answer


def _refuse_unanswered(checks: Checks, answered: Collection[tuple[int, str]]) -> None:
    """Raise InvalidOption for a decision about a sheet without answers."""
    for sheet, worker in checks.by_hand:
        if (sheet, worker) not in answered:
            raise InvalidOption(
                f"sheet {sheet} of {shown(worker)} is not among the answers, so it cannot be decided. Give an answered "
                "sheet, here and among earlier decisions"
            )


def _doubt_person(checks: Checks, known: KnownAnswers, has_known: bool) -> str:
    """The reason not to trust a person, from all their known pairs; empty if the person is trusted with a sheet."""
    if checks.least_accuracy and known.bounds[0] <= checks.least_accuracy:
        return f"{known} known pairs right are not above {checks.least_accuracy:.0%}"
    if known.right < known.answered and not has_known:
        return f"{known} known pairs right, none of them among these answers"
    return ""


def list_doubts(sheet: Any) -> list[str]:  # noqa: ANN401 - a row of judge_sheets, as itertuples gives it
    """The reasons to doubt a sheet, in words."""
    doubts = {
        "the known positive was answered as a negative": sheet.missed_positive,
        "the known negative was answered as a positive": sheet.missed_negative,
        "the same answer to all candidates": sheet.straight,
        "answered in less than the least time": sheet.hasty,
        "the worker is rejected": sheet.rejected_worker,
        sheet.unsure: bool(sheet.unsure),
    }
    return [doubt for doubt, holds in doubts.items() if holds]


def count_known(answers: pd.DataFrame) -> dict[str, KnownAnswers]:
    """Worker to the number of answered known pairs, and of right answers."""
    known = answers[answers["role"] != CANDIDATE]
    is_right = known["positive"] == (known["role"] == POSITIVE)
    counts = is_right.groupby(known["worker"]).agg(["sum", "size"])
    workers = answers["worker"].drop_duplicates()
    counts = counts.reindex(workers, fill_value=0)
    return {worker: KnownAnswers(int(right), int(size)) for worker, right, size in counts.itertuples()}


def sum_known(answers: pd.DataFrame) -> KnownAnswers:
    """The known pairs that all people together answered."""
    counts = count_known(answers).values()
    return KnownAnswers(sum(known.right for known in counts), sum(known.answered for known in counts))


def accept(answers: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """The answers of accepted sheets."""
    return keep_sheets(answers, judged, ACCEPTED)


def keep_sheets(answers: pd.DataFrame, judged: pd.DataFrame, *verdicts: str) -> pd.DataFrame:
    """The answers of the sheets with one of these verdicts."""
    sheets = judged.loc[judged["verdict"].isin(verdicts), SHEET]
    return answers.merge(sheets, on=SHEET, validate="many_to_one")


def judge_workers(judged: pd.DataFrame) -> pd.DataFrame:
    """Sums over the sheets of each worker, by descending number of sheets.

    Sheets that are neither ``accepted`` nor ``rejected`` are to be checked by hand. ``median_seconds`` is that of the
    sheets with known times, missing without any.
    """
    is_accepted = judged["verdict"] == ACCEPTED
    is_rejected = judged["verdict"] == REJECTED
    workers = judged.assign(accepted=is_accepted, rejected=is_rejected).groupby("worker", as_index=False)
    sums = workers.agg(
        submitted=("sheet", "size"),
        accepted=("accepted", "sum"),
        rejected=("rejected", "sum"),
        missed_positives=("missed_positive", "sum"),
        missed_negatives=("missed_negative", "sum"),
        straight=("straight", "sum"),
        hasty=("hasty", "sum"),
        median_seconds=("seconds", "median"),
    )
    return sums.sort_values(["submitted", "worker"], ascending=[False, True], ignore_index=True)


def group_workers(judged: pd.DataFrame) -> pd.DataFrame:
    """Workers with a similar number of sheets, a row of Table B.1 of ECCV Caption each.

    The columns are the ``least`` and ``most`` sheets of a worker of the group (no ``most`` for the last), the number of
    ``workers``, and of sheets ``submitted`` and ``approved``.
    """
    is_approved = judged["verdict"] == ACCEPTED
    by_worker = judged.assign(approved=is_approved).groupby("worker")
    sums = by_worker.agg(submitted=("sheet", "size"), approved=("approved", "sum"))
    group = pd.cut(sums["submitted"], [0, *GROUPS, np.inf], labels=False)
    groups = sums.groupby(group).agg(
        workers=("submitted", "size"), submitted=("submitted", "sum"), approved=("approved", "sum")
    )
    groups = groups.reindex(range(len(GROUPS) + 1), fill_value=0)
    groups.insert(0, "least", [1, *(most + 1 for most in GROUPS)])
    groups.insert(1, "most", pd.array([*GROUPS, None], dtype="Int64"))
    return groups
