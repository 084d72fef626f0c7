"""The card of one config: its declaration, and the statistics that were computed from the real data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import datasets
from datasets.splits import SplitDict, SplitInfo
from huggingface_hub import DatasetCard, DatasetCardData

from cxc_eccv.builders.cards.markdown import code, text
from cxc_eccv.builders.cards.sections import citations, config_sections, licences, sources_of
from cxc_eccv.builders.config import DEFAULT_CONFIG, DatasetConfig
from cxc_eccv.sources.catalog import Catalog

__all__ = ["ConfigMetadata", "card_metadata", "config_card", "render_card"]


def config_card(config: DatasetConfig, statistics: Mapping[str, Any], catalog: Catalog) -> DatasetCard:
    """The card of a config.

    Args:
        config: the declaration.
        statistics: ``edition``, ``data_version``, ``fingerprint`` and ``configs``: config name to split name to what
            ``card_statistics.split_statistics`` gives; a config that is not in it gets a card without statistics.
        catalog: where licences and citations come from.

    Example:
        >>> from cxc_eccv.builders.config import dataset_configs
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


SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
)


@dataclass(frozen=True, slots=True)
class ConfigMetadata:
    """What the front matter says about one config.

    Attributes:
        name: config name.
        features: its columns.
        splits: split name to (rows, bytes uncompressed).
        download_size: bytes of its files, or None where none were written.
        content: sha256 over its files, or empty. ``datasets`` finds its cache of a local folder by the front matter
            alone, so without it other rows of equal size would be served from an old cache.
    """

    name: str
    features: datasets.Features
    splits: Mapping[str, tuple[int, int]]
    download_size: int | None = None
    content: str = ""


def card_metadata(
    title: str, configs: Sequence[ConfigMetadata], modified: Mapping[str, Mapping[str, str]] | None = None
) -> DatasetCardData:
    """Front matter with ``configs`` (files of every split) and ``dataset_info`` (features and sizes).

    ``captions`` is the default config where it is there, else the first one. Without the features older releases of
    ``datasets`` cannot read what newer ones write.

    Args:
        title: name of the dataset.
        configs: what it holds.
        modified: raw files that are not the catalog's, to ``expected`` and ``found`` sha256; they make the entry
            ``modified_data``, which is absent without any.

    Example:
        >>> features = datasets.Features({"text": datasets.Value("string")})
        >>> data = card_metadata("Demo", [ConfigMetadata("sts", features, {"test": (3, 60)})])
        >>> data.configs[0]["data_files"], data.dataset_info[0]["features"]
        ([{'split': 'test', 'path': 'sts/test-*.parquet'}], [{'name': 'text', 'dtype': 'string'}])
    """
    names = [config.name for config in configs]
    default = DEFAULT_CONFIG if DEFAULT_CONFIG in names else names[0]
    extra: dict[str, Any] = {}
    if modified:
        extra["modified_data"] = [{"file": name, **hashes} for name, hashes in modified.items()]
    n_rows = sum(rows for config in configs for rows, _ in config.splits.values())
    return DatasetCardData(
        pretty_name=title,
        language="en",
        multilinguality="monolingual",
        # Terms differ between the sources; the card lists them.
        license="other",
        license_name="terms-of-each-source",
        annotations_creators=["crowdsourced", "machine-generated"],
        language_creators="crowdsourced",
        size_categories=next((name for bound, name in SIZES if n_rows < bound), "n>100M"),
        task_categories=["image-to-text", "text-to-image", "sentence-similarity"],
        tags=["image-text-retrieval", "ms-coco", "crisscrossed-captions", "eccv-caption"],
        configs=[_files(config, config.name == default) for config in configs],
        dataset_info=[_info(config) for config in configs],
        **extra,
    )


def _files(config: ConfigMetadata, is_default: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"config_name": config.name}
    if config.splits:
        entry["data_files"] = [{"split": split, "path": f"{config.name}/{split}-*.parquet"} for split in config.splits]
    return entry | ({"default": True} if is_default else {})


def _info(config: ConfigMetadata) -> dict[str, Any]:
    splits = SplitDict()
    for split, (rows, num_bytes) in config.splits.items():
        splits.add(SplitInfo(split, num_bytes=num_bytes, num_examples=rows))
    known: dict[str, Any] = {"config_name": config.name}
    if config.content:
        known["description"] = f"sha256 {config.content}"
    info = datasets.DatasetInfo(
        features=config.features,
        splits=splits or None,
        download_size=config.download_size,
        dataset_size=sum(num_bytes for _, num_bytes in config.splits.values()) or None,
    )
    return known | {key: value for key, value in info._to_yaml_dict().items() if value is not None}
