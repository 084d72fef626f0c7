"""compare: differences between models, tested metric by metric on common bootstrap samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tqdm import tqdm

from cxc_eccv import registry
from cxc_eccv.comparison.differences import FEWEST_SAMPLES, Comparison, ComparisonSettings, Difference
from cxc_eccv.comparison.model_ranks import ModelRank, rank_models
from cxc_eccv.comparison.pairing import (
    Pair,
    ScoredReport,
    check_comparable,
    collect_doubts,
    coverage_note,
    coverage_notes,
    list_doubts,
    notes_on,
    pair_up,
    training_notes,
)
from cxc_eccv.errors import InvalidOption
from cxc_eccv.report import Report
from cxc_eccv.statistics import (
    ClusterBootstrap,
    Draws,
    detectable_difference,
    draw_batches,
    enough_samples,
    holm,
    interval,
    least_p_value,
    queries_to_detect,
    two_sided_p_value,
)
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.wording import judge_caution, name_data


def compare(
    baseline: Report | ScoredReport,
    *others: Report | ScoredReport,
    seed: int = 0,
    samples: int | None = None,
    confidence: float = 0.95,
    metrics: str = "main",
    progress: bool = True,
) -> Comparison:
    """Test the differences between models and a baseline.

    The test is a paired bootstrap over images: each sample draws images with replacement, takes all their queries, and
    scores both models on them. The interval is the percentile interval of the differences, the p-value is two-sided,
    and Holm's correction is over all tests of all models: the main metric of each task in each direction, or all
    metrics with ``metrics="all"``.

    Args:
        baseline: a report with ``per_query``, or a result of :func:`load_reports`.
        *others: one or more models to compare with it.
        seed: seed of the bootstrap.
        samples: bootstrap samples; the smallest p-value before correction is 2 / (samples + 1). None for 10,000, or
            more if the number of tests needs them.
        confidence: confidence of the intervals; 1 minus it is the level of the tests.
        metrics: ``main`` for the main metric of each task, ``all`` for every metric that both reports have.
        progress: show a bar when standard error is a terminal.

    Raises:
        InvalidOption: there is nothing to compare, reports are of different data, splits or protocols, or an option is
            out of range.
        DataError: the values of single queries do not belong to a report.

    Example:
        >>> from cxc_eccv.comparison import QueryValues
        >>> from cxc_eccv.report import Report
        >>> from cxc_eccv.types import Result
        >>> from cxc_eccv.types.provenance import DataFacts, Provenance
        >>> facts = Provenance(data=DataFacts(fingerprint="f"), split="test")
        >>> def scored(name, values):
        ...     row = Result("coco_5k", "i2t", "recall_at_1", float(np.mean(values)), len(values))
        ...     queries = QueryValues.of(range(len(values)), values, range(len(values)))
        ...     return ScoredReport(name, Report((row,), {}, facts), {row.key: queries})
        >>> comparison = compare(scored("old", [0, 1, 0, 0] * 9), scored("new", [1, 1, 0, 0] * 9))
        >>> row = comparison.differences[0]
        >>> row.difference, row.better, row.worse, comparison.significant(row), comparison.settings.samples
        (0.25, 9, 0, True, 10000)
    """
    settings = ComparisonSettings(seed, FEWEST_SAMPLES if samples is None else samples, confidence, metrics)
    first, *rest = (
        ScoredReport.of(model.name, model) if isinstance(model, Report) else model for model in (baseline, *others)
    )
    _check_names([first.name, *(other.name for other in rest)])
    plans = {other.name: _plan(first, other, metrics) for other in rest}
    n_tests = sum(len(plan.tested) for plan in plans.values())
    if samples is None:
        settings = replace(settings, samples=enough_samples(n_tests, settings.level))
    n_ranked = len({key for plan in plans.values() for key in plan.tested if registry.is_main(key)})
    by_model: dict[tuple[str, str], Difference] = {}
    ranks: list[ModelRank] = []
    for key, others_of_key, drawn in _draw(plans, settings, progress=progress):
        for place, name in enumerate(others_of_key, 1):
            pair = plans[name].pairs[key]
            by_model[name, key] = _difference(pair, drawn[[0, place]], (first.name, name), settings, n_tests)
        if registry.is_main(key):
            joined = Pair.join([plans[name].pairs[key] for name in others_of_key])
            rank_confidence = 1 - settings.level / n_ranked
            names = (first.name, *others_of_key)
            ranks += rank_models(joined, drawn, names, rank_confidence, settings.confidence)
    rows = [by_model[name, key] for name, plan in plans.items() for key in plan.tested]
    corrected = holm([row.p_value for row in rows])
    rows = [replace(row, p_holm=p_holm) for row, p_holm in zip(rows, corrected, strict=True)]
    of_pairs = [note for other in rest for note in (*notes_on(first, other), *coverage_notes(first, other))]
    notes = [*dict.fromkeys(note for plan in plans.values() for note in plan.notes), *_too_few(settings, n_tests)]
    compared = {row.key for row in rows}
    caution = judge_caution((row for row in first.report.results if row.key in compared), first.report.provenance.split)
    notes += [caution] if caution else []
    trained_on = training_notes([first, *rest])
    return Comparison(
        baseline=first.name,
        models=tuple(plans),
        settings=settings,
        differences=tuple(rows),
        not_compared={name: plan.left_out for name, plan in plans.items()},
        notes=(*list_doubts([first, *rest]), *trained_on, *of_pairs, *notes),
        data=name_data(first.report.results, first.report.provenance),
        ranks=tuple(ranks),
        labels=first.report.labels,
        brief_notes=(*trained_on, *notes_on(first, *rest), *coverage_note(first, *rest), *notes),
        doubts=collect_doubts({model.name: model.report for model in (first, *rest)}),
    )


def _check_names(names: Sequence[str]) -> None:
    if len(names) < 2:
        raise InvalidOption(f"{names[0]} is the only report; a comparison needs at least two")
    if len(set(names)) < len(names) or not all(names):
        raise InvalidOption(
            f"models need different names, not {', '.join(map(repr, names))}; ScoredReport.of(name, report) gives one"
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    # The pairs hold the parts of metrics over a whole task too.
    pairs: Mapping[str, Pair]
    tested: tuple[str, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...] = ()


def _plan(baseline: ScoredReport, other: ScoredReport, metrics: str) -> _Plan:
    check_comparable(baseline, other)
    pairs, left_out = pair_up(baseline, other)
    if not pairs:
        reasons = "; ".join(dict.fromkeys(left_out.values()))
        raise InvalidOption(f"{baseline.name} and {other.name} share no metric that can be compared: {reasons}")
    if metrics == "all":
        tested = baseline.report.without_repeats(pairs)
        return _Plan(pairs, tuple(tested), left_out, _note_repeats(pairs, tested))
    mains = [key for key in pairs if registry.is_main(key)]
    tested = baseline.report.without_repeats(mains)
    left_out = {key: reason for key, reason in left_out.items() if registry.is_main(key)}
    if not tested:
        lacking = "".join(f"; {key}: {reason}" for key, reason in left_out.items())
        raise InvalidOption(
            f"{baseline.name} and {other.name} share no main metric of a task{lacking}. To test their other metrics, "
            'add --all-metrics (in Python metrics="all").'
        )
    needed = dict.fromkeys([*tested, *(part for key in tested for part in pairs[key].parts)])
    untested = sorted(_tasks(pairs) - _tasks(mains) - _tasks(left_out))
    notes = [f"{task} is not tested: its main metric is in neither report" for task in untested]
    notes += _note_repeats(mains, tested)
    return _Plan({key: pairs[key] for key in pairs if key in needed}, tuple(tested), left_out, tuple(notes))


def _note_repeats(keys: Iterable[str], tested: Sequence[str]) -> tuple[str, ...]:
    parts = dict.fromkeys(key.rpartition("/")[0] for key in keys if key not in tested)
    return (f"not tested again, as queries and positives are those of another task: {', '.join(parts)}",) * bool(parts)


def _tasks(keys: Iterable[str]) -> set[str]:
    return {key.split("/")[0] for key in keys}


def _draw(
    plans: Mapping[str, _Plan], settings: ComparisonSettings, *, progress: bool
) -> Iterator[tuple[str, list[str], FloatArray]]:
    """Each key, the models that have it beside the baseline, and the (M, S) drawn scores, the baseline's first."""
    by_models: dict[tuple[str, ...], list[str]] = {}
    for key in dict.fromkeys(key for plan in plans.values() for key in plan.tested):
        by_models.setdefault(tuple(name for name, plan in plans.items() if key in plan.tested), []).append(key)
    for names, keys in by_models.items():
        at_once = max(1, MOST_DRAWN // (settings.samples * (1 + len(names))))
        for chunk in (keys[start : start + at_once] for start in range(0, len(keys), at_once)):
            needed = dict.fromkeys(part for key in chunk for part in (*plans[names[0]].pairs[key].parts, key))
            pairs = {part: Pair.join([plans[name].pairs[part] for name in names]) for part in needed}
            drawn = paired_samples(pairs, settings, progress=progress)
            for key in chunk:
                yield key, list(names), drawn.pop(key)


def _difference(
    pair: Pair, drawn: FloatArray, names: tuple[str, str], settings: ComparisonSettings, n_tests: int
) -> Difference:
    """The difference in one metric from (2, S) drawn scores, before Holm's correction."""
    differences = drawn[1] - drawn[0]
    low, high = interval(differences, settings.confidence)
    better, worse = pair.count_changes()
    old, new = pair.results
    p_value = two_sided_p_value(differences)
    detectable = detectable_difference(float(differences.std()), settings.level / n_tests)
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
        better=better,
        worse=worse,
        n_queries=new.n_queries,
        n_images=pair.n_images,
        detectable=detectable,
        queries_needed=queries_to_detect(new.value - old.value, detectable, new.n_queries),
    )


