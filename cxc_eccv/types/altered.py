"""Altered captions of RoCOCO: their kinds, their ids, and ranks with and without them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.types.ids import IntArray, is_altered
from cxc_eccv.types.judged import Judgments, PositiveRanks

ALTERATIONS = ("same_concept", "diff_concept", "rand_voca", "danger")
"""RoCOCO's kinds: one word is replaced by one of the same concept, of another, by any word, or by a dangerous one."""


def altered_ids(kind: str, caption_ids: IntArray) -> IntArray:
    """(N,) ids of the altered versions of N captions; unique over captions and kinds."""
    if kind not in ALTERATIONS:
        raise UnknownName("kind of altered captions", kind, ALTERATIONS)
    return np.asarray(-(len(ALTERATIONS) * caption_ids + ALTERATIONS.index(kind) + 1))


@dataclass(frozen=True, slots=True, eq=False)
class AlteredRanks:
    """Ranks of positives without and with altered captions in the gallery.

    Attributes:
        plain: ranks of the positives among the original captions.
        altered: ranks of the same positives among original and altered captions.
        top_altered: (Q,) bool, whether the top item is altered; an altered item ranks above originals it ties with.
        top_ties: (Q,) bool, whether the best original and the best altered item have the same score.

    Raises:
        DataError: the queries differ, or a positive ranks higher with altered captions than without.

    Example:
        >>> plain, altered = PositiveRanks.of([[1], [3]]), PositiveRanks.of([[2], [3]])
        >>> AlteredRanks(plain, altered, np.array([True, False]), np.array([False, False])).altered.best.tolist()
        [2, 3]
    """

    plain: PositiveRanks
    altered: PositiveRanks
    top_altered: NDArray[np.bool_]
    top_ties: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if not np.array_equal(self.plain.query_ids, self.altered.query_ids):
            raise DataError("the rankings with and without altered captions have different queries")
        lifted = np.flatnonzero(self.altered.best < self.plain.best)
        if lifted.size:
            raise DataError(
                f"the best positive of query {self.plain.query_ids[lifted[0]]} has rank "
                f"{self.plain.best[lifted[0]]} without altered captions and a higher rank with them"
            )


def beside_altered(judgments: Judgments, kind: str) -> Judgments:
    """The judgments with the altered version of every caption appended to the gallery."""
    gallery = judgments.gallery_ids
    return replace(judgments, gallery_ids=np.concatenate([gallery, altered_ids(kind, gallery)]))


def without_altered(judgments: Judgments) -> Judgments:
    """The judgments with only original captions in the gallery; these come first in it."""
    return replace(judgments, gallery_ids=judgments.gallery_ids[~is_altered(judgments.gallery_ids)])
