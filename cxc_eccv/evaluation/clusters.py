"""The image behind every query: queries of one image are resampled together."""

from __future__ import annotations

from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.collection import COCO, Collection
from cxc_eccv.types import IntArray, positions_of

__all__ = ["images_behind"]


def images_behind(
    query_ids: IntArray, library: Library, split: str, direction: str, collection: Collection = COCO
) -> IntArray:
    """(Q,) image id of each query: its own id, or that of the image a caption was written for.

    Args:
        query_ids: (Q,) ids of images or captions.
        library: the raw sources.
        split: where the captions are.
        direction: decides whether queries are images (``i2t``, ``i2i``) or captions.
        collection: whose images and captions they are.

    Example:
        >>> library = Library("sample")
        >>> captions = library.captions("test")
        >>> ids = captions["caption_id"].to_numpy()
        >>> bool((images_behind(ids, library, "test", "t2i") == captions["image_id"].to_numpy()).all())
        True
    """
    if direction.startswith("i"):
        return query_ids
    content = collection.content(library, split)
    return content.caption_image_ids[positions_of(query_ids, content.caption_ids)[0]]
