"""Let people rate failures, and compare their answers with the four numbers.

By the scheme ``failures`` a rater sees the query with the right and the retrieved image, marks what went wrong, and
rates from 1 to 10 how well the retrieved image replaces the right one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, MalformedRun
from cxc_eccv.extras import require
from cxc_eccv.metrics.bootstrap_spearman import CodedPairs
from cxc_eccv.registry import metrics
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sources.library import Split
from cxc_eccv.statistics import ClusterBootstrap, Draws, Intervals, interval
from cxc_eccv.statistics.agreement import krippendorff_alpha
from cxc_eccv.studies.asking.answer_files import read_answers
from cxc_eccv.studies.asking.questions import CANDIDATE
from cxc_eccv.studies.asking.sheet_quality import KnownAnswers, count_known
from cxc_eccv.studies.explain.exported_failures import CORRELATED, SCHEME, ask_failures, name_failures
from cxc_eccv.studies.explain.failed_queries import INFORMED
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.types import FloatArray, IntArray, RatedPairs
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.writing import write_json

SCHEMA = 1

CLASSES = tuple(SCHEME.details[0].choices)
"""What a rater marks: that the image serves as well (an alternative), or what it misses of the query."""

LEAST = 1
MOST = 10
SEED = 0
CONFIDENCE = 0.95
RULES_SHOWN = 10
"""Rules on the console; the file has all."""


@dataclass(frozen=True, slots=True, eq=False)
class FailureRatings:
    """A answers on P failures."""

    pair_ids: tuple[str, ...]
    pairs: IntArray
    raters: tuple[str, ...]
    marks: NDArray[np.bool_]
    ratings: IntArray
    known: Mapping[str, KnownAnswers] = field(default_factory=dict)  # rater to the answers to known pairs

    @property
    def mean_ratings(self) -> FloatArray:
        """(P,) mean over the raters of each failure."""
        size = len(self.pair_ids)
        sums = np.bincount(self.pairs, weights=self.ratings, minlength=size)
        return np.asarray(sums / np.bincount(self.pairs, minlength=size), dtype=np.float64)


def read_ratings(
    paths: Sequence[str | Path],
    explained: pa.Table,
    split: Split,
    form: str | None = None,
    workers: Sequence[str] | None = None,
) -> FailureRatings:
    """Read answered files of ``export_failures``; ``workers`` are the raters of files that do not name them."""
    answers = read_answers(paths, [ask_failures(explained, split)], form, workers=workers).answers
    rows = answers[answers["role"] == CANDIDATE].to_dict("records")
    if not rows:
        raise DataError("no failure has an answer")
    pair_ids = sorted({row["pair_id"] for row in rows})
    place_of = {pair: number for number, pair in enumerate(pair_ids)}
    marks = [json.loads(row["details"])[SCHEME.details[0].name] for row in rows]
    return FailureRatings(
        tuple(pair_ids),
        np.array([place_of[row["pair_id"]] for row in rows]),
        tuple(row["worker"] for row in rows),
        np.array([[name in classes for name in CLASSES] for classes in marks]),
        np.array([int(float(row["answer"])) for row in rows]),
        count_known(answers),
    )


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the answers, with the interval of a bootstrap over pairs."""

    name: str
    answers: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Rule:
    """An association rule: answers that mark the antecedents also mark the consequents."""

    antecedents: tuple[str, ...]
    consequents: tuple[str, ...]
    answers: int
    support: float
    confidence: float
    lift: float


@dataclass(frozen=True, slots=True)
class Agreement:
    """Rank correlation of a number of the failures with their mean ratings, over the failures that have it."""

    metric: str
    spearman: float | None
    low: float | None
    high: float | None
    higher_is_better: bool
    pairs: int
    reason: str = ""

    @property
    def verdict(self) -> str:
        """Whether the interval shows that people agree."""
        if self.low is None or self.high is None:
            return MISSING
        low, high = (self.low, self.high) if self.higher_is_better else (-self.high, -self.low)
        return "agrees" if low > 0 else "contradicts" if high < 0 else "not shown"


