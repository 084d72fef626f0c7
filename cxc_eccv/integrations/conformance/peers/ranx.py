"""ranx: ties in the order of Numba's quicksort."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cxc_eccv.integrations.conformance.kit import Part, qrels_of, run_of
from cxc_eccv.integrations.conformance.peer import Meaning, Peer
from cxc_eccv.integrations.conformance.rules import average_precision, in_order, recall
from cxc_eccv.types import IntArray, PositiveRanks


def measure(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its evaluation of a Run."""
    from ranx import Qrels, Run, evaluate

    values = evaluate(Qrels(qrels_of(part)), Run(run_of(part)), list(names), save_results_in_run=False)
    return {name: float(value) for name, value in values.items()}


def numba_order(part: Part, k: int) -> PositiveRanks:
    """Ranks in the order of Numba's argsort of the negative scores, which is not stable."""
    return in_order(part, _sort, k)


def _sort(part: Part, _k: int) -> Iterator[IntArray]:
    from numba import njit

    argsort = njit(lambda values: np.argsort(values))
    for scores, top in zip(part.scores, part.top_items, strict=True):
        yield top[argsort(-scores[top].astype(np.float64))]


PEER = Peer(
    name="ranx",
    package="ranx",
    measure=measure,
    metrics={
        "links": {
            **{f"hit_rate@{k}": Meaning(f"recall_at_{k}") for k in (1, 5, 10)},
            "recall@1": Meaning("recall_at_1", 1, recall, "share of the positives"),
        },
        "topics": {
            "r-precision": Meaning("r_precision"),
            "recall@10": Meaning("recall_at_10", 10, recall, "share of the positives"),
            "mrr@10": Meaning("mrr_at_10"),
            "map@10": Meaning("map_at_r", 10, average_precision, "AP of the top 10 over R"),
        },
    },
    order=numba_order,
    rule="in the order of Numba's quicksort",
)
