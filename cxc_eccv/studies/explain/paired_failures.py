"""Two models' failures side by side, query by query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.studies.explain.explanation import NUMBERS, Explained, Explanation
from cxc_eccv.types import FloatArray, IntArray, check_whole

__all__ = ["Paired", "compare_failures", "refuse_other_queries"]

SHARES = ("failed_alone", "baseline_failed_alone")


@dataclass(frozen=True, slots=True)
class Paired:
    """One number of two models' failures over the same queries, the model's minus the baseline's, with its interval.

    The key is ``direction/name``. ``failure_rate`` is the share of failed queries, over all queries; ``failed_alone``
    and ``baseline_failed_alone`` are the shares of all queries that one of the two alone fails; any other name is the
    mean of a number over the queries that both fail, and on which it is defined for both.
    """

    model: str
    baseline: str
    key: str
    value: float
    low: float
    high: float
    n_queries: int
    n_images: int

    @property
    def is_share(self) -> bool:
        """Whether it is a share of the queries, and no difference."""
        return self.key.rpartition("/")[2] in SHARES


def compare_failures(
    baseline: Explanation, model: Explanation, *, seed: int = 0, confidence: float = 0.95
) -> list[Paired]:
    """Compare two models' failures over the queries that both were asked.

    A direction that one of the two cannot be ranked in has no rows, and neither has a number that is defined for both
    on no query that both fail. Intervals are percentiles of a bootstrap over images.
    """
    check_whole("seed", seed, 0)
    if (baseline.split, baseline.provenance["concepts"]) != (model.split, model.provenance["concepts"]):
        raise InvalidOption(f"{baseline.model} and {model.model} are explained by other splits or concepts")
    refuse_other_queries(
        {
            explanation.model: {name: it.failures.asked_ids for name, it in explanation.directions.items()}
            for explanation in (baseline, model)
        }
    )
    draws, rows = Draws(seed), []
    for direction in (name for name in baseline.directions if name in model.directions):
        for name, values, images in _pair_up(baseline.directions[direction], model.directions[direction]):
            low, high = interval(ClusterBootstrap(images, draws).means(values[:, None])[0], confidence)
            sizes = values.size, int(np.unique(images).size)
            key, value = f"{direction}/{name}", float(values.mean())
            rows.append(Paired(model.model, baseline.model, key, value, low, high, *sizes))
    return rows


def refuse_other_queries(asked: Mapping[str, Mapping[str, IntArray]]) -> None:
    """Refuse models that are asked other queries than the first one, in a direction that both have."""
    (baseline, first), *others = asked.items()
    for model, queries in others:
        for direction in (name for name in first if name in queries):
            if not np.array_equal(first[direction], queries[direction]):
                raise InvalidOption(
                    f"{baseline} and {model} are asked different {direction} queries, {first[direction].size:,} and "
                    f"{queries[direction].size:,}. Give runs of the same images, and of query-corpus rankings of one "
                    "--query-position."
                )


def _pair_up(baseline: Explained, model: Explained) -> Iterator[tuple[str, FloatArray, IntArray]]:
    """Name, value of each query, and its image, of all that is compared."""
    asked, images = baseline.failures.asked_ids, baseline.failures.asked_images
    failed, fails = (np.isin(asked, explained.failures.query_ids) for explained in (baseline, model))
    yield "failure_rate", fails.astype(np.float64) - failed, images
    yield "failed_alone", (fails & ~failed).astype(np.float64), images
    yield "baseline_failed_alone", (failed & ~fails).astype(np.float64), images
    both = failed & fails  # failures stand in the order of all queries, of either model
    rows, places = (np.isin(side.failures.query_ids, asked[both]) for side in (baseline, model))
    for name in NUMBERS:
        differences = model.table[name].to_numpy()[places] - baseline.table[name].to_numpy()[rows]
        defined = ~np.isnan(differences)
        if defined.any():
            yield name, differences[defined], images[both][defined]
