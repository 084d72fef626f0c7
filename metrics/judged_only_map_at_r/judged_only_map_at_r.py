"""Judged-only mAP@R: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.judged import JudgedRankingModule
from cxc_eccv.metrics.judged_only_map_at_r import SPEC


class JudgedOnlyMapAtR(JudgedRankingModule, evaluate.Metric):
    """Judged-only mAP@R."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
