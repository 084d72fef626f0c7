"""Which collections a run is about, so that a run on COCO is not asked for Flickr30k."""

from __future__ import annotations

from collections.abc import Iterable

from cxc_eccv.errors import DataError
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.collection import COCO, Collection
from cxc_eccv.types import positions_of

__all__ = ["collections_held"]

HELD_SHARE = 0.5


def collections_held(
    collections: Iterable[Collection], run: Run, library: Library, split: str
) -> dict[Collection, str | None]:
    """Collection to None where the run is about it, else to the reason why it is not.

    A run is about a collection when it holds more than half of its images, or of its captions where it has no images.
    One that is about none counts as one on COCO, so that the ids which COCO's tasks miss are named.

    Args:
        collections: which to look at, COCO among them.
        run: the model's results.
        library: the raw sources.
        split: ``validation`` or ``test``.

    Example:
        >>> from cxc_eccv.runs import RankingsRun
        >>> from cxc_eccv.tasks.collection import FLICKR30K
        >>> run = RankingsRun.from_dicts(t2i={7: [1, 2]})
        >>> held = collections_held([COCO, FLICKR30K], run, Library("sample"), "test")
        >>> held[COCO] is None, held[FLICKR30K]
        (True, 'Flickr30k is not on this machine; name the task to fetch it')
    """
    reasons = {one: _reason(one, run, library, split) for one in dict.fromkeys(collections) if one is not COCO}
    if any(reason is None for reason in reasons.values()):
        return {COCO: _reason(COCO, run, library, split), **reasons}
    return {COCO: None, **reasons}


def _reason(collection: Collection, run: Run, library: Library, split: str) -> str | None:
    if not collection.at_hand(library):
        return f"{collection.name} is not on this machine; name the task to fetch it"
    try:
        content = collection.content(library, split)
    except DataError as error:
        return str(error)
    side = "images" if run.ids("images").size else "captions"
    wanted = content.image_ids if side == "images" else content.caption_ids
    found = int(positions_of(wanted, run.ids(side))[1].sum())
    if found > HELD_SHARE * wanted.size:
        return None
    return f"the run holds {found:,} of the {wanted.size:,} {side} of {collection.name}"
