"""PMRP at 50: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.ranking_modules import PlausibleMatchModule
from cxc_eccv.metrics.pmrp_at_50 import SPEC


class PmrpAt50(PlausibleMatchModule, evaluate.Metric):
    """PMRP at 50."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
