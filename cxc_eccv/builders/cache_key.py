"""What the rows of a config depend on, as one hash: the raw files, the options, and this package's code."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import cache
from importlib import resources
from pathlib import Path

from cxc_eccv.builders.config import BuildOptions, DatasetConfig
from cxc_eccv.sources.fetch import catalog_of, locate, sha256_of

__all__ = ["cache_key", "modified_at_hand"]

CODE = ("sources", "judgments", "builders")
"""Subpackages that decide what the rows are."""


def cache_key(config: DatasetConfig, data_dir: str | Path | None, options: BuildOptions) -> str:
    """Hex sha256 that changes whenever the rows may change.

    It covers the content of every raw file at hand among the sources of the config, which of them are absent, the
    edition and version of the data, the options, and the code of this package that makes the rows.

    Example:
        >>> from cxc_eccv.builders.discovery import dataset_configs
        >>> config = dataset_configs()["sts"]
        >>> keys = [cache_key(config, "sample", BuildOptions(sts=lowest)) for lowest in (3.0, 3.0, 4.0)]
        >>> keys[0] == keys[1], keys[1] == keys[2]
        (True, False)
    """
    catalog = catalog_of(data_dir)
    facts = [config.name, catalog.edition, catalog.version, repr(sorted(asdict(options).items())), _code_hash()]
    facts += [f"{name} {digest or 'absent'}" for name, digest in _digests(config, data_dir).items()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def modified_at_hand(config: DatasetConfig, data_dir: str | Path | None) -> dict[str, dict[str, str]]:
    """The raw files at hand, among the sources of the config, that are not the catalog's.

    Returns:
        Catalog name to ``expected`` and ``found``, both sha256.

    Example:
        >>> from cxc_eccv.builders.discovery import dataset_configs
        >>> modified_at_hand(dataset_configs()["sts"], "sample")
        {}
    """
    present = {name: digest for name, digest in _digests(config, data_dir).items() if digest is not None}
    return catalog_of(data_dir).modified(present)


def _digests(config: DatasetConfig, data_dir: str | Path | None) -> dict[str, str | None]:
    """Catalog name to sha256 of every file the config may read; None where it is not at hand."""
    entries = [entry for group in config.sources for entry in catalog_of(data_dir).of_group(group)]
    # A file that is not the catalog's is for its reader to refuse, and its content counts all the same.
    paths = {entry.name: locate(entry.name, data_dir, allow_modified=True) for entry in entries}
    return {name: None if path is None else sha256_of(path) for name, path in paths.items()}


@cache
def _code_hash() -> str:
    root = Path(str(resources.files("cxc_eccv")))
    files = sorted(path for part in CODE for path in (root / part).rglob("*") if path.suffix in {".py", ".toml"})
    code = hashlib.sha256()
    for path in files:
        code.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return code.hexdigest()
