"""How far metrics agree on the order of models: Kendall's tau-b for every pair of metrics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import kendalltau

from cxc_eccv.comparison.published import HEADLINES, eccv_caption_table
from cxc_eccv.errors import DataError
from cxc_eccv.types import FloatArray

__all__ = ["Agreement", "metric_agreement", "published_agreement"]

FEWEST_MODELS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Rank correlations between metrics.

    Attributes:
        metrics: (M,) keys.
        models: (N,) names of the models that were ranked.
        tau: (M, M) Kendall's tau-b in [-1, 1], symmetric, ones on the diagonal.
    """

    metrics: tuple[str, ...]
    models: tuple[str, ...]
    tau: FloatArray

    def between(self, one: str, other: str) -> float:
        """Tau-b of two metrics."""
        return float(self.tau[self.metrics.index(one), self.metrics.index(other)])


def metric_agreement(scores: Mapping[str, Mapping[str, float]], *, lower_is_better: Collection[str] = ()) -> Agreement:
    """Kendall's tau-b between the orders that metrics put models in.

    tau-b = (C - D) / sqrt((P - T1) (P - T2)) with C concordant and D discordant of all P pairs of models, T1 and T2
    the pairs that tie under one metric.

    Args:
        scores: metric to model to value; every metric has the same models.
        lower_is_better: metrics whose smaller values are better, for example ranks.

    Raises:
        DataError: no metric at all, metrics that differ in their models, fewer than 3 models, a value that is not
            finite, or a metric under which all models tie.

    References:
        Kendall, The treatment of ties in ranking problems, Biometrika 1945; Chun et al., ECCV 2022, Table 5.

    Example:
        >>> found = metric_agreement({"a": {"x": 1, "y": 2, "z": 3}, "b": {"x": 1, "y": 3, "z": 2}})
        >>> round(found.between("a", "b"), 4)
        0.3333
    """
    if not scores:
        raise DataError("no metric is given, so there is nothing to correlate")
    metrics, models = tuple(scores), tuple(next(iter(scores.values()), ()))
    values = {}
    for metric, of_model in scores.items():
        _check_models(metric, of_model, metrics[0], models)
        sign = -1.0 if metric in lower_is_better else 1.0
        values[metric] = sign * np.array([of_model[model] for model in models], dtype=float)
    tau = np.array([[kendalltau(values[one], values[other]).statistic for other in metrics] for one in metrics])
    return Agreement(metrics, models, tau)


def published_agreement() -> Agreement:
    """The agreement of 12 metrics over the 25 models of ECCV Caption: its Table 5, computed from its other tables.

    Equal to the printed table to two decimals except for PMRP with COCO 1K R@1, R@10, RSUM and ECCV Caption R@1, which
    are printed 0.01 higher. Table 4 prints the same PMRP, 57.65, for PCME (CutMix) and VSE infinity (WSL grid); tau-b
    counts them as tied. With VSE infinity above PCME all 66 entries are the printed ones.

    Example:
        >>> found = published_agreement()
        >>> round(found.between("coco_5k/recall_at_1", "eccv_caption/map_at_r"), 2)
        0.39
    """
    table = eccv_caption_table()
    return metric_agreement({key: table.scores_of(key) for key in HEADLINES})


def _check_models(metric: str, of_model: Mapping[str, float], first: str, models: tuple[str, ...]) -> None:
    if set(of_model) != set(models):
        odd = ", ".join(sorted(set(of_model) ^ set(models)))
        raise DataError(f"{metric} and {first} rank different models: only one of them has {odd}")
    if len(models) < FEWEST_MODELS:
        raise DataError(f"{metric} ranks {len(models)} models; a rank correlation needs at least {FEWEST_MODELS}")
    if not np.isfinite(list(of_model.values())).all():
        raise DataError(f"{metric}: a value is not finite")
    if len(set(of_model.values())) == 1:
        raise DataError(f"all models tie under {metric}: there is no order to correlate")
