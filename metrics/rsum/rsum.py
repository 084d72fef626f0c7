"""RSUM: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import described
from cxc_eccv.evaluate_modules.ranking_modules import BothDirectionsModule
from cxc_eccv.metrics.rsum import SPEC


class Rsum(BothDirectionsModule, evaluate.Metric):
    """RSUM."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
