"""Non-common concept similarity, NCS."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.metrics.kinds import FailureMetric
from cxc_eccv.types import FloatArray
from cxc_eccv.types.concept_pairs import ConceptPairs, Similarity


def non_common_similarity(pairs: ConceptPairs, similarity: Similarity) -> FloatArray:
    """Similarity of the concepts that only one of the two images shows.

    The concepts D_g = V(g) minus V(r) of the ground truth are matched one to one with D_r = V(r) minus V(g) of the
    retrieved image so that the sum of their similarities is largest; the value is the mean over the matched pairs. The
    paper's formula subtracts from the common concepts, which leaves empty sets; its worked example uses these sets.

    Args:
        pairs: concepts of both images of F failures.
        similarity: from N concepts to their (N, N) similarities in [0, 1], NaN where unknown; the paper uses WordNet's
            path similarity. It is called once, with all concepts to match in alphabetical order.

    Returns:
        (F,) values in [0, 1]; NaN where one of the two sets is empty.

    Raises:
        DataError: the similarities are not (N, N), symmetric and in [0, 1], or a needed one is NaN.

    References:
        Lymperaiou et al., COLING 2022, section 4.1.

    Example:
        >>> some = np.array([])
        >>> truth, retrieved = {"dog": some, "ball": some}, {"dog": some, "disc": some, "sky": some}
        >>> pair = ConceptPairs(np.array([1]), [truth], [retrieved])
        >>> alike = np.array([[1.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.0]])
        >>> non_common_similarity(pair, lambda names: alike if names == ["ball", "disc", "sky"] else None).tolist()
        [0.5]
    """
    from scipy.optimize import linear_sum_assignment  # not at the top: every command imports all metrics

    both = zip(pairs.truths, pairs.retrieved, strict=True)
    alone = [(truth.keys() - shown.keys(), shown.keys() - truth.keys()) for truth, shown in both]
    compared = [left | right for left, right in alone if left and right]
    names = sorted(set().union(*compared))
    values = np.full(len(pairs), np.nan)
    if not names:
        return values
    similarities = _check(similarity(names), len(names))
    places = {name: place for place, name in enumerate(names)}
    all_known = not np.isnan(similarities).any()
    for row, (left, right) in enumerate(alone):
        if left and right:
            rows = sorted(map(places.__getitem__, left))
            columns = sorted(map(places.__getitem__, right))
            table = similarities[np.array(rows)[:, None], columns]
            if not all_known and np.isnan(table).any():
                lacking = np.argwhere(np.isnan(table))[0]
                raise DataError(
                    f"query {pairs.query_ids[row]} needs the similarity of {names[rows[lacking[0]]]} and "
                    f"{names[columns[lacking[1]]]}, which is NaN; provide it"
                )
            if 1 in table.shape:
                values[row] = table.max()
            else:
                values[row] = table[linear_sum_assignment(table, maximize=True)].mean()
    return values


def _check(similarities: FloatArray, size: int) -> FloatArray:
    if similarities.shape != (size, size):
        raise DataError(f"similarities of {size} concepts have the shape {similarities.shape}, not ({size}, {size})")
    if ((similarities < 0) | (similarities > 1)).any():
        raise DataError("similarities of concepts are not all in [0, 1]; WordNet's path similarity is")
    if not np.array_equal(similarities, similarities.T, equal_nan=True):
        raise DataError("similarities of concepts are not symmetric; give both orders of a pair the same value")
    return similarities


SPEC = FailureMetric(
    non_common_similarity,
    "NCS",
    long_title="Non-common concept similarity",
    citation="Lymperaiou et al., COLING 2022, arXiv:2209.03723",
    packages=("scipy",),
)