@dataclass(frozen=True, slots=True)
class RatingsReport:
    """Shares of marks, of numbers of marks and of pairs of marks; rules; and correlations with the mean ratings."""

    pairs: int
    raters: int
    answers: int
    mean_rating: float
    mean_rating_low: float
    mean_rating_high: float
    ratings: tuple[int, ...]
    classes: tuple[Share, ...]
    numbers: tuple[Share, ...]
    together: tuple[Share, ...]
    rules: tuple[Rule, ...]
    agreements: tuple[Agreement, ...]
    known: Mapping[str, KnownAnswers]  # rater to the answers to known pairs
    alpha: float | None  # Krippendorff's, of the ratings; None if it is undefined
    alpha_pairs: int  # failures that two raters or more rated
    provenance: Provenance

    def save(self, path: str | Path) -> Path:
        """Write all numbers as JSON."""
        return write_json(Path(path), {"schema": SCHEMA, **asdict(self), "provenance": to_json(self.provenance)})

    def tables(self) -> list[Table]:
        """The console tables."""
        level = f"{100 * CONFIDENCE:g}%"
        counts = f"{self.answers:,} answers of {self.raters:,} raters on {self.pairs:,} failures"
        mean = f"{self.mean_rating:.2f} [{self.mean_rating_low:.2f}, {self.mean_rating_high:.2f}]"
        tables = [
            self._raters,
            Table(
                [("Marked",), ("% of answers",), ("Answers",)],
                [(row.name, _percent(row), f"{row.answers:,}") for row in self.classes],
                "What went wrong",
                counts,
                notes=[
                    f"Mean rating {mean} of {MOST}. Brackets: {level} intervals from a bootstrap over failures.",
                    "Marked in one answer: "
                    + ", ".join(f"{row.name} in {_percent(row)}" for row in self.numbers)
                    + ".",
                ],
            ),
        ]
        if self.together:
            tables += [self._together, self._rules]
        return [*tables, self._agreements(level)]

    @property
    def _raters(self) -> Table:
        """Answers to known pairs, and the agreement between raters."""
        alpha = MISSING if self.alpha is None else f"{self.alpha:.2f}"
        return Table(
            [("Rater",), ("Known right",)],
            [(rater, str(known) if known.answered else MISSING) for rater, known in self.known.items()],
            "Raters",
            notes=[
                "Known right: a match rated above 5, a mismatch not; 95% interval of the share. Chance gives 50%.",
                f"Krippendorff's alpha of the ratings: {alpha}, over {self.alpha_pairs:,} failures with two raters or "
                "more.",
            ],
            data=describe_data(self.provenance.data, self.provenance.split),
        )

    @property
    def no_verdict(self) -> str:
        """The reason why the ratings show nothing about a number; empty if they may."""
        if not sum(known.answered for known in self.known.values()):
            return "nobody answered a known pair"
        if self.alpha is None:
            return "fewer than two raters rated the same failures differently, so their agreement is unknown"
        return "" if self.alpha > 0 else "raters agree no better than chance"

    @property
    def _together(self) -> Table:
        rows = [(row.name, _percent(row), f"{row.answers:,}") for row in self.together]
        return Table([("Marked together",), ("% of answers",), ("Answers",)], rows, "Classes together")

    @property
    def _rules(self) -> Table:
        rows = [
            (
                f"{' + '.join(rule.antecedents)} \N{RIGHTWARDS ARROW} {' + '.join(rule.consequents)}",
                f"{rule.answers:,}",
                f"{100 * rule.support:.1f}",
                f"{100 * rule.confidence:.1f}",
                f"{rule.lift:.2f}",
            )
            for rule in self.rules[:RULES_SHOWN]
        ]
        return Table(
            [("If, then",), ("Answers",), ("Support",), ("Confidence",), ("Lift",)],
            rows,
            "Association rules",
            f"the {len(rows)} of {len(self.rules)} with the most answers",
            notes=[
                "Support: % of all answers; confidence: % of the answers with the first; lift: above 1 if more often "
                "than by chance."
            ],
        )

    def _agreements(self, level: str) -> Table:
        rows = []
        for row in self.agreements:
            bounds = "" if row.low is None or row.high is None else f"[{row.low:.2f}, {row.high:.2f}]"
            value = MISSING if row.spearman is None else Cell(f"{row.spearman:.2f}", interval=bounds)
            wanted = "above 0" if row.higher_is_better else "below 0"
            rows.append((_title_of(row), value, wanted, f"{row.pairs:,}", MISSING if self.no_verdict else row.verdict))
        best = max(
            (row for row in self.agreements if row.verdict == "agrees"),
            key=lambda row: abs(row.spearman or 0.0),
            default=None,
        )
        headline = "No number demonstrably agrees with people." if best is None else f"{_title_of(best)} agrees best."
        headline = f"No verdict: {self.no_verdict}." if self.no_verdict else headline
        return Table(
            [("Number",), ("Spearman",), ("Wanted",), ("Failures",), ("With people",)],
            rows,
            "Which number agrees with people",
            "rank correlation with the mean rating of a failure",
            notes=[
                f"{headline} Brackets: {level} intervals from a bootstrap over failures; one that contains 0 shows "
                "nothing. Each number is correlated over the failures that have it.",
                *(f"{_title_of(row)}: {row.reason}." for row in self.agreements if row.reason),
            ],
        )


def _title_of(row: Agreement) -> str:
    title = metrics()[row.metric.removesuffix(INFORMED)].title
    return f"{title}, informed" if row.metric.endswith(INFORMED) else title


def _percent(row: Share) -> str:
    return f"{100 * row.share:.1f} [{100 * row.low:.1f}, {100 * row.high:.1f}]"


