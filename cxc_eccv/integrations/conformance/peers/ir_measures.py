"""ir_measures: its providers differ in ties, so metrics of one call do."""

from __future__ import annotations

from collections.abc import Sequence

from cxc_eccv.integrations.conformance.kit import Part, qrels_of, run_of
from cxc_eccv.integrations.conformance.peer import Meaning, Peer
from cxc_eccv.integrations.conformance.rules import average_precision, earlier_first, later_first, ndcg, recall


def measure(part: Part, names: Sequence[str]) -> dict[str, float]:
    """Its aggregates."""
    from ir_measures import calc_aggregate, parse_measure

    measures = {name: parse_measure(name) for name in names}
    values = calc_aggregate(list(measures.values()), qrels_of(part), run_of(part))
    return {name: values[measure] for name, measure in measures.items()}


PEER = Peer(
    name="ir_measures",
    package="ir_measures",
    measure=measure,
    metrics={
        "links": {
            **{f"Success@{k}": Meaning(f"recall_at_{k}") for k in (1, 5, 10)},
            "R@5": Meaning("recall_at_5", 5, recall, "share of the positives"),
        },
        "topics": {
            "Rprec": Meaning("r_precision"),
            "R@10": Meaning("recall_at_10", 10, recall, "share of the positives"),
            "RR@10": Meaning("mrr_at_10", order=earlier_first, rule="the earlier name first, by MS MARCO's script"),
            "AP@10": Meaning("map_at_r", 10, average_precision, "AP of the top 10 over R"),
            "nDCG@10": Meaning("ndcg_at_10", 10, ndcg),
        },
    },
    order=later_first,
    rule="the later name first, by trec_eval",
)
