"""nDCG@K: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import GradedRankingModule
from cxc_eccv.metrics.ndcg_at_k import SPEC


class NdcgAtK(GradedRankingModule, evaluate.Metric):
    """nDCG@K."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
