"""infAP: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import described
from cxc_eccv.evaluate_modules.ranking_modules import JudgedRankingModule
from cxc_eccv.metrics.inf_ap import SPEC


class InfAp(JudgedRankingModule, evaluate.Metric):
    """infAP."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
