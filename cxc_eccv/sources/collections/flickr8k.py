"""Flickr8k: 6,000 images in ``train``, 1,000 in ``validation`` and ``test``, whose pairs people judged."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.readers import SplitTables, read_flickr8k, split_flickr8k


def read_splits(paths: Sequence[Path]) -> dict[str, SplitTables]:
    """The three splits, from the files of the collection."""
    return split_flickr8k(paths, "train", "validation", "test")


COLLECTION = Collection(
    name="flickr8k",
    title="Flickr8k",
    photographs="flickr30k",  # its photographs are among those of Flickr30k, under the same photo numbers
    splits={"train": "train", "dev": "validation", "val": "validation", "validation": "validation", "test": "test"},
    files=("flickr8k_tokens", "flickr8k_train_images", "flickr8k_dev_images", "flickr8k_test_images"),
    read=read_splits,
    all_captions=("flickr8k_tokens", read_flickr8k),
)

JUDGED_COLLECTION = replace(
    COLLECTION, title="Flickr8k with human judgments", labels=("flickr8k_crowd", "flickr8k_experts")
)
"""Flickr8k where the judgments are on this machine too."""
