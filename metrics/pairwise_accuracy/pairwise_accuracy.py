"""Pairwise accuracy: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.pairs import ComparisonsModule
from cxc_eccv.metrics.pairwise_accuracy import SPEC


class PairwiseAccuracy(ComparisonsModule, evaluate.Metric):
    """Pairwise accuracy."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
