"""Recall drop@K: a module for ``evaluate``."""

import evaluate

from cxc_eccv.adapters import described
from cxc_eccv.adapters.ranks import AlteredRankingModule
from cxc_eccv.metrics.recall_drop_at_k import SPEC


class RecallDropAtK(AlteredRankingModule, evaluate.Metric):
    """Recall drop@K."""

    spec = SPEC

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(**described.module_info(SPEC))
