"""How other libraries are called, in which order they put equal scores, and what their metrics count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from cxc_eccv.integrations.conformance.kit import Part, Vectors, names_of, qrels_of, run_of
from cxc_eccv.integrations.conformance.peer import (
    SINGLE,
    Meaning,
    Peer,
    argsort_order,
    average_precision,
    average_precision_of_found,
    average_precision_of_k,
    earlier_first,
    in_order,
    later_first,
    ndcg,
    recall,
    top_k_order,
)
from cxc_eccv.types import IntArray, PositiveRanks

SHARE = "share of the positives"
AP_OVER_R = "AP of the top 10 over R"
DEPTHS = (1, 5, 10)


def hits(name: str) -> dict[str, Meaning]:
    """A library's hit rate at every depth, which is our recall."""
    return {name.format(k): Meaning(f"recall_at_{k}") for k in DEPTHS}


def measure_clip_benchmark(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its recall above 0, as its evaluation asks."""
    import torch
    from clip_benchmark.metrics.zeroshot_retrieval import batchify, recall_at_k

    scores = torch.from_numpy(part.scores.astype(np.float32))
    positives = torch.zeros(scores.shape, dtype=torch.bool)
    positives[torch.from_numpy(part.judgments.rows), torch.from_numpy(part.judgments.indices.copy())] = True
    return {
        name: (batchify(recall_at_k, scores, positives, 8, "cpu", k=int(name.rpartition("@")[2])) > 0)
        .float()
        .mean()
        .item()
        for name in names
    }


CLIP_BENCHMARK = Peer(
    name="clip_benchmark",
    package="clip_benchmark",
    measure=measure_clip_benchmark,
    metrics={
        labels: {f"retrieval_recall@{k}": Meaning(f"recall_at_{k}", k) for k in DEPTHS} for labels in ("links", "topics")
    },
        },
    },
    order=argsort_order,
    rule="in the order of torch.argsort",
    most_queries=1_000,
    tolerance=SINGLE,
)

PEERS = (CLIP_BENCHMARK, ECCV_CAPTION, IR_MEASURES, MTEB, PYTREC_EVAL, RANX, SENTENCE_TRANSFORMERS, TORCHMETRICS)
