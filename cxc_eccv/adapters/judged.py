"""``evaluate`` modules of metrics that need the ranks of all judged items, negatives too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from cxc_eccv.adapters.inputs import Column, id_lists
from cxc_eccv.adapters.module import PER_QUERY, MetricModule, label, results_of, variants
from cxc_eccv.adapters.rankings import DIRECTION, RANKING_LIMITS, RANKINGS, judgments_of, run_of
from cxc_eccv.errors import DataError, RunTooShallow
from cxc_eccv.ranking.lists import read_rankings
from cxc_eccv.ranking.readers import JudgedRows
from cxc_eccv.types import JudgedRanks

VERDICTS = (0, 1, 2)


class JudgedRankingModule(MetricModule):
    """A metric of judged items: predictions are whole rankings, references the judged items, with a verdict each."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": RANKINGS,
        "references": Column(id_lists, "list of int64", "ids of all judged items of each query, negatives too."),
        "verdicts": Column(
            id_lists,
            "list of int64",
            "the verdict on each reference, in the same order: 0 for a judged negative, 1 for a positive, 2 for a "
            "positive that the original links of the benchmark lack; at least one positive.",
        ),
    }
    n_inputs = 2
    option_texts: ClassVar[Mapping[str, str]] = {"per_query": PER_QUERY}
    limits = RANKING_LIMITS + "\n- A ranking must hold every judged item of its query, wherever it stands."
    example: ClassVar[Mapping[str, list[Any]]] = {
        "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
        "references": [[10, 30], [40, 20, 10]],
        "verdicts": [[0, 1], [2, 0, 1]],
    }

    @classmethod
    def scores(
        cls, inputs: Mapping[str, list[Any]], *, per_query: bool = False, **parameters: object
    ) -> dict[str, Any]:
        """Name to value, one for every combination of parameters."""
        ranks, results = cls._find_ranks(inputs), dict[str, Any]()
        for chosen in variants(cls.spec, parameters):
            values = cls.spec.function(ranks, **chosen)
            results |= results_of(cls.spec, label(cls.spec, chosen), values, per_query=per_query)
        return results

    @classmethod
    def _find_ranks(cls, inputs: Mapping[str, list[Any]]) -> JudgedRanks:
        rows = zip(*(inputs[name] for name in ("predictions", "references", "verdicts")), strict=True)
        for row, (ranked, items, verdicts) in enumerate(rows):
            if len(items) != len(verdicts):
                raise DataError(f"query {row} has {len(verdicts)} verdicts for {len(items)} references; give one each")
            if wrong := [verdict for verdict in verdicts if verdict not in VERDICTS]:
                raise DataError(f"query {row} has the verdict {wrong[0]}; a verdict is 0, 1 or 2")
            if lost := sorted(set(items) - set(ranked)):
                raise RunTooShallow(
                    f"{cls.spec.name} of query {row}: its ranking lacks the judged item {lost[0]}. Rank the whole "
                    "gallery."
                )
        run = run_of(inputs["predictions"])
        ranks = []
        for row in range(len(inputs["references"])):  # each query has a gallery of its own, that of its ranking
            judged = {**inputs, "gains": inputs["verdicts"]}
            reader = JudgedRows(judgments_of(judged, run, np.array([row]), whole=True))
            read_rankings(run, DIRECTION, [reader])
            ranks.append(reader.result)
        columns = ("ranks", "verdicts", "n_positives", "n_gallery", "ties")
        values = [np.concatenate([getattr(each, name) for each in ranks]) for name in columns]
        indptr = np.append(0, np.cumsum([each.ranks.size for each in ranks]))
        return JudgedRanks(np.arange(len(ranks)), indptr, *values)
