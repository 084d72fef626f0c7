"""mteb: pytrec_eval's values, most of them rounded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from cxc_eccv.integrations.conformance.kit import Part, qrels_of, run_of
from cxc_eccv.integrations.conformance.peer import Meaning, Peer
from cxc_eccv.integrations.conformance.rules import average_precision, later_first, ndcg, recall

DEPTHS = (1, 5, 10)


def measure(part: Part, names: Sequence[str]) -> dict[str, float]:
    """The scores of a retrieval task, from its results."""
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores

    scores = calculate_retrieval_scores(run_of(part), qrels_of(part), DEPTHS)
    values = {**scores.hit_rate, **scores.recall, **scores.mrr, **scores.map, **scores.ndcg}
    return {name: float(values[name]) for name in names}


rounded = partial(Meaning, decimals=5)

PEER = Peer(
    name="mteb",
    package="mteb",
    measure=measure,
    metrics={
        "links": {
            **{f"HitRate@{k}": rounded(f"recall_at_{k}") for k in DEPTHS},
            "Recall@1": rounded("recall_at_1", 1, recall, "share of the positives"),
        },
        "topics": {
            "Recall@10": rounded("recall_at_10", 10, recall, "share of the positives"),
            "MRR@10": Meaning("mrr_at_10"),
            "MAP@10": rounded("map_at_r", 10, average_precision, "AP of the top 10 over R"),
            "NDCG@10": rounded("ndcg_at_10", 10, ndcg),
        },
    },
    order=later_first,
    rule="the later name first, by trec_eval",
)
