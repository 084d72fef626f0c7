"""Collection: the images and captions that a task ranks, with ids of their own."""

from collections.abc import Callable
from dataclasses import dataclass

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit

__all__ = ["COCO", "FLICKR8K", "FLICKR30K", "Collection"]


@dataclass(frozen=True, slots=True)
class Collection:
    """A data set's images and captions.

    Attributes:
        name: what messages call it.
        content: its images and captions for a library and a split.
        splits: the splits that a library has of it.
        at_hand: whether a library has it without a download; one that has not is read only for a task that was named.
    """

    name: str
    content: Callable[[Library, str], KarpathySplit]
    splits: Callable[[Library], tuple[str, ...]]
    at_hand: Callable[[Library], bool]


COCO = Collection("COCO", Library.karpathy, lambda library: library.splits, lambda _: True)
FLICKR30K = Collection(
    "Flickr30k", Library.flickr30k, lambda library: library.flickr30k_splits, lambda library: library.has_flickr30k
)
FLICKR8K = Collection(
    "Flickr8k", Library.flickr8k_split, lambda _: ("train", "validation", "test"), lambda library: library.has_flickr8k
)
