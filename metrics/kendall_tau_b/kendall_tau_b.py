"""Kendall's tau-b of ratings and similarities: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.pair_modules import RatedPairsModule
from cxc_eccv.metrics.kendall_tau_b import SPEC


class KendallTauB(RatedPairsModule, evaluate.Metric):
    """Kendall's tau-b of ratings and similarities."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
