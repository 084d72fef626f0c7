"""False rate: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.ranks import AlteredRankingModule
from cxc_eccv.metrics.false_rate import SPEC


class FalseRate(AlteredRankingModule, evaluate.Metric):
    """False rate."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
