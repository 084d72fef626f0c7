"""Where the processor time of an evaluation goes: functions are wrapped, each thread tells what it spent in them."""

from __future__ import annotations

import functools
import importlib
import resource
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

__all__ = ["Stages"]

RANKING = "cxc_eccv.ranking"
WRAPPED = {
    "the product": (f"{RANKING}.scores.product:Product.fill", f"{RANKING}.scores.half_product:HalfProduct.fill"),
    "vectors of unit length": (
        f"{RANKING}.scores.vectors:prepare",
        f"{RANKING}.scores.product:twins_of",
        f"{RANKING}.scores.half_product:first_twins",
    ),
    "counting rows": (f"{RANKING}.readers.row_pairs:RowPairs.read",),
    "counting columns": (
        f"{RANKING}.readers.columns:ColumnPairs.read",
        f"{RANKING}.readers.columns:ColumnPairs.resolve",
        f"{RANKING}.readers.columns:pair_products",
    ),
    "plausible matches": (
        f"{RANKING}.readers.rows:PlausibleRows.read",
        f"{RANKING}.readers.rows:PlausibleRows.take",
    ),
    "best of rows": (f"{RANKING}.readers.top_rows:TopRows.read", f"{RANKING}.readers.top_rows:TopRows.take"),
    "best of columns": tuple(
        f"{RANKING}.readers.columns:{name}"
        for name in ("ColumnReaders.__init__", "ColumnReaders.read", "ColumnReaders.finish", "DeepColumns.lists")
    ),
    "counts to ranks": (f"{RANKING}.rank:rank_positives",),
    "judgments": ("cxc_eccv.evaluation.calls:select", f"{RANKING}.merged_judgments:MergedJudgments.of"),
    "bootstrap": tuple(
        f"cxc_eccv.evaluation.{name}"
        for name in (
            "intervals:ClusterBootstrap.__init__",
            "intervals:ClusterBootstrap.means",
            "intervals:ClusterBootstrap.medians",
            "score:interval",
        )
    ),
}
"""Stage to functions, each ``module:name`` as it is called; the time of a stage within another counts for it alone."""


class Stages:
    """Processor time of every stage, in seconds, with the part that the system took, mostly to clear fresh memory."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._inner, self._lock = threading.local(), threading.Lock()

    def watch(self) -> None:
        """Wrap all functions; one that another version of the package lacks is left out."""
        for stage, paths in WRAPPED.items():
            for path in paths:
                module_name, name = path.split(":")
                try:
                    owner = importlib.import_module(module_name)
                    *outer, last = name.split(".")
                    for part in outer:
                        owner = getattr(owner, part)
                    found = vars(owner)[last]
                except (ImportError, AttributeError, KeyError):
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
