"""Where the processor time of an evaluation goes: functions are wrapped, each thread tells what it spent in them."""

from __future__ import annotations

import functools
import importlib
import resource
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

__all__ = ["Stages"]

WRAPPED = {
    "the product": ("ranking.scores:Product.fill", "ranking.by_vectors:HalfProduct.fill"),
    "vectors of unit length": ("ranking.by_vectors:prepare", "ranking.scores:find_leaders"),
    "counting rows": ("ranking.counts:RowPairs.read", "ranking.by_vectors:MutualPairs._count"),
    "pairs laid out": (
        "ranking.by_vectors:count_both",
        "ranking.by_vectors:count_within",
        "ranking.by_vectors:MutualPairs.__init__",
        "ranking.by_vectors:MutualPairs.resolve",
    ),
    "counting columns": (
        "ranking.readers.columns:ColumnPairs.read",
        "ranking.readers.columns:ColumnPairs.record",
        "ranking.readers.columns:ColumnPairs.resolve",
        "ranking.readers.columns:pair_products",
    ),
    "plausible matches": (
        "ranking.readers.rows:PlausibleRows.read",
        "ranking.readers.rows:PlausibleRows.take",
    ),
    "best of rows": ("ranking.readers.rows:TopRows.read", "ranking.readers.rows:TopRows.take"),
    "best of columns": (
        "ranking.readers.columns:ColumnReaders.__init__",
        "ranking.readers.columns:ColumnReaders.read",
        "ranking.readers.columns:ColumnReaders.finish",
        "ranking.readers.columns:BestOfColumns.lists",
    ),
    "counts to ranks": ("ranking.ranked:rank_positives",),
    "judgments": ("evaluation.calls:make_plan", "ranking.counts:MergedJudgments.of"),
    "checks of the run": ("evaluation.calls:find_faults", "evaluation.make_report:describe_run"),
    "bootstrap": (
        "statistics.intervals:ClusterBootstrap.__init__",
        "statistics.intervals:ClusterBootstrap.means",
        "statistics.intervals:ClusterBootstrap.medians",
        "statistics.intervals:interval",
    ),
    "correlations": (
        "ranking.by_vectors:compare_pairs",
        "evaluation.metric_inputs.row_inputs:SimilarityResult.compute_values",
    ),
    "ties both ways": (
        "ranking.readers.rows:TopRows._keep_if_ties_help",
        "evaluation.metric_inputs.row_inputs:TopResult._find_values_if_ties_help",
    ),
    "chance and doubts": (
        "evaluation.metric_inputs.rank_input:_find_random_orders",
        "evaluation.metric_inputs.rank_input:RankResult.expect_by_chance",
        "evaluation.calls:find_doubts",
    ),
    "report": ("evaluation.calls:make_report",),
    "imports of tasks and metrics": ("registry:task", "evaluation.plan:tasks", "evaluation.plan:choose_metrics"),
    "libraries of threads found": ("ranking.scores:_libraries",),
    "values of queries": (
        "evaluation.metric_inputs.rank_input:RankResult.compute_values",
        "evaluation.metric_inputs.row_inputs:TopResult.compute_values",
    ),
}
"""Stage to functions, each ``module:name`` as it is called; time in an inner stage is the inner one's alone."""


class Stages:
    """Processor time of every stage, in seconds, with the part that the system took, mostly to clear fresh memory."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._inner = threading.local()
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Wrap all functions; what another version of the package lacks is said, and counts as the rest."""
        for stage, paths in WRAPPED.items():
            for path in paths:
                module_name, name = path.split(":")
                try:
                    owner = importlib.import_module(f"cxc_eccv.{module_name}")
                    *outer, last = name.split(".")
                    for part in outer:
                        owner = getattr(owner, part)
                    found = vars(owner)[last]
                except (ImportError, AttributeError, KeyError):
                    print(f"{stage}: no {path} here", file=sys.stderr)
                    continue
                if isinstance(found, classmethod):
                    setattr(owner, last, classmethod(self._timed(stage, found.__func__)))
                else:
                    setattr(owner, last, self._timed(stage, found))

    def shares(self, whole: tuple[float, float]) -> dict[str, tuple[float, float]]:
        """Seconds of each stage, and of these the system's; the rest of the whole last, so that they add up to it."""
        rest = [total - sum(own[part] for own in self.spent.values()) for part, total in enumerate(whole)]
        return {name: (own[0], own[1]) for name, own in {**self.spent, "all the rest": rest}.items()}

    def _timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it takes and gives
            outer = getattr(self._inner, "spent", None)
            inner = self._inner.spent = [0.0, 0.0]
            start = thread_time()
            try:
                return function(*arguments, **options)
            finally:
                taken = [after - before for before, after in zip(start, thread_time(), strict=True)]
                with self._lock:
                    for part in range(2):
                        self.spent[stage][part] += taken[part] - inner[part]
                        if outer is not None:
                            outer[part] += taken[part]
                self._inner.spent = outer

        return timed


def thread_time() -> tuple[float, float]:
    """Processor time of this thread, and the system's part of it."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_utime + usage.ru_stime, usage.ru_stime
