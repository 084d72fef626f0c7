"""infAP: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import JudgedRankingModule
from cxc_eccv.metrics.inf_ap import SPEC


class InfAp(JudgedRankingModule, evaluate.Metric):
    """infAP."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
