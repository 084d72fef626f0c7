"""What people said of Flickr8k's image-caption pairs: verdicts of the crowd for retrieval, and all ratings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import UnknownName
from cxc_eccv.sources.library import Split
from cxc_eccv.sources.readers import read_flickr8k_crowd, read_flickr8k_experts
from cxc_eccv.sources.reading import require_known
from cxc_eccv.types import CROSS_MODAL, IntArray, Judgments, RatedPairs
from cxc_eccv.types.judgments import orient

NEGATIVE = 0
LINKED = 1
FOUND = 2
"""Verdicts: judged no match, a match that the original links have, a match beyond them."""


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """Pairs of the test split and the crowd's votes on them; an original pair is linked whatever they say."""

    images: IntArray  # (P,) ids
    captions: IntArray
    yes: IntArray  # (P,) votes
    no: IntArray
    linked: NDArray[np.bool_]  # (P,) the caption was written for the image

    @property
    def undecided(self) -> NDArray[np.bool_]:
        """(P,) as many for yes as for no, of a pair that is not linked."""
        return np.asarray((self.yes == self.no) & ~self.linked)


def read_votes(split: Split) -> Votes:
    """The crowd's votes, with the original links."""
    table = read_crowd(split)
    images, captions, yes, no = (np.asarray(table[name]) for name in ("image_id", "caption_id", "yes", "no"))
    return Votes(images, captions, yes, no, split.owners_of(captions) == images)


def read_crowd(split: Split) -> pa.Table:
    """``image_id``, ``caption_id``, ``yes``, ``no``: the crowd's votes on pairs of the test split."""
    return _read_judged(split, "flickr8k_crowd", read_flickr8k_crowd)


def read_experts(split: Split) -> pa.Table:
    """``image_id``, ``caption_id``, ``rating1``, ``rating2``, ``rating3``: experts' ratings from 1 to 4."""
    return _read_judged(split, "flickr8k_experts", read_flickr8k_experts)


def _read_judged(split: Split, name: str, reader: Callable[[Path], pa.Table]) -> pa.Table:
    """The table of a raw file; refuse pairs outside the split."""
    table = split.library.read(name, reader)
    for column, ids in (("image_id", split.image_ids), ("caption_id", split.caption_ids)):
        expected = f"an id of {split.collection.title}'s {split.name} split"
        require_known(split.library.path(name), np.asarray(table[column]), ids, "line {line}", column, expected)
    return table


def flickr8k_verdicts(split: Split, direction: str) -> Judgments:
    """Judged pairs with a verdict as gain: 0 for a majority of no, 1 for an original link, 2 for any other match.

    The gallery is what the crowd was asked about: the 1,000 test images and one caption of each. An original pair is
    positive whatever the votes say; a pair with as many votes for yes as for no is left out, as unjudged.

    Example:
        >>> list(VERDICT_TITLES.values())
        ['judged no match', 'original link', 'match beyond the links']
    """
    votes = read_votes(split)
    asked = split.caption_ids[np.isin(split.caption_ids, votes.captions)]
    verdicts = np.where(votes.linked, LINKED, np.where(votes.yes > votes.no, FOUND, NEGATIVE))
    # Every caption is a link of its image, whether anybody was asked about the two or not.
    owners = split.caption_image_ids[np.isin(split.caption_ids, votes.captions)]
    decided = ~votes.undecided & ~votes.linked
    images = np.concatenate([votes.images[decided], owners])
    captions = np.concatenate([votes.captions[decided], asked])
    gains = np.concatenate([verdicts[decided], np.full(asked.size, LINKED)]).astype(np.float64)
    if direction not in CROSS_MODAL:
        raise UnknownName("direction of Flickr8k", direction, CROSS_MODAL)
    ids = orient(split.image_ids, asked, direction)
    pairs = orient(images, captions, direction)
    return Judgments.from_pairs(*ids, *pairs, gains=gains)


VERDICT_TITLES = {NEGATIVE: "judged no match", LINKED: "original link", FOUND: "match beyond the links"}


def flickr8k_human(split: Split, direction: str) -> Judgments:
    """The positives of :func:`flickr8k_verdicts`: original links and pairs with a majority of yes."""
    judged = flickr8k_verdicts(split, direction)
    positive = np.asarray(judged.gains) > 0
    queries = judged.query_ids[judged.rows[positive]]
    items = judged.gallery_ids[judged.indices[positive]]
    return Judgments.from_pairs(judged.query_ids, judged.gallery_ids, queries, items)


def crowd_ratings(split: Split) -> RatedPairs:
    """The share of yes, 0 to 1, of every pair but an image's own captions; images are the queries."""
    votes = read_votes(split)
    kept = ~votes.linked
    shares = votes.yes[kept] / (votes.yes + votes.no)[kept]
    return RatedPairs(votes.images[kept], votes.captions[kept], shares)


def expert_ratings(split: Split) -> RatedPairs:
    """Every single rating, 1 to 4, of every pair but an image's own captions: a pair is there three times."""
    table = read_experts(split)
    images, captions = (np.asarray(table[name]) for name in ("image_id", "caption_id"))
    ratings = np.stack([np.asarray(table[f"rating{number}"]) for number in (1, 2, 3)], axis=1)
    kept = split.owners_of(captions) != images
    return RatedPairs(
        np.repeat(images[kept], 3), np.repeat(captions[kept], 3), ratings[kept].ravel().astype(np.float64)
    )
