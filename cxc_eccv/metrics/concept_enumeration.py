"""Concept enumeration, CE."""

from __future__ import annotations

import numpy as np

from cxc_eccv.metrics.kinds import FailureMetric
from cxc_eccv.types import FloatArray
from cxc_eccv.types.concept_pairs import ConceptPairs


def concept_enumeration(pairs: ConceptPairs) -> FloatArray:
    """Difference in the number of instances, summed over the concepts that both images show.

    Per failure Σ_v |n_g(v) - n_r(v)| over the concepts v of both images, where n counts instances.

    Args:
        pairs: concepts of both images of F failures, with every instance; areas may be NaN.

    Returns:
        (F,) whole numbers from 0; 0 where no concept is common.

    Raises:
        DataError: a concept has no instances, as its source does not count them.

    References:
        Lymperaiou et al., COLING 2022, section 4.1.

    Example:
        >>> truth, retrieved = {"dog": np.full(10, 0.01), "disc": np.array([0.1])}, {"dog": np.array([0.2])}
        >>> concept_enumeration(ConceptPairs(np.array([1]), [truth], [retrieved])).tolist()
        [9.0]
    """
    pairs.refuse_uncounted("concept enumeration")
    values = np.zeros(len(pairs))
    for row, (truth, shown) in enumerate(zip(pairs.truths, pairs.retrieved, strict=True)):
        values[row] = sum(abs(truth[name].size - shown[name].size) for name in truth.keys() & shown.keys())
    return values


SPEC = FailureMetric(
    concept_enumeration,
    "CE",
    long_title="Concept enumeration",
    citation="Lymperaiou et al., COLING 2022, arXiv:2209.03723",
    bounds=(0.0, None),
    higher_is_better=False,
    unit="number",
)
