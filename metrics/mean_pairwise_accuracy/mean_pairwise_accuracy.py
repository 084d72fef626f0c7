"""Mean pairwise accuracy: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.pairs import ComparedPartsModule
from cxc_eccv.metrics.mean_pairwise_accuracy import SPEC


class MeanPairwiseAccuracy(ComparedPartsModule, evaluate.Metric):
    """Mean pairwise accuracy."""

    spec = SPEC
    parts = described.module_parts(SPEC)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
