"""Judged-only Recall@K: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.judged import JudgedRankingModule
from cxc_eccv.metrics.judged_only_recall_at_k import SPEC


class JudgedOnlyRecallAtK(JudgedRankingModule, evaluate.Metric):
    """Judged-only Recall@K."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
