"""Fusion equals ranx 0.3.21, whose values tools/experiments/ranx_fusion.py recorded."""

import json
from pathlib import Path

import numpy as np
import pytest
from fused_runs import WEIGHTS, make_runs

from cxc_eccv.ranking.fusion import fuse
from cxc_eccv.runs import RankingsRun
from cxc_eccv.runs.rankings import RankedLists

RECORDED = json.loads((Path(__file__).parent.parent / "materials" / "ranx_fusion.json").read_text())


def to_run(queries):
    sizes = [len(scores) for scores in queries.values()]
    items = np.array([int(item) for scores in queries.values() for item in scores])
    scores = np.array([score for scores in queries.values() for score in scores.values()])
    return RankingsRun({"i2t": RankedLists(np.array([*queries]), np.append(0, np.cumsum(sizes)), items, scores)})


@pytest.mark.parametrize(
    ("name", "options"),
    [("rrf", {}), ("sum", {"method": "sum"}), ("weighted sum", {"method": "sum", "weights": WEIGHTS})],
)
def test_scores_equal_those_of_ranx(name, options):
    fused = fuse([to_run(queries) for queries in make_runs()], **options).lists["i2t"]
    assert fused.query_ids.tolist() == sorted(map(int, RECORDED[name]))
    for place, query in enumerate(fused.query_ids):
        part = slice(fused.indptr[place], fused.indptr[place + 1])
        expected = RECORDED[name][str(query)]
        assert {str(item) for item in fused.items[part]} == expected.keys()
        np.testing.assert_allclose(fused.scores[part], [expected[str(i)] for i in fused.items[part]], rtol=1e-12)
