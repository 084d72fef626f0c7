"""What the metrics of other libraries count: beside which of ours they stand, and how they differ."""

from __future__ import annotations

from functools import partial

from conformance.comparison import Meaning
from conformance.rules import (
    average_precision,
    average_precision_of_found,
    average_precision_of_k,
    earlier_first,
    ndcg,
    recall,
    top_k_order,
)

SHARE = "share of the positives"
AP_OVER_R = "AP of the top 10 over R"
DEPTHS = (1, 5, 10)


def hits(name: str) -> dict[str, Meaning]:
    """A library's hit rate at every depth, which is our recall."""
    return {name.format(k): Meaning(f"recall_at_{k}") for k in DEPTHS}


rounded = partial(Meaning, decimals=5)
of_top_k = partial(Meaning, order=top_k_order, rule="by torch.topk")

CLIP_BENCHMARK = {
    labels: {f"retrieval_recall@{k}": Meaning(f"recall_at_{k}", k) for k in DEPTHS} for labels in ("links", "topics")
}

ECCV_CAPTION = {
    "links": hits("coco_5k_r{}"),
    "topics": {
        "eccv_map_at_r": Meaning("map_at_r"),
        "eccv_rprecision": Meaning("r_precision"),
        "eccv_r1": Meaning("recall_at_1"),
    },
}

IR_MEASURES = {
    "links": {
        **hits("Success@{}"),
        "R@5": Meaning("recall_at_5", 5, recall, SHARE),
    },
    "topics": {
        "Rprec": Meaning("r_precision"),
        "R@10": Meaning("recall_at_10", 10, recall, SHARE),
        "RR@10": Meaning("mrr_at_10", order=earlier_first, rule="the earlier name first, by MS MARCO's script"),
        "AP@10": Meaning("map_at_r", 10, average_precision, AP_OVER_R),
        "nDCG@10": Meaning("ndcg_at_10", 10, ndcg),
    },
}

MTEB = {
    "links": {
        **{f"HitRate@{k}": rounded(f"recall_at_{k}") for k in DEPTHS},
        "Recall@1": rounded("recall_at_1", 1, recall, SHARE),
    },
    "topics": {
        "Recall@10": rounded("recall_at_10", 10, recall, SHARE),
        "MRR@10": Meaning("mrr_at_10"),
        "MAP@10": rounded("map_at_r", 10, average_precision, AP_OVER_R),
        "NDCG@10": rounded("ndcg_at_10", 10, ndcg),
    },
}

PYTREC_EVAL = {
    "links": {
        **hits("success_{}"),
        "recall_5": Meaning("recall_at_5", 5, recall, SHARE),
    },
    "topics": {
        "Rprec": Meaning("r_precision"),
        "recall_10": Meaning("recall_at_10", 10, recall, SHARE),
        "map_cut_10": Meaning("map_at_r", 10, average_precision, AP_OVER_R),
        "ndcg_cut_10": Meaning("ndcg_at_10", 10, ndcg),
    },
}

RANX = {
    "links": {
        **hits("hit_rate@{}"),
        "recall@1": Meaning("recall_at_1", 1, recall, SHARE),
    },
    "topics": {
        "r-precision": Meaning("r_precision"),
        "recall@10": Meaning("recall_at_10", 10, recall, SHARE),
        "mrr@10": Meaning("mrr_at_10"),
        "map@10": Meaning("map_at_r", 10, average_precision, AP_OVER_R),
    },
}

SENTENCE_TRANSFORMERS = {
    "links": {
        **hits("accuracy@{}"),
        "recall@1": Meaning("recall_at_1", 1, recall, SHARE),
    },
    "topics": {
        "recall@10": Meaning("recall_at_10", 10, recall, SHARE),
        "mrr@10": Meaning("mrr_at_10"),
        "map@10": Meaning("map_at_r", 10, average_precision_of_k, "AP of the top 10 over min(10, R)"),
        "ndcg@10": Meaning("ndcg_at_10", 10, ndcg),
    },
}

TORCHMETRICS = {
    "links": {
        **hits("hit_rate@{}"),
        "recall@1": Meaning("recall_at_1", 1, recall, SHARE),
    },
    "topics": {
        "r_precision": Meaning("r_precision"),
        "recall@10": Meaning("recall_at_10", 10, recall, SHARE),
        "reciprocal_rank@10": of_top_k("mrr_at_10", 10),
        "average_precision@10": of_top_k(
            "map_at_r", 10, average_precision_of_found, "AP over the positives in the top 10"
        ),
    },
}
