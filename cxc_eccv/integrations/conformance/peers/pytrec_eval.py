"""pytrec_eval: trec_eval's rule, the later name first."""

from __future__ import annotations

from collections.abc import Sequence

from cxc_eccv.integrations.conformance.kit import Part, qrels_of, run_of
from cxc_eccv.integrations.conformance.peer import Meaning, Peer
from cxc_eccv.integrations.conformance.rules import average_precision, later_first, ndcg, recall


def measure(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Means of its values over queries."""
    from pytrec_eval import RelevanceEvaluator

    per_query = RelevanceEvaluator(qrels_of(part), set(names)).evaluate(run_of(part)).values()
    return {name: sum(values[name] for values in per_query) / len(per_query) for name in names}


PEER = Peer(
    name="pytrec_eval",
    package="pytrec_eval-terrier",
    measure=measure,
    metrics={
        "links": {
            **{f"success_{k}": Meaning(f"recall_at_{k}") for k in (1, 5, 10)},
            "recall_5": Meaning("recall_at_5", 5, recall, "share of the positives"),
        },
        "topics": {
            "Rprec": Meaning("r_precision"),
            "recall_10": Meaning("recall_at_10", 10, recall, "share of the positives"),
            "map_cut_10": Meaning("map_at_r", 10, average_precision, "AP of the top 10 over R"),
            "ndcg_cut_10": Meaning("ndcg_at_10", 10, ndcg),
        },
    },
    order=later_first,
    rule="the later name first",
)
