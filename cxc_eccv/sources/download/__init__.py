"""A raw file onto this machine: fetched, verified, resumed."""

from cxc_eccv.sources.download.access import (
    catalog_of,
    encodings_folder,
    fetch,
    image_folder,
    locate,
    mirror_folder,
    offline_reason,
    state,
    tables_folder,
    where_from,
)
from cxc_eccv.sources.reading import sha256_of

__all__ = [
    "catalog_of",
    "encodings_folder",
    "fetch",
    "image_folder",
    "locate",
    "mirror_folder",
    "offline_reason",
    "sha256_of",
    "state",
    "tables_folder",
    "where_from",
]
