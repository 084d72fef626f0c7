"""Non-common concept similarity, NCS."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs, Similarity


def non_common_similarity(pairs: ConceptPairs, similarity: Similarity) -> FloatArray:
    """How close the concepts that only one of the two images shows are to each other.

    The concepts of the ground truth alone, D_g = V(g) minus V(r), are matched one to one with those of the retrieved
    image alone, D_r = V(r) minus V(g), so that the similarities of the pairs have the largest sum; the value is their
    mean over the min(|D_g|, |D_r|) pairs. The paper prints the common concepts minus V(r), and minus V(g), which are
    both empty; its worked example has the sets above.

    Args:
        pairs: what both images of F failures show.
        similarity: from N concepts to their (N, N) similarities in [0, 1], NaN where unknown: WordNet's path similarity
            in the paper. It is asked once, for all concepts that need matching, in alphabetical order.

    Returns:
        (F,) values in [0, 1]; NaN where one of the two sets is empty, so that nothing can be matched.

    Raises:
        DataError: the similarities are not (N, N), not symmetric or not in [0, 1], or one that is needed is unknown.

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
    names = sorted({name for left, right in alone if left and right for name in left | right})
    values = np.full(len(pairs), np.nan)
    if not names:
        return values
    similarities = _check(similarity(names), len(names))
    places = {name: place for place, name in enumerate(names)}
    all_known = not np.isnan(similarities).any()
    for row, (left, right) in enumerate(alone):
        if left and right:
            rows, columns = sorted(map(places.__getitem__, left)), sorted(map(places.__getitem__, right))
            table = similarities[np.array(rows)[:, None], columns]
            if not all_known and np.isnan(table).any():
                lacking = np.argwhere(np.isnan(table))[0]
                one, other = names[rows[lacking[0]]], names[columns[lacking[1]]]
                raise DataError(
                    f"query {pairs.query_ids[row]} asks how similar {one} and {other} are, which nobody said; give it"
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
        raise DataError("similarities of concepts depend on the order of the two; give symmetric ones")
    return similarities


SPEC = Spec(
    function=non_common_similarity,
    title="NCS",
    long_title="Non-common concept similarity",
    needs="concept_similarity",
    citation="Lymperaiou et al., COLING 2022, arXiv:2209.03723",
)
