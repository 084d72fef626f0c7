"""Write the dataset folder: shards, manifest, the whole folder."""

from cxc_eccv.builders.writing.folder import build_folder
from cxc_eccv.builders.writing.manifest import FORMAT, MANIFEST_NAME, open_library, replaceable_files
from cxc_eccv.builders.writing.shards import conform, row_groups

__all__ = ["FORMAT", "MANIFEST_NAME", "build_folder", "conform", "open_library", "replaceable_files", "row_groups"]