def _too_few(settings: ComparisonSettings, n_tests: int) -> list[str]:
    least = least_p_value(settings.samples) * n_tests
    if least < settings.level:
        return []
    needed = int(round(2 * n_tests / settings.level, 6))  # the first S with 2 / (S + 1) times the tests under the level
    return [
        f"no difference can be significant: with {settings.samples:,} samples and {n_tests} tests, the smallest "
        f"corrected p-value is {least:.2g}, and the level is {settings.level:.2g}. Use at least {needed:,} samples, or "
        "leave out --samples"
    ]


MOST_DRAWN = 2**25
"""Scores kept at once, which limits the memory."""


def paired_samples(
    pairs: Mapping[str, Pair], settings: ComparisonSettings, *, images: IntArray | None = None, progress: bool = False
) -> dict[str, FloatArray]:
    """Key to (M, S) scores of the models on S bootstrap samples of images; all metrics share the samples.

    ``images`` are the images to draw from; None for those of each metric.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993; Koehn, Statistical significance tests for machine
        translation evaluation, EMNLP 2004 (paired).
    """
    groups = _by_images(pairs, images)
    hidden = None if progress else True
    with tqdm(total=settings.samples, desc="comparing", unit="sample", leave=False, disable=hidden) as bar:
        batches = []
        for draws in draw_batches(settings.seed, settings.samples):
            batches.append(_batch(groups, pairs, draws))
            bar.update(draws.samples)
    drawn = {key: np.concatenate([batch[key] for batch in batches], axis=-1) for key in batches[0]}
    whole = {
        key: np.asarray(pair.spec.function(np.stack([drawn[part] for part in pair.parts], axis=-1)))
        for key, pair in pairs.items()
        if pair.parts
    }
    return drawn | whole


