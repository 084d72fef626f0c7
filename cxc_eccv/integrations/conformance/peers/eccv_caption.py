"""eccv_caption takes rankings and no scores: ties stand as its caller sorts them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cxc_eccv.integrations.conformance.kit import Part
from cxc_eccv.integrations.conformance.peer import Meaning, Peer
from cxc_eccv.integrations.conformance.rules import earlier_first


def measure(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its functions on rankings that are sorted by score and, where equal, by position."""
    from eccv_caption.metrics import compute_eccv_metrics, compute_r_at_k

    queries = part.judgments.query_ids.tolist()
    ranked = {
        query: top[np.argsort(-scores[top], kind="stable")].tolist()
        for query, scores, top in zip(queries, part.scores, part.top_items, strict=True)
    }
    positives = {query: found.tolist() for query, found in zip(queries, part.positives, strict=True)}
    if part.labels == "links":
        return {name: compute_r_at_k(ranked, positives, K=int(name.removeprefix("coco_5k_r"))) for name in names}
    return dict(compute_eccv_metrics(ranked, positives))


PEER = Peer(
    name="eccv_caption",
    package="eccv_caption",
    measure=measure,
    metrics={
        "links": {f"coco_5k_r{k}": Meaning(f"recall_at_{k}") for k in (1, 5, 10)},
        "topics": {
            "eccv_map_at_r": Meaning("map_at_r"),
            "eccv_rprecision": Meaning("r_precision"),
            "eccv_r1": Meaning("recall_at_1"),
        },
    },
    order=earlier_first,
    rule="as its caller sorts, here the earlier item first",
)
