"""Graded Recall@K: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import GradedRankingModule
from cxc_eccv.metrics.graded_recall_at_k import SPEC


class GradedRecallAtK(GradedRankingModule, evaluate.Metric):
    """Graded Recall@K."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
