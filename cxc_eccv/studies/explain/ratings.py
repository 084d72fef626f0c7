"""Let people rate failures, and compare their answers with the four numbers.

By the scheme ``failures`` a rater sees the query with the right and the retrieved image, marks what went wrong, and
rates from 1 to 10 how well the retrieved image replaces the right one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
from cxc_eccv.presentation import ShownResult
from cxc_eccv.registry import metrics
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sources.library import Split
from cxc_eccv.statistics import Draws, Intervals, bootstrap_mean, interval
from cxc_eccv.statistics.agreement import krippendorff_alpha
from cxc_eccv.studies.asking.answer_files import read_answers
from cxc_eccv.studies.asking.questions import CANDIDATE
from cxc_eccv.studies.asking.sheet_quality import KnownAnswers, count_known
from cxc_eccv.studies.explain.exported_failures import CORRELATED, SCHEME, ask_failures, name_failures
from cxc_eccv.studies.explain.failed_queries import INFORMED
from cxc_eccv.tables import MISSING, Cell, Table, interval_cell
from cxc_eccv.types import FloatArray, IntArray, RatedPairs
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance

RATINGS_SCHEMA = 1

CLASSES = tuple(SCHEME.details[0].choices)
"""What a rater marks: that the image serves as well (an alternative), or what it misses of the query."""

LEAST = 1
MOST = 10
SEED = 0
CONFIDENCE = 0.95
RULES_SHOWN = 10
"""Rules on the console; the file has all."""


def read_ratings(
    paths: Sequence[str | Path],
    explained: pa.Table,
    split: Split,
    form: str | None = None,
    workers: Sequence[str] | None = None,
) -> tuple[pd.DataFrame, dict[str, KnownAnswers]]:
    """Read answered files of ``export_failures``; ``workers`` are the raters of files that do not name them.

    Returns:
        A row per answer on a failure: ``pair_id``, ``worker``, ``rating``, and whether each of :data:`CLASSES` is
        marked; and rater to the answers to known pairs.
    """
    answers = read_answers(paths, [ask_failures(explained, split)], form, workers=workers).answers
    failures = answers[answers["role"] == CANDIDATE].to_dict("records")
    if not failures:
        raise DataError("no failure has an answer")
    rows = []
    for answer in failures:
        marked = json.loads(answer["details"])[SCHEME.details[0].name]
        marks = {name: name in marked for name in CLASSES}
        rating = int(float(answer["answer"]))
        rows.append({"pair_id": answer["pair_id"], "worker": answer["worker"], "rating": rating, **marks})
    return pd.DataFrame(rows), count_known(answers)


@dataclass(frozen=True, slots=True, eq=False)
class RatingsReport(ShownResult):
    """What raters marked, and how the numbers of failures correlate with the mean ratings.

    Attributes:
        pairs, raters, answers: how many there are.
        mean_rating, mean_rating_low, mean_rating_high: the mean, with the interval of a bootstrap over failures.
        ratings: number of answers with each rating, from 1 to 10.
        classes, numbers, together: the classes that were marked, how many in one answer, and which two together. A row
            has a ``name``, the number of ``answers``, and their ``share`` with the bounds ``low`` and ``high``.
        rules: association rules, see :func:`find_rules`.
        agreements: a row per number of a failure: ``metric``; its rank correlation ``spearman`` with the mean ratings,
            with ``low`` and ``high``, NaN if there is none; ``higher_is_better``; the number of ``pairs`` that have it;
            the ``reason`` for what is missing; and ``verdict``, whether the interval shows that people agree.
        known: rater to the answers to known pairs.
        alpha: Krippendorff's, of the ratings; None if it is undefined.
        alpha_pairs: failures that two raters or more rated.
    """

    pairs: int
    raters: int
    answers: int
    mean_rating: float
    mean_rating_low: float
    mean_rating_high: float
    ratings: tuple[int, ...]
    classes: pd.DataFrame
    numbers: pd.DataFrame
    together: pd.DataFrame
    rules: pd.DataFrame
    agreements: pd.DataFrame
    known: Mapping[str, KnownAnswers]
    alpha: float | None
    alpha_pairs: int
    provenance: Provenance

    @property
    def title(self) -> str:
        """What the page is called."""
        return "Ratings of failures"

    def record(self) -> dict[str, object]:
        """All numbers."""
        content = {"schema": RATINGS_SCHEMA, **asdict(self), "provenance": to_json(self.provenance)}
        for name in ("classes", "numbers", "together", "rules"):
            content[name] = getattr(self, name).to_dict("records")
        agreements = self.agreements.drop(columns="verdict").astype(object)
        content["agreements"] = agreements.where(agreements.notna(), None).to_dict("records")
        return content

    def tables(self) -> list[Table]:
        """The console tables."""
        level = f"{100 * CONFIDENCE:g}%"
        counts = f"{self.answers:,} answers of {self.raters:,} raters on {self.pairs:,} failures"
        mean = interval_cell(self.mean_rating, self.mean_rating_low, self.mean_rating_high, "{:.2f}")
        numbers = [f"{row['name']} in {_show_share(row)}" for row in self.numbers.to_dict("records")]
        tables = [
            self._raters,
            Table(
                [("Marked",), ("% of answers",), ("Answers",)],
                _share_rows(self.classes),
                "What went wrong",
                counts,
                notes=[
                    f"Mean rating {mean} of {MOST}. Brackets: {level} intervals from a bootstrap over failures.",
                    f"Marked in one answer: {', '.join(numbers)}.",
                ],
            ),
        ]
        if len(self.together):
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
        header = [("Marked together",), ("% of answers",), ("Answers",)]
        return Table(header, _share_rows(self.together), "Classes together")

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
            for rule in self.rules[:RULES_SHOWN].itertuples()
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
        notes = []
        best = None
        for row in self.agreements.itertuples():
            title = _title_metric(row.metric)
            value: str | Cell = MISSING
            if not np.isnan(row.spearman):
                value = interval_cell(row.spearman, row.low, row.high, "{:.2f}")
                value = Cell(value.text) if np.isnan(row.low) else value
            wanted = "above 0" if row.higher_is_better else "below 0"
            rows.append((title, value, wanted, f"{row.pairs:,}", MISSING if self.no_verdict else row.verdict))
            if row.reason:
                notes.append(f"{title}: {row.reason}.")
            if row.verdict == AGREES and (best is None or abs(row.spearman) > abs(best.spearman)):
                best = row
        if self.no_verdict:
            headline = f"No verdict: {self.no_verdict}."
        elif best is None:
            headline = "No number demonstrably agrees with people."
        else:
            headline = f"{_title_metric(best.metric)} agrees best."
        return Table(
            [("Number",), ("Spearman",), ("Wanted",), ("Failures",), ("With people",)],
            rows,
            "Which number agrees with people",
            "rank correlation with the mean rating of a failure",
            notes=[
                f"{headline} Brackets: {level} intervals from a bootstrap over failures; one that contains 0 shows "
                "nothing. Each number is correlated over the failures that have it.",
                *notes,
            ],
        )


def _title_metric(name: str) -> str:
    title = metrics()[name.removesuffix(INFORMED)].title
    return f"{title}, informed" if name.endswith(INFORMED) else title


def _share_rows(shares: pd.DataFrame) -> list[tuple[str, str, str]]:
    return [(row["name"], _show_share(row), f"{row['answers']:,}") for row in shares.to_dict("records")]


def _show_share(row: Mapping[str, Any]) -> str:
    return str(interval_cell(row["share"], row["low"], row["high"], scale=100))


def report_ratings(
    answers: pd.DataFrame,
    known: Mapping[str, KnownAnswers],
    explained: pa.Table,
    *,
    provenance: Provenance | None = None,
) -> RatingsReport:
    """Report what was marked, what was marked together, and which of the four numbers agrees with the ratings.

    ``answers`` and ``known`` are those of :func:`read_ratings`.
    """
    draws = Draws(SEED)
    pairs, pair_ids = pd.factorize(answers["pair_id"], sort=True)
    marks = answers[list(CLASSES)]
    n_marked = marks.sum(axis=1)
    numbers = {f"{number} class{'' if number == 1 else 'es'}": n_marked == number for number in np.unique(n_marked)}
    both = {f"{first} + {other}": marks[first] & marks[other] for first, other in combinations(CLASSES, 2)}
    together = _measure_shares({name: given for name, given in both.items() if given.any()}, pairs, draws)
    ratings = answers["rating"].to_numpy()
    mean_rating = bootstrap_mean(ratings, pairs, draws, CONFIDENCE)
    mean_ratings = np.bincount(pairs, weights=ratings) / np.bincount(pairs)
    alpha, alpha_pairs = _measure_alpha(pairs, ratings)
    return RatingsReport(
        pairs=len(pair_ids),
        raters=answers["worker"].nunique(),
        answers=len(answers),
        mean_rating=mean_rating.value,
        mean_rating_low=mean_rating.low,
        mean_rating_high=mean_rating.high,
        ratings=tuple(np.bincount(ratings, minlength=MOST + 1)[LEAST:].tolist()),
        classes=_measure_shares({name: marks[name] for name in CLASSES}, pairs, draws),
        numbers=_measure_shares(numbers, pairs, draws),
        together=together.sort_values(["answers", "name"], ascending=[False, True]),
        rules=find_rules(marks.to_numpy()),
        agreements=_correlate(mean_ratings, list(pair_ids), explained, draws),
        known=known,
        alpha=alpha,
        alpha_pairs=alpha_pairs,
        provenance=Intervals(confidence=CONFIDENCE, seed=SEED).record(provenance or Provenance()),
    )


def _measure_shares(given: Mapping[str, pd.Series], pairs: IntArray, draws: Draws) -> pd.DataFrame:
    """The share of the answers that are given, with the interval of a bootstrap over pairs: a row per name."""
    rows = []
    for name, is_given in given.items():
        share = bootstrap_mean(is_given, pairs, draws, CONFIDENCE)
        rows.append((name, int(is_given.sum()), share.value, share.low, share.high))
    return pd.DataFrame(rows, columns=["name", "answers", "share", "low", "high"])


def _measure_alpha(pairs: IntArray, ratings: IntArray) -> tuple[float | None, int]:
    """Krippendorff's alpha of the ratings, None if it is undefined, and the number of failures with several."""
    several = np.bincount(pairs)[pairs] > 1
    items = np.unique(pairs[several], return_inverse=True)[1]
    n_pairs = int(np.unique(items).size)
    if not n_pairs:
        return None, 0
    try:
        return krippendorff_alpha(items, ratings[several].astype(np.float64), "interval"), n_pairs
    except DataError:
        return None, n_pairs


