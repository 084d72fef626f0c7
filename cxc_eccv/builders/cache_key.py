"""What the rows of a config depend on, as one hash: the raw files, the options, and this package's code."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import cache
from importlib import resources
from pathlib import Path

from cxc_eccv.builders.config import BuildOptions, DatasetConfig
from cxc_eccv.sources.fetch import catalog_of, locate, sha256_of

__all__ = ["cache_key"]

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
    for group in config.sources:
        for entry in catalog.of_group(group):
            # A file that is not the catalog's is for its reader to refuse, and its content counts all the same.
            path = locate(entry.name, data_dir, allow_modified=True)
            facts.append(f"{entry.name} {'absent' if path is None else sha256_of(path)}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


@cache
def _code_hash() -> str:
    root = Path(str(resources.files("cxc_eccv")))
    files = sorted(path for part in CODE for path in (root / part).rglob("*") if path.suffix in {".py", ".toml"})
    code = hashlib.sha256()
    for path in files:
        code.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return code.hexdigest()
