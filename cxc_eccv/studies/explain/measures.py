"""The four numbers of failures: plain, of the concepts that the query mentions, and against the best rival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.metrics.concept_agreement import concept_agreement
from cxc_eccv.metrics.concept_enumeration import concept_enumeration
from cxc_eccv.metrics.non_common_similarity import non_common_similarity
from cxc_eccv.metrics.size_disagreement import size_disagreement
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs, Similarity

__all__ = ["keep_mentioned", "measure_failures", "subtract_best"]

MEASURES = ("concept_agreement", "non_common_similarity", "concept_enumeration", "size_disagreement")
"""The four numbers of a failure, in the order of the paper."""

OF_TRUTH = "size_disagreement_truth"
"""SD with differences as shares of the right image's instance, and not of the smaller one of the two."""

MEASURED = (*MEASURES, OF_TRUTH)
"""The numbers that have variants."""

INFORMED, OVER_RIVAL = "_informed", "_over_rival"
"""Suffixes of the variants: of the concepts that the query mentions, and minus the best of the other candidates."""

OF_INSTANCES = ("concept_enumeration", "size_disagreement", OF_TRUTH)
"""Numbers that need instances with their areas; lower is better."""


def measure_failures(pairs: ConceptPairs, similarity: Similarity, *, counted: bool = True) -> dict[str, FloatArray]:
    """All metrics of failures; size disagreement twice, as the paper does not say what it is relative to.

    Args:
        pairs: the concepts of both images of F failures.
        similarity: similarity of concepts, such as :func:`cxc_eccv.sources.wordnet.similarity_matrix`.
        counted: whether instances are known with their areas; without them, only concept agreement and similarity can
            be computed.

    Returns:
        Name of each metric to (F,) values, NaN if undefined. ``size_disagreement`` is relative to the smaller instance
        of a match, ``size_disagreement_truth`` to the right image's.

    Raises:
        DataError: ``counted``, and a concept has no instances or areas.

    Example:
        >>> truth, retrieved = {"dog": np.array([0.5]), "ball": np.array([0.1])}, {"dog": np.array([0.2])}
        >>> pairs = ConceptPairs(np.array([1]), [truth], [retrieved])
        >>> values = measure_failures(pairs, lambda names: np.eye(len(names)))
        >>> {name: array.tolist() for name, array in values.items() if name.startswith("c")}
        {'concept_agreement': [0.5], 'concept_enumeration': [0.0]}
        >>> {name: array.tolist() for name, array in values.items() if not name.startswith("c")}
        {'non_common_similarity': [nan], 'size_disagreement': [1.0], 'size_disagreement_truth': [0.0]}
    """
    values = [concept_agreement(pairs), non_common_similarity(pairs, similarity)]
    if counted:
        values += [concept_enumeration(pairs), size_disagreement(pairs), size_disagreement(pairs, "truth")]
    return dict(zip(MEASURED, values, strict=False))


def keep_mentioned(pairs: ConceptPairs, mentions: Sequence[AbstractSet[str]]) -> tuple[ConceptPairs, NDArray[np.bool_]]:
    """Reduce pairs to the concepts that the query mentions, which makes every metric its query-informed variant.

    The right image keeps the concepts that the query mentions. The retrieved one keeps these, and those that only it
    shows: NCS compares mentioned, missing concepts with any that take their place. CA, CE and SD are about common
    concepts, so they use only the mentioned ones.

    Args:
        pairs: the concepts of both images of F failures.
        mentions: F sets of concepts, such as those of ``find_mentions``.

    Returns:
        The M failures whose query mentions a concept of the right image, and the (F,) mask of these.

    Raises:
        DataError: the number of sets is not F.

    Example:
        >>> area = np.array([0.1])
        >>> dog, cat = {"dog": area, "tree": area}, {"cat": area, "tree": area}
        >>> cut, kept = keep_mentioned(ConceptPairs(np.array([7, 8]), [dog, cat], [cat, dog]), [{"dog"}, {"dog"}])
        >>> kept.tolist(), [list(shown) for shown in (*cut.truths, *cut.retrieved)]
        ([True, False], [['dog'], ['cat']])
    """
    if len(mentions) != len(pairs):
        raise DataError(f"{len(mentions)} sets of mentions for {len(pairs)} failures; give one for each")
    wanted = [truth.keys() & named for truth, named in zip(pairs.truths, mentions, strict=True)]
    kept = np.array([bool(names) for names in wanted], dtype=np.bool_)
    truths, retrieved = [], []
    for row in np.flatnonzero(kept).tolist():
        truth, seen = pairs.truths[row], pairs.retrieved[row]
        truths.append({name: areas for name, areas in truth.items() if name in wanted[row]})
        retrieved.append({name: areas for name, areas in seen.items() if name in wanted[row] or name not in truth})
    return ConceptPairs(pairs.query_ids[kept], truths, retrieved), kept


def subtract_best(retrieved: Mapping[str, FloatArray], others: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    r"""How much better the retrieved image is than the best other candidate.

    .. math:: \Delta m_f = m(I_g, I_r) - \operatorname{best}_{k \le K} m(I_g, I_k)

    over the next K images in the ranking other than the ground truth and the retrieved one. Each metric has its own
    best image. CE and SD compare the concepts that an image shares with the ground truth, so images that share none are
    left out: they would have the best enumeration of all.

    Args:
        retrieved: name of each metric, concept agreement among them, to (F,) values of the images at the top.
        others: the same names to (F, K) values of the candidates, NaN for no candidate.

    Returns:
        Name to (F,) differences; NaN if the metric is undefined for the retrieved image or for all others.

    Example:
        >>> top = {"concept_agreement": np.array([0.5]), "concept_enumeration": np.array([3.0])}
        >>> others = {"concept_agreement": np.array([[0.0, 0.25]]), "concept_enumeration": np.array([[0.0, 1.0]])}
        >>> {name: values.tolist() for name, values in subtract_best(top, others).items()}
        {'concept_agreement': [0.25], 'concept_enumeration': [2.0]}
    """
    differences = {}
    for name, values in retrieved.items():
        candidates, lower_is_better = others[name], name in OF_INSTANCES
        if lower_is_better:
            values = np.where(retrieved["concept_agreement"] > 0, values, np.nan)
            candidates = np.where(others["concept_agreement"] > 0, candidates, np.nan)
        best = (np.fmin if lower_is_better else np.fmax).reduce(candidates, axis=1, initial=np.nan)
        differences[name] = values - best
    return differences
