"""The work that processes share: items, shards on disk, passes over them."""

from cxc_eccv.encoding.work.items import ImageItem, caption_items, image_items
from cxc_eccv.encoding.work.output_path import checked_output, held, parts_folder
from cxc_eccv.encoding.work.passes import Side, encoded, warn_of, write_whole
from cxc_eccv.encoding.work.shards import (
    FolderStore,
    MemoryStore,
    Notes,
    Shard,
    fingerprint,
    image_identity,
    processor_state,
    weights_fingerprint,
)

__all__ = [
    "FolderStore",
    "ImageItem",
    "MemoryStore",
    "Notes",
    "Shard",
    "Side",
    "caption_items",
    "checked_output",
    "encoded",
    "fingerprint",
    "held",
    "image_identity",
    "image_items",
    "parts_folder",
    "processor_state",
    "warn_of",
    "weights_fingerprint",
    "write_whole",
]
