"""Judgments in the form that ranking needs: the positives of every query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cxc_eccv.errors import UnknownName
from cxc_eccv.judgments.evidence import Thresholds, item_ids
from cxc_eccv.judgments.merge import merge
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.types import Judgments, positions_of

__all__ = ["coco_links", "cxc_rated", "eccv_caption", "flickr8k_links", "flickr30k_links", "merged_qrels"]


def merged_qrels(
    library: Library,
    split: str,
    direction: str,
    *,
    sources: Sequence[str] = ("coco", "cxc"),
    policy: str = "union",
    thresholds: Thresholds | None = None,
) -> Judgments:
    """Positives of the merged judgments; queries without a positive are left out.

    The default is the CxC paper's retrieval protocol: original COCO links and rated positives together.

    Args:
        library: the raw sources.
        split: ``validation`` or ``test``; any split for ``sources=("coco",)``.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``; in the last two a query is not in its own gallery.
        sources: which of ``coco``, ``cxc``, ``eccv``, ``entailment`` to consult.
        policy: as in :func:`cxc_eccv.judgments.merge.merge`.
        thresholds: lowest CxC ratings that count as positive; the paper's by default.

    Example:
        >>> merged_qrels(Library("sample"), "test", "t2t").without_self
        True
    """
    pairs = merge(library, split, direction, sources=sources, policy=policy, thresholds=thresholds)
    queries, items = pairs.queries[pairs.positive], pairs.items[pairs.positive]
    asked = np.flatnonzero(np.bincount(queries, minlength=1))
    return Judgments.from_pairs(
        pairs.query_ids[asked],
        pairs.gallery_ids,
        pairs.query_ids[queries],
        pairs.gallery_ids[items],
        without_self=direction in ("t2t", "i2i"),
    )


def coco_links(library: Library, split: str, direction: str) -> Judgments:
    """The original COCO links alone, as in COCO 1K and 5K; for t2t, captions of the same image."""
    return merged_qrels(library, split, direction, sources=("coco",))


def flickr8k_links(library: Library, split: str, direction: str) -> Judgments:
    """The original links of a Flickr8k split, between Flickr's photo numbers and caption ids made of them.

    Args:
        library: the raw sources.
        split: ``train``, ``validation`` or ``test``.
        direction: ``i2t`` or ``t2i``.

    Raises:
        UnknownName: no such direction.
        DataError: a raw file is missing, or there is no such split.
    """
    return _links(library.flickr8k_split(split), direction, "Flickr8k")


def flickr30k_links(library: Library, split: str, direction: str) -> Judgments:
    """The original links of a Flickr30k split, between Flickr's photo numbers and the captions' ``sentid``.

    Args:
        library: the raw sources.
        split: ``train``, ``validation`` or ``test``.
        direction: ``i2t`` or ``t2i``.

    Raises:
        UnknownName: no such direction.
        DataError: the raw files at hand do not hold this split.
    """
    return _links(library.flickr30k(split), direction, "Flickr30k")


def _links(content: KarpathySplit, direction: str, collection: str) -> Judgments:
    images, captions = content.image_ids, content.caption_ids
    if direction == "i2t":
        return Judgments.from_pairs(images, captions, content.caption_image_ids, captions)
    if direction == "t2i":
        return Judgments.from_pairs(captions, images, captions, content.caption_image_ids)
    raise UnknownName(f"direction of {collection}", direction, ("i2t", "t2i"))


def cxc_rated(library: Library, split: str, direction: str, *, thresholds: Thresholds | None = None) -> Judgments:
    """CxC's rated pairs alone, as the eccv_caption package counts them; a COCO link rated under 3 is no positive."""
    return merged_qrels(library, split, direction, sources=("cxc",), thresholds=thresholds)


def eccv_caption(library: Library, direction: str) -> Judgments:
    """Positives of ECCV Caption on the test split; each direction has its own queries.

    Two captions that image queries name are outside the 25,000; they count as unreachable positives.

    Example:
        >>> qrels = eccv_caption(Library("sample"), "i2t")
        >>> int(qrels.unreachable.sum())
        1
    """
    table = library.eccv("eccv", direction)
    queries = np.asarray(table["query_id"])
    all_queries, gallery_ids = item_ids(library, "test", direction)
    asked = all_queries[positions_of(all_queries, np.unique(queries))[1]]
    return Judgments.from_pairs(asked, gallery_ids, queries, np.asarray(table["item_id"]))
