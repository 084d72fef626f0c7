"""bpref: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.ranking_modules import JudgedRankingModule
from cxc_eccv.metrics.bpref import SPEC


class Bpref(JudgedRankingModule, evaluate.Metric):
    """bpref."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
