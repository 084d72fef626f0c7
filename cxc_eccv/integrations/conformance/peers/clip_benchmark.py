"""CLIP_benchmark: a hit if any positive is in the top K, ties as torch.topk returns them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cxc_eccv.integrations.conformance.kit import Part
from cxc_eccv.integrations.conformance.peer import SINGLE, Meaning, Peer
from cxc_eccv.integrations.conformance.rules import top_k_order

BATCH = 8


def measure(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its recall above 0, as its evaluation asks."""
    import torch
    from clip_benchmark.metrics.zeroshot_retrieval import batchify, recall_at_k

    scores = torch.from_numpy(part.scores.astype(np.float32))
    positives = torch.zeros(scores.shape, dtype=torch.bool)
    positives[torch.from_numpy(part.judgments.rows), torch.from_numpy(part.judgments.indices.copy())] = True
    return {
        name: (batchify(recall_at_k, scores, positives, BATCH, "cpu", k=int(name.rpartition("@")[2])) > 0)
        .float()
        .mean()
        .item()
        for name in names
    }


METRICS = {f"retrieval_recall@{k}": Meaning(f"recall_at_{k}", k) for k in (1, 5, 10)}

PEER = Peer(
    name="clip_benchmark",
    package="clip_benchmark",
    measure=measure,
    metrics={"links": METRICS, "topics": METRICS},
    order=top_k_order,
    rule="in the order of torch.topk",
    most_queries=1_000,
    tolerance=SINGLE,
)
