"""The four numbers of many failures: plain, of what the query mentions, and against the best other candidate."""

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
from cxc_eccv.registry import metric
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs, Similarity

__all__ = ["keep_mentioned", "measure_failures", "subtract_best"]

Measured = Mapping[str, FloatArray]
"""Name of a metric to its values, NaN where it is not defined."""


def measure_failures(pairs: ConceptPairs, similarity: Similarity, *, counted: bool = True) -> dict[str, FloatArray]:
    """All metrics that explain failures.

    Args:
        pairs: what both images of F failures show.
        similarity: of concepts, such as :func:`cxc_eccv.explain.wordnet.similarity_matrix`.
        counted: whether instances are known with their areas; without them, two of the four can be told.

    Returns:
        Name of each metric to (F,) values; NaN where it is not defined: a mean is one over the others, with their
        number beside it.

    Raises:
        DataError: ``counted``, and a concept comes without instances or areas.

    Example:
        >>> truth, retrieved = {"dog": np.array([0.2]), "ball": np.array([0.1])}, {"dog": np.array([0.5])}
        >>> pairs = ConceptPairs(np.array([1]), [truth], [retrieved])
        >>> values = measure_failures(pairs, lambda names: np.eye(len(names)))
        >>> {name: own.tolist() for name, own in values.items() if name.startswith("c")}
        {'concept_agreement': [0.5], 'concept_enumeration': [0.0]}
        >>> {name: own.tolist() for name, own in values.items() if not name.startswith("c")}
        {'non_common_similarity': [nan], 'size_disagreement': [1.0]}
    """
    values = {
        "concept_agreement": concept_agreement(pairs),
        "non_common_similarity": non_common_similarity(pairs, similarity),
    }
    if counted:
        values |= {
            "concept_enumeration": concept_enumeration(pairs),
            "size_disagreement": size_disagreement(pairs),
        }
    return values


def keep_mentioned(pairs: ConceptPairs, mentions: Sequence[AbstractSet[str]]) -> tuple[ConceptPairs, NDArray[np.bool_]]:
    """What both images show of the concepts that the query mentions.

    Any metric of the result is its query-informed variant. A failure whose query mentions no concept of the ground
    truth has none; count it.

    Args:
        pairs: what both images of F failures show.
        mentions: F sets of concepts, such as :func:`cxc_eccv.explain.mentions.find_mentions` gives for the queries.

    Returns:
        The M failures whose query mentions a concept of the ground truth; and (F,) which these are.

    Raises:
        DataError: there is not one set per failure.

    Example:
        >>> area = np.array([0.1])
        >>> dog, park = {"dog": area, "tree": area}, {"park": area}
        >>> cut, kept = keep_mentioned(ConceptPairs(np.array([7, 8]), [dog, park], [park, dog]), [{"dog"}, {"dog"}])
        >>> cut.query_ids.tolist(), [list(truth) for truth in cut.truths], kept.tolist()
        ([7], [['dog']], [True, False])
    """
    if len(mentions) != len(pairs):
        raise DataError(f"{len(mentions)} queries say what they mention, of {len(pairs)} failures; give one for each")
    truths = [_keep(shown, named) for shown, named in zip(pairs.truths, mentions, strict=True)]
    kept = np.array([bool(truth) for truth in truths], dtype=np.bool_)
    rows = np.flatnonzero(kept).tolist()
    retrieved = [_keep(pairs.retrieved[row], mentions[row]) for row in rows]
    return ConceptPairs(pairs.query_ids[kept], [truths[row] for row in rows], retrieved), kept


def _keep(shown: Mapping[str, FloatArray], named: AbstractSet[str]) -> dict[str, FloatArray]:
    return {concept: areas for concept, areas in shown.items() if concept in named}


def subtract_best(retrieved: Measured, others: Measured) -> dict[str, FloatArray]:
    r"""How much better the retrieved image is than the best other candidate.

    .. math:: \Delta m_f = m(I_g, I_r) - \operatorname{best}_{k \le K} m(I_g, I_k)

    over the K images that come next in the ranking, neither the ground truth nor the retrieved one; the best has the
    highest value of a metric where higher is better, else the lowest, for each metric its own. CE and SD compare the
    concepts that an image shares with the ground truth: an image that shares none takes no part there, or it would
    have the best enumeration of all.

    Args:
        retrieved: name of each metric to (F,) values of the images at the top; concept agreement among them.
        others: the same names to (F, K) values of the candidates, NaN where there is none.

    Returns:
        Name to (F,) differences; NaN where the metric is defined for the retrieved image or for all others not.

    Example:
        >>> top = {"concept_agreement": np.array([0.5]), "concept_enumeration": np.array([3.0])}
        >>> others = {"concept_agreement": np.array([[0.0, 0.25]]), "concept_enumeration": np.array([[0.0, 1.0]])}
        >>> {name: values.tolist() for name, values in subtract_best(top, others).items()}
        {'concept_agreement': [0.25], 'concept_enumeration': [2.0]}
    """
    differences = {}
    for name, values in retrieved.items():
        spec, candidates = metric(name), others[name]
        if name in ("concept_enumeration", "size_disagreement"):
            values = np.where(retrieved["concept_agreement"] > 0, values, np.nan)
            candidates = np.where(others["concept_agreement"] > 0, candidates, np.nan)
        best = (np.fmax if spec.higher_is_better else np.fmin).reduce(candidates, axis=1, initial=np.nan)
        differences[name] = values - best
    return differences
