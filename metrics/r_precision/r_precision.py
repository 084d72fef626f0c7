"""R-Precision: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import RankingModule
from cxc_eccv.metrics.r_precision import SPEC


class RPrecision(RankingModule, evaluate.Metric):
    """R-Precision."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
