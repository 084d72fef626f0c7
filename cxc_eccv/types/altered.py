"""Altered captions: the kinds of RoCOCO, ids among the captions of a split, and what they do to rankings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.types.ids import IntArray, is_altered
from cxc_eccv.types.judged import Judgments, PositiveRanks

ALTERATIONS = ("same_concept", "diff_concept", "rand_voca", "danger")
"""RoCOCO's kinds: one word of each caption becomes one of its concept, of another one, any word, or a dangerous one."""


def altered_ids(kind: str, caption_ids: IntArray) -> IntArray:
    """(N,) ids of what one kind of alteration made of N captions; no two captions or kinds share one."""
    if kind not in ALTERATIONS:
        raise UnknownName("kind of altered captions", kind, ALTERATIONS)
    return np.asarray(-(len(ALTERATIONS) * caption_ids + ALTERATIONS.index(kind) + 1))


@dataclass(frozen=True, slots=True, eq=False)
class AlteredRanks:
    """Rankings of originals, and the same with altered captions among them.

    Attributes:
        plain: ranks of the positives among the originals alone.
        altered: ranks of the same positives where altered captions are ranked too.
        top_altered: (Q,) bool, whether the first item is an altered one, which stands above whatever it ties with.
        top_ties: (Q,) bool, whether the best original has the same score as the best altered item.

    Raises:
        DataError: the two are not of the same queries, or altered captions lift a positive.

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
            raise DataError("altered ranks: the rankings with and without altered captions are of other queries")
        lifted = np.flatnonzero(self.altered.best < self.plain.best)
        if lifted.size:
            raise DataError(
                f"altered ranks: the best positive of query {self.plain.query_ids[lifted[0]]} stands at rank "
                f"{self.plain.best[lifted[0]]} without altered captions and higher with them"
            )


def beside_altered(judgments: Judgments, kind: str) -> Judgments:
    """The judgments with a gallery of its captions and, after them, what a kind of alteration made of each."""
    gallery = judgments.gallery_ids
    return replace(judgments, gallery_ids=np.concatenate([gallery, altered_ids(kind, gallery)]))


def without_altered(judgments: Judgments) -> Judgments:
    """The same with the originals alone in the gallery, which stand first in it."""
    return replace(judgments, gallery_ids=judgments.gallery_ids[~is_altered(judgments.gallery_ids)])
