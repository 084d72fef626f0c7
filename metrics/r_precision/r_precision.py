"""R-Precision: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import described
from cxc_eccv.evaluate_modules.ranking_modules import RankingModule
from cxc_eccv.metrics.r_precision import SPEC


class RPrecision(RankingModule, evaluate.Metric):
    """R-Precision."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
