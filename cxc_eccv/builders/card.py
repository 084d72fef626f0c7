"""The card of one config: its declaration, and the statistics that were computed from the real data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from huggingface_hub import DatasetCard

from cxc_eccv.builders.card_metadata import ConfigMetadata, card_metadata
from cxc_eccv.builders.card_sections import citations, config_sections, licences, sources_of
from cxc_eccv.builders.config import DatasetConfig
from cxc_eccv.builders.markdown import code, text
from cxc_eccv.sources.catalog import Catalog

__all__ = ["config_card", "render_card"]


def config_card(config: DatasetConfig, statistics: Mapping[str, Any], catalog: Catalog) -> DatasetCard:
    """The card of a config.

    Args:
        config: the declaration.
        statistics: ``edition``, ``data_version``, ``fingerprint`` and ``configs``: config name to split name to what
            ``card_statistics.split_statistics`` gives; a config that is not in it gets a card without statistics.
        catalog: where licences and citations come from.

    Example:
        >>> from cxc_eccv.builders.discovery import dataset_configs
        >>> from cxc_eccv.sources.catalog import load_catalog
        >>> nothing = {"edition": "official", "data_version": "1", "fingerprint": "0", "configs": {}}
        >>> card = config_card(dataset_configs()["sts"], nothing, load_catalog())
        >>> card.data.configs[0]["config_name"], "## Licences" in card.text
        ('sts', True)
    """
    splits = statistics["configs"].get(config.name, {})
    sizes = {split: (found["rows"], found["num_bytes"]) for split, found in splits.items()}
    metadata = card_metadata(f"cxc_eccv: {config.name}", [ConfigMetadata(config.name, config.features, sizes)])
    groups = sources_of([config])
    blocks = [
        f"# `{config.name}`: {config.title}",
        *config_sections(config, config.features, splits, "path/to/the/built/folder", "##"),
        f"The folder is written by `cxc-eccv build --output DIR`. Splits: {', '.join(config.splits)}.",
        "## Licences",
        licences(groups, catalog),
        "## Citations",
        citations(groups, catalog),
    ]
    if splits:
        blocks += ["## Data edition", _edition(splits, statistics)]
    return render_card(metadata.to_yaml(), blocks)


def render_card(metadata: str, blocks: list[str]) -> DatasetCard:
    """A card from its front matter and its Markdown blocks; empty blocks are left out."""
    body = "\n\n".join(block for block in blocks if block)
    return DatasetCard(f"---\n{metadata}\n---\n\n{body}\n", ignore_metadata_errors=False)


def _edition(splits: Mapping[str, Any], statistics: Mapping[str, Any]) -> str:
    return (
        f"The statistics cover {' and '.join(splits)} of edition {code(statistics['edition'])}, version "
        f"{text(statistics['data_version'])}; sha256 over its raw files `{statistics['fingerprint']}`."
    )
