"""Pairwise accuracy, how often a caption scores above its hard negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import MalformedRun
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray


def pairwise_accuracy(caption_scores: ArrayLike, negative_scores: ArrayLike) -> FloatArray:
    """Fraction of items whose image scores the caption strictly above its hard negative.

    A tie counts as wrong: constant scores get 0, random scores 1/2.

    Args:
        caption_scores: (P,) score of each image with its caption.
        negative_scores: (P,) score of the same image with the hard negative.

    Returns:
        (P,) zeros and ones.

    Raises:
        MalformedRun: scores are not finite, not one of each per item, or empty.

    References:
        Hsieh et al., SugarCrepe: Fixing Hackable Benchmarks for Vision-Language Compositionality, NeurIPS 2023, which
        also calls it Recall@1.

    Example:
        >>> pairwise_accuracy([0.9, 0.3, 0.5], [0.1, 0.4, 0.5]).tolist()
        [1.0, 0.0, 0.0]
    """
    captions, negatives = (np.asarray(scores) for scores in (caption_scores, negative_scores))
    if captions.ndim != 1 or captions.shape != negatives.shape or not captions.size:
        raise MalformedRun(
            f"scores of captions have shape {captions.shape}, those of negatives {negatives.shape}; need (P,) of each, "
            "P at least 1"
        )
    for name, scores in (("captions", captions), ("negatives", negatives)):
        if scores.dtype.kind not in "fiu" or not np.isfinite(scores).all():
            raise MalformedRun(f"scores of {name} are not all finite numbers")
    return (captions > negatives).astype(np.float64)


SPEC = Spec(
    function=pairwise_accuracy,
    title="accuracy",
    long_title="Pairwise accuracy",
    needs="comparisons",
    citation="Hsieh et al., NeurIPS 2023, arXiv:2306.14610",
    binary=True,
)
