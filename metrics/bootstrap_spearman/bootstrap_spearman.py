"""Bootstrap Spearman: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.pair_modules import RatedPairsModule
from cxc_eccv.metrics.bootstrap_spearman import SPEC


class BootstrapSpearman(RatedPairsModule, evaluate.Metric):
    """Bootstrap Spearman."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
