"""The README of a built folder: every config, and how the folder was made."""

from __future__ import annotations

import hashlib

from huggingface_hub import DatasetCard

from cxc_eccv.builders.cards.card import ConfigMetadata, card_metadata, render_card
from cxc_eccv.builders.cards.markdown import code, table, text
from cxc_eccv.builders.cards.sections import citations, config_sections, licences, sources_of
from cxc_eccv.builders.summary import BuildSummary, SplitSummary
from cxc_eccv.sources.catalog import OFFICIAL, Catalog

__all__ = ["folder_card"]

TITLE = "CxC, ECCV Caption and entailment labels"

FOLDER = "path/to/this/folder"


def folder_card(summary: BuildSummary, catalog: Catalog) -> DatasetCard:
    """The card of a built folder, complete with ``configs`` and ``dataset_info``.

    Args:
        summary: what was built.
        catalog: where licences and citations come from.
    """
    declared = [parts[0].config for parts in summary.configs.values()]
    configs = [_metadata(parts) for parts in summary.configs.values()]
    metadata = card_metadata(TITLE, configs, summary.provenance.modified)
    groups = sources_of(declared)
    blocks = [f"# {TITLE}", _introduction(summary), *_modified(summary), "## Configs", _overview(summary)]
    for parts in summary.configs.values():
        statistics = {part.split: part.statistics for part in parts}
        config = parts[0].config
        blocks.append(f"## `{config.name}`: {config.title}")
        blocks += config_sections(config, parts[0].features, statistics, FOLDER, "###")
    blocks += ["## Build summary", *_build(summary)]
    blocks += ["## Licences", licences(groups, catalog, summary.provenance.sources)]
    return render_card(metadata.to_yaml(), [*blocks, "## Citations", citations(groups, catalog)])


def _metadata(parts: list[SplitSummary]) -> ConfigMetadata:
    sizes = {part.split: (part.shards.num_rows, part.shards.num_bytes) for part in parts}
    content = hashlib.sha256("".join(digest for part in parts for digest in part.shards.sha256).encode())
    file_bytes = sum(part.shards.file_bytes for part in parts)
    return ConfigMetadata(parts[0].config.name, parts[0].features, sizes, file_bytes, content.hexdigest())


def _introduction(summary: BuildSummary) -> str:
    default = next(iter(summary.configs))
    text = (
        "Image-caption judgments of MS-COCO from several sources as one dataset, in Parquet. It loads with plain "
        f"`datasets`, normally or with `streaming=True`; without a name, `load_dataset` gives `{default}`."
    )
    if summary.provenance.edition == OFFICIAL:
        return text
    return (
        f"{text}\n\nThis folder holds the edition {code(summary.provenance.edition)}, which is not the published data: "
        "how the labels were collected, and the known defects, are told of the official edition."
    )


def _modified(summary: BuildSummary) -> list[str]:
    modified = summary.provenance.modified
    if not modified:
        return []
    rows = [(code(name), code(hashes["expected"]), code(hashes["found"])) for name, hashes in modified.items()]
    return [
        "## Modified data",
        "This folder was built with `--allow-modified` from raw files that are not those of the edition. It is not the "
        "published data, and no number computed from it can be compared with a published one.",
        table(["raw file", "expected sha256", "found sha256"], rows),
    ]


def _overview(summary: BuildSummary) -> str:
    splits = list(dict.fromkeys(part.split for part in summary.splits))
    rows = []
    for name, parts in summary.configs.items():
        n_rows = {part.split: part.shards.num_rows for part in parts}
        rows.append((f"`{name}`", parts[0].config.title, *(n_rows.get(split) for split in splits)))
    return table(["config", "what", *splits], rows)


def _build(summary: BuildSummary) -> list[str]:
    provenance, options = summary.provenance, summary.options
    blocks = [
        f"- data edition {code(provenance.edition)}, version {text(provenance.data_version)}\n"
        f"- sha256 over its raw files `{provenance.fingerprint}`; `manifest.json` lists each\n"
        f"- built by cxc_eccv {provenance.package_version}\n"
        f"- policy `{options.policy}`; lowest positive ratings: STS {options.sts}, SIS {options.sis}, "
        f"SITS {options.sits}"
    ]
    pictured = [part for part in summary.splits if part.images_found + part.images_missing]
    if pictured:
        images = [(part.config.name, part.split, part.images_found, part.images_missing) for part in pictured]
        blocks.append(table(["config", "split", "images embedded", "images not found (null)"], images))
    left_out = [(*place, number) for place, number in summary.left_out.items()]
    if left_out:
        blocks += ["Left out:", table(["config", "split", "rule", "number"], left_out)]
    if summary.not_built:
        not_built = [(part.config, part.split, part.reason) for part in summary.not_built]
        blocks += ["Not built:", table(["config", "split", "reason"], not_built)]
    return blocks
