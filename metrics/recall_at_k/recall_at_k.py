"""Recall@K: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import RankingModule
from cxc_eccv.metrics.recall_at_k import SPEC


class RecallAtK(RankingModule, evaluate.Metric):
    """Recall@K."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
