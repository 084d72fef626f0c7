"""Non-common concept similarity: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.pair_modules import SimilarConceptsModule
from cxc_eccv.metrics.non_common_similarity import SPEC


class NonCommonSimilarity(SimilarConceptsModule, evaluate.Metric):
    """Non-common concept similarity."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
