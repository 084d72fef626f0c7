"""RSUM: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import BothDirectionsModule
from cxc_eccv.metrics.rsum import SPEC


class Rsum(BothDirectionsModule, evaluate.Metric):
    """RSUM."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
