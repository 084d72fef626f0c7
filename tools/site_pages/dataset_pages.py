"""``docs/datasets``: one page per dataset config, with the statistics of its card, and their table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cxc_eccv.builders.dataset_cards import EXAMPLE_FOLDER, URL_CHARACTERS, config_sections
from cxc_eccv.builders.dataset_config import DatasetConfig, dataset_configs
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.terminal import markdown_table
from site_pages.parts import GENERATED

__all__ = ["dataset_page", "datasets_table", "statistics"]


def statistics(cards: Path) -> Mapping[str, Any]:
    """Config to split to the statistics that the dataset cards were made from."""
    configs: dict[str, Any] = json.loads((cards / "statistics.json").read_text(encoding="utf-8"))["configs"]
    return configs


def dataset_page(config: DatasetConfig, splits: Mapping[str, Any]) -> str:
    """The page of one config."""
    catalog = load_catalog()
    sources = ", ".join(
        f"[{catalog.group(name).title}]({quote(catalog.group(name).homepage, safe=URL_CHARACTERS)})"
        for name in config.sources
    )
    blocks = [
        GENERATED,
        f"# `{config.name}`",
        f"**{config.title}**",
        config_sections(config, config.features, splits, EXAMPLE_FOLDER, "##", brief=True),
        f"Sources: {sources}. Terms, BibTeX and more statistics: `dataset_cards/{config.name}.md`.",
    ]
    return "\n\n".join(blocks) + "\n"


def datasets_table() -> str:
    """A row for every config."""
    rows = [
        (f"[`{name}`]({name}.md)", config.title, ", ".join(config.splits)) for name, config in dataset_configs().items()
    ]
    return markdown_table(["config", "what", "splits"], rows)
