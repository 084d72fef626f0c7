"""Spearman over all rated pairs at once: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.pair_modules import RatedPairsModule
from cxc_eccv.metrics.spearman_all_pairs import SPEC


class SpearmanAllPairs(RatedPairsModule, evaluate.Metric):
    """Spearman over all rated pairs at once."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
