"""Median rank: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import described
from cxc_eccv.evaluate_modules.ranking_modules import RankingModule
from cxc_eccv.metrics.median_rank import SPEC


class MedianRank(RankingModule, evaluate.Metric):
    """Median rank."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
