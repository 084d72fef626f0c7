"""PMRP at 50: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import PlausibleMatchModule
from cxc_eccv.metrics.pmrp_at_50 import SPEC


class PmrpAt50(PlausibleMatchModule, evaluate.Metric):
    """PMRP at 50."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
