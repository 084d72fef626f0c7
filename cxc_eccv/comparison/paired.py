"""compare: differences between models, tested metric by metric."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cxc_eccv.comparison.difference import Comparison, Difference, Settings
from cxc_eccv.comparison.pairing import Pair, pair_up
from cxc_eccv.comparison.protocol import check_comparable, notes_on
from cxc_eccv.comparison.resampling import paired_samples
from cxc_eccv.comparison.scored_report import ScoredReport
from cxc_eccv.comparison.significance import holm, least_p_value, two_sided_p_value
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.bootstrap import interval
from cxc_eccv.types import FloatArray

__all__ = ["compare"]

FEWEST_SAMPLES = 100


def compare(
    baseline: ScoredReport,
    *others: ScoredReport,
    seed: int = 0,
    samples: int = 10_000,
    confidence: float = 0.95,
    progress: bool = True,
) -> Comparison:
    """Test every metric that a model shares with the baseline.

    A paired bootstrap over images: each sample draws images with replacement, takes all their queries, and scores
    both models on them. The interval is the percentile interval of the differences, the p-value is two-sided, and
    Holm's correction is over all metrics of all models compared.

    Args:
        baseline: what the others are compared with.
        *others: at least one.
        seed: of the draws.
        samples: bootstrap samples; 2 / (samples + 1) is the smallest p-value before correction.
        confidence: of the intervals.
        progress: show a bar when standard error is a terminal.

    Raises:
        InvalidOption: nothing to compare, reports of different data, splits or protocols, or an option out of range.
        DataError: the values of the queries are not those behind a report.

    Example:
        >>> from cxc_eccv.comparison import QueryValues
        >>> from cxc_eccv.types import Report, Result
        >>> facts = {"data": {"fingerprint": "f"}, "split": "test"}
        >>> def scored(name, values):
        ...     row = Result("coco_5k", "i2t", "recall_at_1", float(np.mean(values)), len(values))
        ...     queries = QueryValues.of(range(len(values)), values, range(len(values)))
        ...     return ScoredReport(name, Report((row,), {}, facts), {row.key: queries})
        >>> found = compare(scored("old", [0, 1, 0, 0] * 9), scored("new", [1, 1, 0, 0] * 9))
        >>> one = found.differences[0]
        >>> one.difference, one.better, one.worse, found.significant(one)
        (0.25, 9, 0, True)
    """
    settings = _checked(Settings(seed, samples, confidence), baseline, others)
    rows: list[Difference] = []
    left_out: dict[str, dict[str, str]] = {}
    for other in others:
        found, left_out[other.name] = _tested(baseline, other, settings, progress)
        rows += found
    corrected = holm([row.p_value for row in rows])
    rows = [replace(row, p_holm=p_holm) for row, p_holm in zip(rows, corrected, strict=True)]
    notes = [note for other in others for note in notes_on(baseline, other)] + _too_few_samples(settings, len(rows))
    names = tuple(other.name for other in others)
    return Comparison(baseline.name, names, settings, tuple(rows), left_out, tuple(notes))


def _tested(
    baseline: ScoredReport, other: ScoredReport, settings: Settings, progress: bool
) -> tuple[list[Difference], dict[str, str]]:
    """Uncorrected differences of one model, and the reasons why metrics are left out."""
    check_comparable(baseline, other)
    pairs, left_out = pair_up(baseline, other)
    if not pairs:
        reasons = "; ".join(dict.fromkeys(left_out.values()))
        raise InvalidOption(f"{baseline.name} and {other.name} share no metric that can be compared: {reasons}")
    drawn = paired_samples(pairs, settings.seed, settings.samples, progress=progress)
    names = baseline.name, other.name
    found = [_difference(pair, drawn[key], pairs, names, settings.confidence) for key, pair in pairs.items()]
    return found, left_out


def _checked(settings: Settings, baseline: ScoredReport, others: tuple[ScoredReport, ...]) -> Settings:
    if not others:
        raise InvalidOption(f"only {baseline.name} is given: a comparison needs at least two reports")
    names = [one.name for one in (baseline, *others)]
    if len(set(names)) < len(names):
        raise InvalidOption(f"models need different names, not {', '.join(names)}")
    if isinstance(settings.seed, bool) or not isinstance(settings.seed, int) or settings.seed < 0:
        raise InvalidOption(f"seed is {settings.seed!r}, expected a whole number of at least 0")
    if not isinstance(settings.samples, int) or settings.samples < FEWEST_SAMPLES:
        raise InvalidOption(f"samples is {settings.samples!r}, expected a whole number of at least {FEWEST_SAMPLES}")
    if not 0 < settings.confidence < 1:
        raise InvalidOption(f"confidence is {settings.confidence!r}, expected a number between 0 and 1, as 0.95")
    return settings


def _difference(
    pair: Pair,
    drawn: FloatArray,
    pairs: dict[str, Pair],
    names: tuple[str, str],
    confidence: float,
) -> Difference:
    differences = drawn[1] - drawn[0]
    low, high = interval(differences, confidence)
    gains = (pair.values[:, 1] - pair.values[:, 0]) * (1 if pair.spec.higher_is_better else -1)
    images = pairs[pair.parts[0]].images if pair.parts else pair.images
    old, new = pair.results
    p_value = two_sided_p_value(differences)
    return Difference(
        model=names[1],
        baseline=names[0],
        task=new.task,
        direction=new.direction,
        metric=new.metric,
        value=new.value,
        baseline_value=old.value,
        difference=new.value - old.value,
        low=low,
        high=high,
        p_value=p_value,
        p_holm=p_value,
        higher_is_better=pair.spec.higher_is_better,
        better=int(np.count_nonzero(gains > 0)),
        worse=int(np.count_nonzero(gains < 0)),
        n_queries=new.n_queries,
        n_images=int(np.unique(images).size),
    )


def _too_few_samples(settings: Settings, n_tests: int) -> list[str]:
    least = least_p_value(settings.samples) * n_tests
    if least < 1 - settings.confidence:
        return []
    return [
        f"{settings.samples} samples are too few for {n_tests} tests: the smallest corrected p-value they can give is "
        f"{least:.2g}; raise the number of samples"
    ]
