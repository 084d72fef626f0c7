"""Mean reciprocal rank with a cut-off: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import RankingModule
from cxc_eccv.metrics.mrr_at_k import SPEC


class MrrAtK(RankingModule, evaluate.Metric):
    """Mean reciprocal rank with a cut-off."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