Group = tuple[IntArray, IntArray, list[str]]


def _by_images(pairs: Mapping[str, Pair], images: IntArray | None) -> list[Group]:
    """Images behind queries, images to draw from, and the keys that share both: each group is resampled once."""
    among = {part: pair.images for pair in pairs.values() for part in pair.parts}
    groups: dict[tuple[bytes, bytes], Group] = {}
    for key, pair in pairs.items():
        if not pair.parts:
            drawn = among.get(key, pair.images) if images is None else images
            same = pair.images.tobytes(), np.unique(drawn).tobytes()
            groups.setdefault(same, (pair.images, drawn, []))[2].append(key)
    return list(groups.values())


def _batch(groups: Sequence[Group], pairs: Mapping[str, Pair], draws: Draws) -> dict[str, FloatArray]:
    drawn: dict[str, FloatArray] = {}
    for images, among, keys in groups:
        bootstrap = ClusterBootstrap(images, draws, among)
        medians = [key for key in keys if pairs[key].spec.aggregate == "median"]
        means = [key for key in keys if key not in medians]
        for key in medians:
            drawn[key] = np.stack([bootstrap.medians(column, pairs[key].folds) for column in pairs[key].values.T])
        if means:
            scores = bootstrap.means(np.concatenate([pairs[key].values for key in means], axis=1))
            drawn |= dict(zip(means, scores.reshape(len(means), -1, draws.samples), strict=True))
    return drawn
