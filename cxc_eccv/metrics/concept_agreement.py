"""Concept agreement, CA."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import FailureMetric
from cxc_eccv.types import FloatArray
from cxc_eccv.types.concept_pairs import ConceptPairs


def concept_agreement(pairs: ConceptPairs) -> FloatArray:
    """Share of the ground truth's concepts that the retrieved image also shows.

    Per failure |V(g) ∩ V(r)| / |V(g)|, where V(g) are the concepts of the query's image and V(r) those of the image at
    rank 1. The number and size of the instances do not matter.

    Args:
        pairs: concepts of both images of F failures.

    Returns:
        (F,) values in [0, 1].

    References:
        Lymperaiou et al., Towards Explainable Evaluation of Language Models on the Semantic Similarity of Visual
        Concepts, COLING 2022, section 4.1. It prints its worked example, 3 of 11, as 27.28%.

    Example:
        >>> some = np.array([])
        >>> truth, retrieved = dict.fromkeys(["dog", "ball", "park"], some), dict.fromkeys(["dog", "park"], some)
        >>> concept_agreement(ConceptPairs(np.array([1]), [truth], [retrieved])).round(3).tolist()
        [0.667]
    """
    both = zip(pairs.truths, pairs.retrieved, strict=True)
    return np.array([len(truth.keys() & shown.keys()) / len(truth) for truth, shown in both], dtype=np.float64)


SPEC = FailureMetric(
    concept_agreement,
    "CA",
    long_title="Concept agreement",
    citation="Lymperaiou et al., COLING 2022, arXiv:2209.03723",
)
