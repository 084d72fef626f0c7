"""From ranks to a report, whatever gave the ranks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation.bootstrap import Draws
from cxc_eccv.evaluation.plan import plan_of
from cxc_eccv.evaluation.provenance import provenance_of
from cxc_eccv.evaluation.scoring import Scorer
from cxc_eccv.registry import task
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Judgments, PositiveRanks, Report, Result

__all__ = ["SPLITS", "check_options", "report_of_ranks"]

SPLITS = ("train", "restval", "validation", "test")
TIED_SHARE = 0.1

Ranked = Mapping[str, tuple[Judgments, PositiveRanks]]


def report_of_ranks(
    ranked: Ranked,
    library: Library,
    split: str,
    *,
    metrics: Sequence[str] | None = None,
    seed: int = 0,
    confidence: float | None = 0.95,
    skipped: Mapping[str, str] | None = None,
    **provenance: Any,  # noqa: ANN401 - recorded as they are
) -> Report:
    """Score ranks and report them.

    Args:
        ranked: ``task/direction`` to the judgments and the ranks of their positives.
        library: the raw sources the judgments came from.
        split: of the judgments.
        metrics: names (``recall_at_k``, ``recall_at_20``, ``median_rank``); None for each task's own.
        seed: of the bootstrap behind the intervals.
        confidence: of the intervals; None for no intervals.
        skipped: task or task/direction to the reason why it is not among ``ranked``.
        **provenance: further entries of the provenance, for example ``model``.

    Raises:
        UnknownName: no such task, metric or split.
        InvalidOption: an option out of range.

    Example:
        >>> library = Library("sample")
        >>> judgments = task("coco_5k").judgments(library, "test", "i2t")
        >>> first = PositiveRanks.of([[1, 2, 3, 4, 5]] * judgments.query_ids.size)
        >>> report = report_of_ranks({"coco_5k/i2t": (judgments, first)}, library, "test", model="ideal")
        >>> report.scores["coco_5k/i2t/recall_at_1"]
        1.0
    """
    check_options(split, seed, confidence)
    _warn_of_ties(ranked)
    scorer = Scorer(library, split, None if confidence is None else Draws(seed), confidence)
    results: list[Result] = []
    reasons = dict(skipped or {})
    with threadpool_limits(1, user_api="blas"):
        for name in dict.fromkeys(key.partition("/")[0] for key in ranked):
            rows, lacking = _results(name, ranked, scorer, metrics)
            results += rows
            reasons |= lacking
    facts = provenance_of(library, split=split, seed=seed, confidence=confidence, **provenance)
    return Report(tuple(results), reasons, facts)


def check_options(split: str, seed: int, confidence: float | None) -> None:
    """Refuse options out of range before any work is done.

    Raises:
        UnknownName: no such split.
        InvalidOption: a negative seed, or a confidence that is not between 0 and 1.

    Example:
        >>> check_options("test", 0, 0.95)
    """
    if split not in SPLITS:
        raise UnknownName("split", split, SPLITS)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InvalidOption(f"seed is {seed!r}, expected a whole number of at least 0")
    if confidence is not None and not 0 < confidence < 1:
        raise InvalidOption(f"confidence is {confidence!r}, expected a number between 0 and 1, as 0.95")


def _results(
    name: str, ranked: Ranked, scorer: Scorer, metrics: Sequence[str] | None
) -> tuple[list[Result], dict[str, str]]:
    """Rows of one task, and the metrics over all its directions that lack one."""
    declared = task(name)
    plan = plan_of(declared, metrics)
    scored = {
        direction: scorer.direction(name, direction, ranked[f"{name}/{direction}"][1], plan.variants)
        for direction in declared.directions
        if f"{name}/{direction}" in ranked
    }
    rows = [row.result for per_direction in scored.values() for row in per_direction if row.variant.shown]
    lacking = [direction for direction in declared.directions if direction not in scored]
    if lacking:
        return rows, {f"{name}/{spec.name}": f"needs {' and '.join(lacking)} too" for spec in plan.whole}
    return rows + [scorer.whole(name, spec, list(scored.values())) for spec in plan.whole], {}


def _warn_of_ties(ranked: Ranked) -> None:
    """Say so when a model gives many items the same score; a few equal captions are no cause for alarm."""
    for key, (_, ranks) in ranked.items():
        decided = int(np.count_nonzero(ranks.ties > TIED_SHARE * ranks.n_gallery))
        if decided > TIED_SHARE * ranks.ties.size:
            warnings.warn(
                f"{key}: {decided} of {ranks.ties.size} queries are decided by ties: more than {TIED_SHARE:.0%} of "
                "the gallery scores exactly as high as a positive, and each of these items counts as ranked above it",
                stacklevel=4,
            )
