"""torchmetrics: sorts with torch.argsort for some metrics, takes torch.topk for others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from cxc_eccv.integrations.conformance.kit import Part
from cxc_eccv.integrations.conformance.peer import SINGLE, Meaning, Peer
from cxc_eccv.integrations.conformance.rules import argsort_order, average_precision_of_found, recall, top_k_order


def measure(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Means of its functions over queries, as its classes compute them."""
    import torch
    from torchmetrics.functional import retrieval

    functions = {}
    for name in names:
        stem, _, k = name.partition("@")
        function = getattr(retrieval, f"retrieval_{stem}")
        functions[name] = partial(function, top_k=int(k)) if k else function
    sums = dict.fromkeys(names, 0.0)
    for scores, positives in zip(part.scores, part.positives, strict=True):
        target = torch.zeros(scores.size, dtype=torch.bool)
        target[torch.from_numpy(positives.copy())] = True
        predictions = torch.from_numpy(scores.astype(np.float32))
        for name, function in functions.items():
            sums[name] += function(predictions, target).item()
    return {name: total / len(part.scores) for name, total in sums.items()}


of_top_k = partial(Meaning, order=top_k_order, rule="by torch.topk")

PEER = Peer(
    name="torchmetrics",
    package="torchmetrics",
    measure=measure,
    metrics={
        "links": {
            **{f"hit_rate@{k}": Meaning(f"recall_at_{k}") for k in (1, 5, 10)},
            "recall@1": Meaning("recall_at_1", 1, recall, "share of the positives"),
        },
        "topics": {
            "r_precision": Meaning("r_precision"),
            "recall@10": Meaning("recall_at_10", 10, recall, "share of the positives"),
            "reciprocal_rank@10": of_top_k("mrr_at_10", 10),
            "average_precision@10": of_top_k(
                "map_at_r", 10, average_precision_of_found, "AP over the positives in the top 10"
            ),
        },
    },
    order=argsort_order,
    rule="in the order of torch.argsort",
    most_queries=1_000,
    tolerance=SINGLE,
)
