"""Size disagreement: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.pair_modules import ConceptSizesModule
from cxc_eccv.metrics.size_disagreement import SPEC


class SizeDisagreement(ConceptSizesModule, evaluate.Metric):
    """Size disagreement."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
