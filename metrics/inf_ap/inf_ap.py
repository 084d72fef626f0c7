"""infAP: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.ranking_modules import JudgedRankingModule
from cxc_eccv.metrics.inf_ap import SPEC


class InfAp(JudgedRankingModule, evaluate.Metric):
    """infAP."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
