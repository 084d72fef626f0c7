"""mAP@R: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.ranking_modules import RankingModule
from cxc_eccv.metrics.map_at_r import SPEC


class MapAtR(RankingModule, evaluate.Metric):
    """mAP@R."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
