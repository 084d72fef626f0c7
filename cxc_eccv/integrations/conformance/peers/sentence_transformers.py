"""sentence-transformers: InformationRetrievalEvaluator, the earlier name first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cxc_eccv.integrations.conformance.kit import Part, Vectors, names_of
from cxc_eccv.integrations.conformance.peer import Meaning, Peer
from cxc_eccv.integrations.conformance.rules import average_precision_of_k, earlier_first, ndcg, recall

CHUNK = 500
"""Gallery items at a time, for memory; it changes no value."""


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
    import numpy as np
    import torch

    return torch.from_numpy(np.stack([vectors[name] for name in names]))


def measure(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its evaluator with the dot product, on stored vectors."""
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.util import dot_score

    queries, items = names_of(part.judgments.query_ids), names_of(part.judgments.gallery_ids)
    positives = [{items[position] for position in found} for found in part.positives]
    evaluator = InformationRetrievalEvaluator(
        {name: name for name in queries},
        {name: name for name in items},
        dict(zip(queries, positives, strict=True)),
        corpus_chunk_size=CHUNK,
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


PEER = Peer(
    name="sentence_transformers",
    package="sentence-transformers",
    measure=measure,
    metrics={
        "links": {
            **{f"accuracy@{k}": Meaning(f"recall_at_{k}") for k in (1, 5, 10)},
            "recall@1": Meaning("recall_at_1", 1, recall, "share of the positives"),
        },
        "topics": {
            "recall@10": Meaning("recall_at_10", 10, recall, "share of the positives"),
            "mrr@10": Meaning("mrr_at_10"),
            "map@10": Meaning("map_at_r", 10, average_precision_of_k, "AP of the top 10 over min(10, R)"),
            "ndcg@10": Meaning("ndcg_at_10", 10, ndcg),
        },
    },
    order=earlier_first,
    rule="the earlier name first",
)