def report_ratings(
    rated: FailureRatings,
    explained: pa.Table,
    *,
    provenance: Provenance | None = None,
) -> RatingsReport:
    """Report what was marked, what was marked together, and which of the four numbers agrees with the ratings."""
    draws = Draws(SEED)
    bootstrap = ClusterBootstrap(rated.pairs, draws)

    def share(name: str, given: NDArray[np.bool_]) -> Share:
        low, high = interval(bootstrap.means(given.astype(np.float64)[:, None])[0], CONFIDENCE)
        return Share(name, int(given.sum()), float(given.mean()), low, high)

    n_marked = rated.marks.sum(axis=1)
    both = {
        f"{CLASSES[first]} + {CLASSES[other]}": rated.marks[:, first] & rated.marks[:, other]
        for first, other in combinations(range(len(CLASSES)), 2)
    }
    together = [share(name, given) for name, given in both.items() if given.any()]
    low, high = interval(bootstrap.means(rated.ratings.astype(np.float64)[:, None])[0], CONFIDENCE)
    return RatingsReport(
        pairs=len(rated.pair_ids),
        raters=len(set(rated.raters)),
        answers=rated.pairs.size,
        mean_rating=float(rated.ratings.mean()),
        mean_rating_low=low,
        mean_rating_high=high,
        ratings=tuple(np.bincount(rated.ratings, minlength=MOST + 1)[LEAST:].tolist()),
        classes=tuple(share(name, given) for name, given in zip(CLASSES, rated.marks.T, strict=True)),
        numbers=tuple(
            share(f"{number} class{'' if number == 1 else 'es'}", n_marked == number)
            for number in np.unique(n_marked).tolist()
        ),
        together=tuple(sorted(together, key=lambda row: (-row.answers, row.name))),
        rules=find_rules(rated.marks),
        agreements=tuple(_correlate(rated, explained, draws)),
        known=rated.known,
        **_measure_alpha(rated),
        provenance=Intervals(confidence=CONFIDENCE, seed=SEED).record(provenance or Provenance()),
    )


def _measure_alpha(rated: FailureRatings) -> dict[str, Any]:
    """Krippendorff's alpha of the ratings, None if it is undefined, and the failures with several."""
    several = np.bincount(rated.pairs)[rated.pairs] > 1
    items = np.unique(rated.pairs[several], return_inverse=True)[1]
    ratings = rated.ratings[several]
    try:
        alpha = krippendorff_alpha(items, ratings.astype(np.float64), "interval") if items.size else None
    except DataError:
        alpha = None
    return {"alpha": alpha, "alpha_pairs": int(np.unique(items).size)}


def find_rules(marks: NDArray[np.bool_]) -> tuple[Rule, ...]:
    """All association rules between classes that any answer supports, by descending number of answers."""
    require("mlxtend", "explain", "association rules need")
    from mlxtend.frequent_patterns import apriori, association_rules

    answers = pd.DataFrame(marks, columns=list(CLASSES))
    # A support of half an answer keeps every combination that occurs.
    sets = apriori(answers, min_support=0.5 / len(marks), use_colnames=True)
    frame = association_rules(sets, num_itemsets=len(marks), metric="support", min_threshold=0.0)
    rules = [
        Rule(
            antecedents=_in_order(row["antecedents"]),
            consequents=_in_order(row["consequents"]),
            answers=round(row["support"] * len(marks)),
            support=float(row["support"]),
            confidence=float(row["confidence"]),
            lift=float(row["lift"]),
        )
        for row in frame.to_dict("records")
    ]
    return tuple(sorted(rules, key=lambda rule: (-rule.answers, -rule.confidence, rule.antecedents, rule.consequents)))


def _in_order(classes: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in CLASSES if name in classes)


def _correlate(rated: FailureRatings, explained: pa.Table, draws: Draws) -> Iterator[Agreement]:
    """Spearman's rho of every number with the mean ratings, over the failures that have it."""
    rows = {pair_id: row for row, pair_id in enumerate(name_failures(explained))}
    rated_rows = explained.take([rows[pair_id] for pair_id in rated.pair_ids])
    for metric in CORRELATED:
        values = rated_rows[metric].to_numpy()
        there = np.flatnonzero(np.isfinite(values))
        better = metrics()[metric.removesuffix(INFORMED)].higher_is_better
        agreement = Agreement(metric, None, None, None, better, int(there.size))
        pairs = RatedPairs(there, there, rated.mean_ratings[there])
        if there.size == 0:
            yield replace(agreement, reason="no failure has this number")
        elif np.unique(values[there]).size < 2 or np.unique(pairs.ratings).size < 2:
            which = "the number" if np.unique(values[there]).size < 2 else "the mean rating"
            yield replace(agreement, reason=f"{which} is the same for every failure that has one")
        else:
            coded = CodedPairs.of(pairs, values[there])
            rho = float(coded.spearman([np.arange(there.size)[None]])[0])
            yield replace(agreement, spearman=rho, **_bounds(coded, draws.times(there.size)))


def _bounds(coded: CodedPairs, times: NDArray[np.integer]) -> dict[str, Any]:
    """The bounds of the interval, or the reason for its absence."""
    drawn = np.stack([np.repeat(np.arange(row.size), row) for row in times])
    try:
        low, high = interval(coded.spearman([drawn]), CONFIDENCE)
    except (DataError, MalformedRun):
        return {"reason": "no interval: with so few failures, some bootstrap samples have equal values only"}
    return {"low": low, "high": high}
