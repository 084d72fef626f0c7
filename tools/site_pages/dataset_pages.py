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
        _name_uncounted(config, splits),
        "How it was collected, and what is wrong with it: [The data and its defects](../data.md), and its card, "
        f"`dataset_cards/{config.name}.md`, which also has terms, BibTeX and more statistics. Sources: {sources}.",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _name_uncounted(config: DatasetConfig, splits: Mapping[str, Any]) -> str:
    """The splits that the statistics leave out: they count those of evaluations."""
    others = [f"`{split}`" for split in config.splits if split not in splits]
    return f"Not counted here: {', '.join(others)}, on which nothing is scored." if splits and others else ""


def datasets_table() -> str:
    """A row for every config."""
    rows = [
        (f"[`{name}`]({name}.md)", config.title, ", ".join(config.splits)) for name, config in dataset_configs().items()
    ]
    return markdown_table(["config", "what", "splits"], rows)