RULE = ["antecedents", "consequents", "answers", "support", "confidence", "lift"]


def find_rules(marks: NDArray[np.bool_]) -> pd.DataFrame:
    """All association rules between classes that any answer supports, by descending number of answers.

    Returns:
        A row per rule: answers that mark the ``antecedents`` also mark the ``consequents``, tuples of classes; the
        number of ``answers`` with both, their share ``support``, ``confidence`` and ``lift``.
    """
    require("mlxtend", "explain", "association rules need")
    from mlxtend.frequent_patterns import apriori, association_rules

    answers = pd.DataFrame(marks, columns=list(CLASSES))
    # A support of half an answer keeps every combination that occurs.
    sets = apriori(answers, min_support=0.5 / len(marks), use_colnames=True)
    rules = association_rules(sets, num_itemsets=len(marks), metric="support", min_threshold=0.0)
    for side in ("antecedents", "consequents"):
        rules[side] = [_in_order(classes) for classes in rules[side]]
    rules["answers"] = (rules["support"] * len(marks)).round().astype(np.int64)
    rules = rules.sort_values(["antecedents", "consequents"], kind="stable")
    rules = rules.sort_values(["answers", "confidence"], ascending=False, kind="stable")
    return rules[RULE].reset_index(drop=True)


def _in_order(classes: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in CLASSES if name in classes)


