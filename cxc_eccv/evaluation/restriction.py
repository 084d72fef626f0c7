"""An evaluation on a part of a split: which images and captions take no part, and what a report says of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.runs.record import read_record
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import Collection
from cxc_eccv.types import IntArray, Judgments, RatedPairs, check_whole, sides_of
from cxc_eccv.types.altered import ALTERATIONS, altered_ids

__all__ = ["Restriction", "find_restriction", "first_images"]

Judged = TypeVar("Judged", Judgments, CategoryMatches, RatedPairs, Judgments | CategoryMatches | RatedPairs)


@dataclass(frozen=True, slots=True, eq=False)
class Restriction:
    """Images and captions that an evaluation leaves out, as if they had never been."""

    images: IntArray
    captions: IntArray
    facts: dict[str, Any]

    def apply(self, judged: Judged, direction: str) -> Judged:
        """What is left of the judgments of a direction, possibly no query."""
        if not self.facts:
            return judged
        altered: list[IntArray] = [altered_ids(kind, self.captions) for kind in ALTERATIONS]
        left_out = {"images": self.images, "captions": np.concatenate([self.captions, *altered])}
        query_side, gallery_side = sides_of(direction)
        return judged.without(left_out[query_side], left_out[gallery_side])


def find_restriction(
    run: Run,
    collections: Iterable[Collection],
    library: Library,
    split: str,
    *,
    limit: int | None = None,
    allow_missing: bool = False,
) -> Restriction:
    """What an evaluation leaves out of the collections whose tasks it computes."""
    if limit is not None:
        check_whole("limit", limit)
    if allow_missing and run.kind == "rankings":
        raise InvalidOption(
            "allow_missing (--allow-missing): rankings do not tell what they lack, vectors and scores do"
        )
    unreadable, is_query_corpus = _read_unreadable(run), isinstance(run, RankingsRun) and run.corpus is not None
    if limit is None and not allow_missing and not unreadable.size and not is_query_corpus:
        return Restriction(unreadable, unreadable, {})
    contents = [own.content(library, split) for own in dict.fromkeys(collections)]
    first = np.concatenate([first_images(own.image_ids, limit) for own in contents])
    images, captions, owners = (
        np.concatenate([getattr(own, name) for own in contents])
        for name in ("image_ids", "caption_ids", "caption_image_ids")
    )
    lost = np.intersect1d(unreadable, first)
    image_kept, caption_kept = np.isin(images, np.setdiff1d(first, lost)), np.isin(owners, first)
    if allow_missing:
        image_kept &= np.isin(images, run.ids("images")) | ("images" not in run.facts())
        caption_kept &= np.isin(captions, run.ids("captions")) | ("captions" not in run.facts())
    if is_query_corpus:
        caption_kept &= np.isin(captions, run.ids("captions"))
        if not caption_kept.any():
            raise MissingIds(
                f"{run.path or 'run'}: none of its queries is a caption of COCO's {split} split. Name the split that "
                "query-corpus ranked, with --split; other collections have no concepts to explain failures by."
            )
    facts: dict[str, Any] = {} if limit is None else {"limit": limit}
    facts |= {"allow_missing": True} if allow_missing else {}
    facts |= {"unreadable_images": int(lost.size)} if lost.size else {}
    left_out = np.sort(images[~image_kept]), np.sort(captions[~caption_kept])
    for side, kept in (("images", image_kept), ("captions", caption_kept)):
        if not kept.all():
            facts[side] = {"used": int(kept.sum()), "of": kept.size}
    if "images" not in facts and "captions" not in facts:
        return Restriction(*left_out, {})
    digest = hashlib.sha256(b" captions ".join(ids.tobytes() for ids in left_out)).hexdigest()
    return Restriction(*left_out, {**facts, "left_out_sha256": digest})


def first_images(image_ids: IntArray, limit: int | None) -> IntArray:
    """The images that a limit keeps: the first ones in the order of their ids; None keeps all."""
    return np.sort(image_ids)[:limit]


def _read_unreadable(run: Run) -> IntArray:
    """Images that the record beside a run's file names as left out, and that the run does not have."""
    record = {} if run.path is None else read_record(run.path) or {}
    skipped = record.get("skipped")
    names = skipped if isinstance(skipped, dict) else {}
    named = [int(number) for number in names if number.isdecimal() and len(number) < 19]
    return np.setdiff1d(np.array(named, dtype=np.int64), run.ids("images"))
