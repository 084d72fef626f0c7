"""Judged-only nDCG@K: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.judged import JudgedRankingModule
from cxc_eccv.metrics.judged_only_ndcg_at_k import SPEC


class JudgedOnlyNdcgAtK(JudgedRankingModule, evaluate.Metric):
    """Judged-only nDCG@K."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