AGREES = "agrees"


def _correlate(mean_ratings: FloatArray, pair_ids: Sequence[str], explained: pa.Table, draws: Draws) -> pd.DataFrame:
    """Spearman's rho of every number with the (P,) mean ratings, over the failures that have it."""
    rows = {pair_id: row for row, pair_id in enumerate(name_failures(explained))}
    rated_rows = explained.take([rows[pair_id] for pair_id in pair_ids])
    agreements = []
    for metric in CORRELATED:
        values = rated_rows[metric].to_numpy()
        there = np.flatnonzero(np.isfinite(values))
        spearman, low, high, reason = _correlate_values(values[there], mean_ratings[there], draws)
        higher_is_better = metrics()[metric.removesuffix(INFORMED)].higher_is_better
        agreements.append(
            {
                "metric": metric,
                "spearman": spearman,
                "low": low,
                "high": high,
                "higher_is_better": higher_is_better,
                "pairs": there.size,
                "reason": reason,
                "verdict": _judge(low, high, higher_is_better=higher_is_better),
            }
        )
    return pd.DataFrame(agreements)


def _correlate_values(values: FloatArray, ratings: FloatArray, draws: Draws) -> tuple[float, float, float, str]:
    """Spearman's rho of (P,) values and ratings and its bounds, NaN if there is none, and the reason for that."""
    nothing = (np.nan, np.nan, np.nan)
    if not values.size:
        return *nothing, "no failure has this number"
    if np.unique(values).size < 2:
        return *nothing, "the number is the same for every failure that has one"
    if np.unique(ratings).size < 2:
        return *nothing, "the mean rating is the same for every failure that has one"
    places = np.arange(values.size)
    coded = CodedPairs.of(RatedPairs(places, places, ratings), values)
    rho = float(coded.spearman([places[None]])[0])
    drawn = np.stack([np.repeat(places, times) for times in draws.times(values.size)])
    try:
        low, high = interval(coded.spearman([drawn]), CONFIDENCE)
    except (DataError, MalformedRun):
        return rho, np.nan, np.nan, "no interval: with so few failures, some bootstrap samples have equal values only"
    return rho, low, high, ""


def _judge(low: float, high: float, *, higher_is_better: bool) -> str:
    """Whether the interval of a correlation shows that people agree."""
    if np.isnan(low):
        return MISSING
    if low <= 0 <= high:
        return "not shown"
    return AGREES if (low > 0) == higher_is_better else "contradicts"
