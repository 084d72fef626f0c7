"""Concept agreement: a module for ``evaluate``."""

import evaluate

from cxc_eccv.evaluate_modules import module_cards
from cxc_eccv.evaluate_modules.pair_modules import ConceptModule
from cxc_eccv.metrics.concept_agreement import SPEC


class ConceptAgreement(ConceptModule, evaluate.Metric):
    """Concept agreement."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**module_cards.module_info(SPEC))
