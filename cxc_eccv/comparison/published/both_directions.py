"""Scores of a whole image-text task from those of its two directions: their mean, and RSUM."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cxc_eccv.metrics.rsum import SPEC, rsum

__all__ = ["both_directions"]

SUMMED_TASK = "coco_1k"
GUARD_DIGITS = 9
"""Means are rounded to these decimals: equal means of printed figures are to be equal as floats too."""


def both_directions(scores: Mapping[str, float]) -> dict[str, float]:
    """Means over ``i2t`` and ``t2i`` of every metric that has both, and RSUM of COCO 1K.

    ECCV Caption compares models by these means (Tables 4 and 5).

    Args:
        scores: key (``task/direction/metric``) to value.

    Returns:
        Key without direction (``task/metric``) to value.

    Example:
        >>> both_directions({"coco_5k/i2t/recall_at_1": 0.5, "coco_5k/t2i/recall_at_1": 0.25, "cxc/t2t/mrr": 0.5})
        {'coco_5k/recall_at_1': 0.375}
    """
    means = {}
    for key, value in scores.items():
        task, _, rest = key.partition("/i2t/")
        other = scores.get(f"{task}/t2i/{rest}")
        if rest and other is not None:
            means[f"{task}/{rest}"] = round((value + other) / 2, GUARD_DIGITS)
    recalls = [means.get(f"{SUMMED_TASK}/{label}") for label in SPEC.inputs]
    if None not in recalls:
        means[f"{SUMMED_TASK}/rsum"] = round(float(rsum(np.repeat(np.array(recalls, dtype=float), 2))), GUARD_DIGITS)
    return means
