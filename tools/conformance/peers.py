"""The other libraries: a function that calls each, and the table of them all at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from conformance.comparison import SINGLE, Peer
from conformance.kit import Part, Vectors, names_of, qrels_of, run_of
from conformance.meanings import (
    CLIP_BENCHMARK,
    DEPTHS,
    ECCV_CAPTION,
    IR_MEASURES,
    MTEB,
    PYTREC_EVAL,
    RANX,
    SENTENCE_TRANSFORMERS,
    TORCHMETRICS,
)
from conformance.rules import argsort_order, earlier_first, later_first, numba_order, top_k_order
from cxc_eccv.errors import UnknownName


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


def measure_ir_measures(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its aggregates."""
    from ir_measures import calc_aggregate, parse_measure

    measures = {name: parse_measure(name) for name in names}
    values = calc_aggregate(list(measures.values()), qrels_of(part), run_of(part))
    return {name: values[measure] for name, measure in measures.items()}


def measure_mteb(part: Part, names: Sequence[str]) -> dict[str, float]:
    """The scores of a retrieval task, from its results."""
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores

    scores = calculate_retrieval_scores(run_of(part), qrels_of(part), DEPTHS)
    values = {**scores.hit_rate, **scores.recall, **scores.mrr, **scores.map, **scores.ndcg}
    return {name: float(values[name]) for name in names}


def measure_pytrec_eval(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Means of its values over queries."""
    from pytrec_eval import RelevanceEvaluator

    per_query = RelevanceEvaluator(qrels_of(part), set(names)).evaluate(run_of(part)).values()
    return {name: sum(values[name] for values in per_query) / len(per_query) for name in names}


def measure_ranx(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its evaluation of a Run."""
    from ranx import Qrels, Run, evaluate

    values = evaluate(Qrels(qrels_of(part)), Run(run_of(part)), list(names), save_results_in_run=False)
    return {name: float(value) for name, value in values.items()}


class StoredVectors:
    """Encodes a name as the vector at its position."""

    def __init__(self, queries: dict[str, Vectors], gallery: dict[str, Vectors]) -> None:
        self.queries = queries
        self.gallery = gallery

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

    queries = names_of(part.judgments.query_ids)
    items = names_of(part.judgments.gallery_ids)
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


PEERS = (
    Peer(
        "clip_benchmark",
        "clip_benchmark==1.6.2",
        measure_clip_benchmark,
        CLIP_BENCHMARK,
        top_k_order,
        "in the order of torch.topk",
        most_queries=1_000,
        tolerance=SINGLE,
    ),
    Peer(
        "eccv_caption",
        "eccv_caption==0.1.0",
        measure_eccv_caption,
        ECCV_CAPTION,
        earlier_first,
        "as its caller sorts, here the earlier item first",
    ),
    Peer(
        "ir_measures",
        "ir_measures==0.4.3",
        measure_ir_measures,
        IR_MEASURES,
        later_first,
        "the later name first, by trec_eval",
    ),
    Peer("mteb", "mteb==2.26.24", measure_mteb, MTEB, later_first, "the later name first, by trec_eval"),
    Peer(
        "pytrec_eval",
        "pytrec_eval-terrier==0.5.11",
        measure_pytrec_eval,
        PYTREC_EVAL,
        later_first,
        "the later name first",
    ),
    Peer("ranx", "ranx==0.3.21", measure_ranx, RANX, numba_order, "in the order of Numba's quicksort"),
    Peer(
        "sentence_transformers",
        "sentence-transformers==6.2.0",
        measure_sentence_transformers,
        SENTENCE_TRANSFORMERS,
        earlier_first,
        "the earlier name first",
    ),
    Peer(
        "torchmetrics",
        "torchmetrics==1.9.0",
        measure_torchmetrics,
        TORCHMETRICS,
        argsort_order,
        "in the order of torch.argsort",
        most_queries=1_000,
        tolerance=SINGLE,
    ),
)
"""Name, package, function, meanings of the metrics, order of equal scores, and the same order in words."""


def choose(names: Sequence[str] | None) -> list[Peer]:
    """The libraries of these names, or all.

    Raises:
        UnknownName: there is no library of this name.
    """
    known = {peer.name: peer for peer in PEERS}
    for name in names or ():
        if name not in known:
            raise UnknownName("library", name, known)
    return [known[name] for name in names or known]
