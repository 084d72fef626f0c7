"""PMRP: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import PlausibleMatchModule
from cxc_eccv.metrics.pmrp import SPEC


class Pmrp(PlausibleMatchModule, evaluate.Metric):
    """PMRP."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
