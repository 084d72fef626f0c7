"""How other libraries are called, in which order they put equal scores, and what their metrics count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from conformance.kit import Part, Vectors, names_of, qrels_of, run_of
from conformance.peer import (
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
        labels: {f"retrieval_recall@{k}": Meaning(f"recall_at_{k}", k) for k in DEPTHS}
        for labels in ("links", "topics")
    },
    order=top_k_order,
    rule="in the order of torch.topk",
    most_queries=1_000,
    tolerance=SINGLE,
)


def measure_eccv_caption(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its functions on rankings that are sorted by score and, where equal, by position."""
    from eccv_caption.metrics import compute_eccv_metrics, compute_r_at_k

    queries = part.judgments.query_ids.tolist()
    ranked = {
        query: top[np.argsort(-scores[top], kind="stable")].tolist()
        for query, scores, top in zip(queries, part.scores, part.top_items, strict=True)
    }
    positives = {query: ids.tolist() for query, ids in zip(queries, part.positives, strict=True)}
    if part.labels == "links":
        return {name: compute_r_at_k(ranked, positives, K=int(name.removeprefix("coco_5k_r"))) for name in names}
    return dict(compute_eccv_metrics(ranked, positives))


ECCV_CAPTION = Peer(
    name="eccv_caption",
    package="eccv_caption",
    measure=measure_eccv_caption,
    metrics={
        "links": hits("coco_5k_r{}"),
        "topics": {
            "eccv_map_at_r": Meaning("map_at_r"),
            "eccv_rprecision": Meaning("r_precision"),
            "eccv_r1": Meaning("recall_at_1"),
        },
    },
    order=earlier_first,
    rule="as its caller sorts, here the earlier item first",
)


def measure_ir_measures(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its aggregates."""
    from ir_measures import calc_aggregate, parse_measure

    measures = {name: parse_measure(name) for name in names}
    values = calc_aggregate(list(measures.values()), qrels_of(part), run_of(part))
    return {name: values[measure] for name, measure in measures.items()}


IR_MEASURES = Peer(
    name="ir_measures",
    package="ir_measures",
    measure=measure_ir_measures,
    metrics={
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
    },
    order=later_first,
    rule="the later name first, by trec_eval",
)


def measure_mteb(part: Part, names: Sequence[str]) -> dict[str, float]:
    """The scores of a retrieval task, from its results."""
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores

    scores = calculate_retrieval_scores(run_of(part), qrels_of(part), DEPTHS)
    values = {**scores.hit_rate, **scores.recall, **scores.mrr, **scores.map, **scores.ndcg}
    return {name: float(values[name]) for name in names}


rounded = partial(Meaning, decimals=5)

MTEB = Peer(
    name="mteb",
    package="mteb",
    measure=measure_mteb,
    metrics={
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
    },
    order=later_first,
    rule="the later name first, by trec_eval",
)


def measure_pytrec_eval(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Means of its values over queries."""
    from pytrec_eval import RelevanceEvaluator

    per_query = RelevanceEvaluator(qrels_of(part), set(names)).evaluate(run_of(part)).values()
    return {name: sum(values[name] for values in per_query) / len(per_query) for name in names}


PYTREC_EVAL = Peer(
    name="pytrec_eval",
    package="pytrec_eval-terrier",
    measure=measure_pytrec_eval,
    metrics={
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
    },
    order=later_first,
    rule="the later name first",
)


def measure_ranx(part: Part, names: Sequence[str]) -> dict[str, float]:
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


RANX = Peer(
    name="ranx",
    package="ranx",
    measure=measure_ranx,
    metrics={
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
    },
    order=numba_order,
    rule="in the order of Numba's quicksort",
)


class StoredVectors:
    """Encodes a name as the vector at its position."""

    def __init__(self, queries: dict[str, Vectors], gallery: dict[str, Vectors]) -> None:
        self.queries, self.gallery = queries, gallery

    def encode_query(self, names: Sequence[str], **_options: Any) -> Any:  # noqa: ANN401 - a tensor, imported late
        """(Q, D) vectors."""
        return _stack(self.queries, names)

    def encode_document(self, names: Sequence[str], **_options: Any) -> Any:  # noqa: ANN401 - a tensor, imported late
        """(N, D) vectors."""
        return _stack(self.gallery, names)


def _stack(vectors: dict[str, Vectors], names: Sequence[str]) -> Any:  # noqa: ANN401 - a tensor, imported late
    import torch

    return torch.from_numpy(np.stack([vectors[name] for name in names]))


def measure_sentence_transformers(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its evaluator with the dot product, on stored vectors."""
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.util import dot_score

    queries, items = names_of(part.judgments.query_ids), names_of(part.judgments.gallery_ids)
    positives = [{items[position] for position in places} for places in part.positives]
    evaluator = InformationRetrievalEvaluator(
        {name: name for name in queries},
        {name: name for name in items},
        dict(zip(queries, positives, strict=True)),
        corpus_chunk_size=500,  # for memory; it changes no value
        accuracy_at_k=[1, 5, 10],
        precision_recall_at_k=[1, 10],
        map_at_k=[10],
        score_functions={"dot": dot_score},
    )
    model: Any = StoredVectors(
        dict(zip(queries, part.queries, strict=True)), dict(zip(items, part.gallery, strict=True))
    )
    values: Any = evaluator.compute_all_metrics(model)["dot"]
    pairs = {name: name.split("@") for name in names}
    return {name: float(values[f"{stem}@k"][int(k)]) for name, (stem, k) in pairs.items()}


SENTENCE_TRANSFORMERS = Peer(
    name="sentence_transformers",
    package="sentence-transformers",
    measure=measure_sentence_transformers,
    metrics={
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
    },
    order=earlier_first,
    rule="the earlier name first",
)


def measure_torchmetrics(part: Part, names: Sequence[str]) -> dict[str, float]:
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

TORCHMETRICS = Peer(
    name="torchmetrics",
    package="torchmetrics",
    measure=measure_torchmetrics,
    metrics={
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
    },
    order=argsort_order,
    rule="in the order of torch.argsort",
    most_queries=1_000,
    tolerance=SINGLE,
)

PEERS = (CLIP_BENCHMARK, ECCV_CAPTION, IR_MEASURES, MTEB, PYTREC_EVAL, RANX, SENTENCE_TRANSFORMERS, TORCHMETRICS)
