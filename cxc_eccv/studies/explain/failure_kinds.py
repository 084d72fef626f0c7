"""Kinds of failures, from far off to near miss: which failure is of which kind, and how many there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from cxc_eccv.studies.explain.explanation import Explanation
from cxc_eccv.studies.explain.failed_queries import INFORMED, MEASURES, Explained
from cxc_eccv.tables import Table
from cxc_eccv.types import FloatArray, IntArray

FAILURE_KINDS = {
    "far": ("Far off", "the retrieved image shows no key concept"),
    "partly": (
        "Partly right",
        "the retrieved image shows some key concepts, or all of them and less than half of all concepts",
    ),
    "near": ("Near miss", "the retrieved image shows all key concepts and at least half of all concepts"),
}
"""Kinds of failures with title and definition, the worst first."""

INFORMED_AGREEMENT = f"{MEASURES[0]}{INFORMED}"

HALF = 0.5
"""Least share of all concepts in a near miss: if the query mentions only a person, most images show it."""

UNEXPLAINED = "the right image has no annotated concept, or one of the two images is not annotated"

KIND_ROW_TITLES = ("queries", "failures", *(title.lower() for title, _ in FAILURE_KINDS.values()), "without a verdict")
"""Rows of the table."""

LEGEND = (
    "Key concepts are those of the right image that the query mentions, or all of them if it mentions none.",
    "CA: share of the right image's concepts that the retrieved image shows. NCS: how alike the concepts are that only "
    "one of them shows. CE: by how many instances common ones differ. SD: share of these with another size.",
)


def judge_failures(explained: Explained) -> tuple[FloatArray, IntArray]:
    """(F,) shares of key concepts, NaN for a failure without numbers; and rows of those with numbers, the worst first.

    Key concepts are those of the right image that the query mentions, or all of them if it mentions none. The worst
    failure shows the smallest share of key concepts; ties are broken by the share of all concepts, by how unlike the
    concepts are that replace missing ones (no replacement comes last), by the differences in the number of instances,
    and by the share of other sizes: the stages of Lymperaiou et al., 2022, section 4.1.
    """
    table = explained.table.select(["query_id", *MEASURES, INFORMED_AGREEMENT]).to_pandas().astype(np.float64)
    shares = table[INFORMED_AGREEMENT].fillna(table["concept_agreement"])
    order = pd.DataFrame(
        {
            "share": shares,
            "agreement": table["concept_agreement"],
            # No similarity: no concept is missing, or none replaces it.
            "similarity": table["non_common_similarity"].fillna(1.0),
            "enumeration": -table["concept_enumeration"].fillna(0.0),
            "size": -table["size_disagreement"].fillna(0.0),
            "query_id": table["query_id"],
        }
    )
    order = order[shares.notna()]
    return shares.to_numpy(), order.sort_values(list(order.columns)).index.to_numpy()


def sort_by_kind(explained: Explained) -> dict[str, IntArray]:
    """Kind to the rows of its failures, the worst first; failures without numbers have no kind."""
    shares, order = judge_failures(explained)
    agreement = explained.table[MEASURES[0]].to_numpy().astype(np.float64)
    near = (shares == 1) & (agreement >= HALF)
    kinds = np.where(near, "near", np.where(shares == 0, "far", "partly"))
    return {kind: order[kinds[order] == kind] for kind in FAILURE_KINDS}


def tabulate_kinds(explanations: Sequence[Explanation]) -> Table:
    """How many queries of each model and direction failed, and in which way; with the words of all tables."""
    columns = {}
    for explanation in explanations:
        for direction, explained in explanation.directions.items():
            heading = (explanation.model, direction) if len(explanations) > 1 else (direction,)
            columns[heading] = _count_kinds(explained)
    lines = zip(*columns.values(), strict=True)
    rows = [[title, *counts] for title, counts in zip(KIND_ROW_TITLES, lines, strict=True)]
    first = explanations[0]
    meanings = [f"{title.lower()}: {meaning}." for title, meaning in FAILURE_KINDS.values()]
    return Table(
        [("",), *columns],
        rows,
        f"Kinds of failures of {first.model}" if len(explanations) == 1 else "Kinds of failures",
        notes=[*meanings, f"without a verdict: {UNEXPLAINED}.", *LEGEND],
        data=first.data,
    )


def _count_kinds(explained: Explained) -> list[str]:
    """The cells of a column, with shares of the queries."""
    queries = explained.failures.n_queries
    failures = len(explained.failures)
    counts = [rows.size for rows in sort_by_kind(explained).values()]
    shown = [failures, *counts, failures - sum(counts)]
    return [f"{queries:,}", *(f"{number:,} ({number / queries:.1%})" for number in shown)]
