"""The part of a split that a request scores: its first images, what the run holds, without unreadable images."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.evaluation.request import Request, Sides
from cxc_eccv.runs.run import read_record
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.types import SIDES, IntArray
from cxc_eccv.types.provenance import RestrictionFacts, SideShare

NONE = np.empty(0, dtype=np.int64)


def find_parts(
    request: Request, library: Library, sides: Sides, collections: Iterable[Collection]
) -> dict[Collection, Split]:
    """Collection to the part of its split that is scored; empty if nothing restricts the whole splits."""
    if request.allow_missing and sides.may_be_cut:
        raise InvalidOption(
            "allow_missing (--allow-missing) is for vectors and scores; rankings do not show which items they lack"
        )
    unreadable = _read_unreadable(sides)
    if request.limit is None and not request.allow_missing and not unreadable.size and sides.corpus is None:
        return {}
    parts = {each: _restrict(library.split(request.split, each), request, sides, unreadable) for each in collections}
    if sides.corpus is not None and not any(part.caption_ids.size for part in parts.values()):
        raise MissingIds(
            f"{sides.path or 'run'}: none of its queries is a caption of COCO's {request.split} split. Give the split "
            "that query-corpus ranked with --split; other collections have no concepts to explain failures."
        )
    return parts


def _restrict(split: Split, request: Request, sides: Sides, unreadable: IntArray) -> Split:
    first = split.first(request.limit)
    lacking = dict.fromkeys(SIDES, NONE)
    for side in SIDES:
        if (request.allow_missing and sides.ids(side).size) or (sides.corpus is not None and side == "captions"):
            lacking[side] = np.setdiff1d(first.ids(side), sides.ids(side))
    return first.without(np.union1d(unreadable, lacking["images"]), lacking["captions"])


def describe_parts(request: Request, sides: Sides, parts: Iterable[Split]) -> RestrictionFacts:
    """What a report says of the parts that were scored; empty if nothing was left out."""
    parts = list(parts)
    left_out = [np.sort(np.concatenate([NONE, *(part.left_out(side) for part in parts)])) for side in SIDES]
    if not any(ids.size for ids in left_out):
        return RestrictionFacts()
    sizes = [sum(part.whole.ids(side).size for part in parts) for side in SIDES]
    images, captions = (
        SideShare(size - ids.size, size) if ids.size else None for size, ids in zip(sizes, left_out, strict=True)
    )
    first = np.concatenate([part.whole.first(request.limit).image_ids for part in parts])
    return RestrictionFacts(
        limit=request.limit,
        allow_missing=request.allow_missing or None,
        unreadable_images=int(np.intersect1d(_read_unreadable(sides), first).size) or None,
        images=images,
        captions=captions,
        left_out_sha256=hashlib.sha256(b" captions ".join(ids.tobytes() for ids in left_out)).hexdigest(),
    )


def _read_unreadable(sides: Sides) -> IntArray:
    """Images that the record beside the run's file lists as skipped, and that the run does not have."""
    record = {} if sides.path is None else read_record(sides.path) or {}
    skipped = record.get("skipped")
    names = skipped if isinstance(skipped, dict) else {}
    named = [int(number) for number in names if number.isdecimal() and len(number) < 19]
    return np.setdiff1d(np.array(named, dtype=np.int64), sides.ids("images"))
