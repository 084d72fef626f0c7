"""From ranks to a report, whatever gave the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cxc_eccv.evaluation.from_measured import report_of_measured
from cxc_eccv.evaluation.measured import measured_ranks
from cxc_eccv.evaluation.plan import plan_of
from cxc_eccv.evaluation.requests import Request
from cxc_eccv.evaluation.settings import Settings, check_split
from cxc_eccv.evaluation.settled import Ranks
from cxc_eccv.registry import task
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Judgments, Report

__all__ = ["report_of_ranks"]


def report_of_ranks(
    ranked: Mapping[str, tuple[Judgments, Ranks]],
    library: Library,
    split: str,
    *,
    metrics: Sequence[str] | None = None,
    settings: Settings | None = None,
    skipped: Mapping[str, str] | None = None,
    **provenance: Any,  # noqa: ANN401 - recorded as they are
) -> Report:
    """Score ranks and report them, with those metrics that ranks suffice for.

    Args:
        ranked: ``task/direction`` to the judgments and the ranks of their positives.
        library: the raw sources the judgments came from.
        split: of the judgments.
        metrics: names (``recall_at_k``, ``recall_at_20``, ``median_rank``); None for each task's own.
        settings: seed, intervals, per-query values; None for the defaults.
        skipped: task or task/direction to the reason why it is not among ``ranked``.
        **provenance: further entries of the provenance, for example ``model``.

    Raises:
        UnknownName: no such task, metric or split.

    Example:
        >>> from cxc_eccv.types import PositiveRanks
        >>> library = Library("sample")
        >>> judgments = task("coco_5k").judgments(library, "test", "i2t")
        >>> first = PositiveRanks.of([[1, 2, 3, 4, 5]] * judgments.query_ids.size)
        >>> report = report_of_ranks({"coco_5k/i2t": (judgments, first)}, library, "test", model="ideal")
        >>> report.scores["coco_5k/i2t/recall_at_1"]
        1.0
    """
    check_split(split)
    measured = []
    for key, (judgments, ranks) in ranked.items():
        name, _, direction = key.partition("/")
        variants = plan_of(task(name), metrics).parts[direction]
        measured.append(measured_ranks(Request(task(name), direction, variants, {"ranks": judgments}), ranks))
    return report_of_measured(
        measured, library, split, settings or Settings(), metrics=metrics, skipped=skipped, **provenance
    )
