"""Mean rank: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import RankingModule
from cxc_eccv.metrics.mean_rank import SPEC


class MeanRank(RankingModule, evaluate.Metric):
    """Mean rank."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
