"""Judged-only R-Precision: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.judged import JudgedRankingModule
from cxc_eccv.metrics.judged_only_r_precision import SPEC


class JudgedOnlyRPrecision(JudgedRankingModule, evaluate.Metric):
    """Judged-only R-Precision."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
