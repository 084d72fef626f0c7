"""Sections that the card of a folder and the card of one config share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import datasets

from cxc_eccv.builders.cards.markdown import fenced, table, text
from cxc_eccv.builders.cards.statistics import fields_table, left_out_table, statistics_tables
from cxc_eccv.builders.config import DatasetConfig
from cxc_eccv.sources.catalog import Catalog

__all__ = ["citations", "config_sections", "licences", "sources_of"]

URL = ":/?#&=%~+,;@!$'*"
"""What stays as it is in an address; a parenthesis would end the link."""

IMAGE_FIELD = "the photograph, null where its file was not found"


def config_sections(
    config: DatasetConfig, features: datasets.Features, splits: Mapping[str, Mapping[str, Any]], path: str, level: str
) -> list[str]:
    """What, how collected, fields, statistics, defects and example of one config, as Markdown blocks.

    Args:
        config: the declaration.
        features: its columns, and the image column where there is one.
        splits: split name to statistics; empty where none were computed.
        path: what the example loads.
        level: prefix of the headings, as ``##``.
    """
    described = {**config.fields, "image": IMAGE_FIELD} if "image" in features else config.fields
    blocks = [config.description, f"{level} How it was collected", config.collection]
    blocks += [f"{level} Fields", fields_table(features, described), f"{level} Statistics"]
    if splits:
        blocks += [statistics_tables(features, splits), left_out_table(splits)]
    else:
        blocks.append("None were computed: its raw files were not at hand.")
    if config.defects:
        blocks += [f"{level} Known defects", "\n".join(f"- {defect}" for defect in config.defects)]
    split = "test" if "test" in (splits or config.splits) else next(iter(splits or config.splits))
    load = f'from datasets import load_dataset\n\ndataset = load_dataset("{path}", "{config.name}", split="{split}")'
    return [*blocks, f"{level} Example", fenced(f"{load}\n{textwrap.dedent(config.example)}", "python")]


def sources_of(configs: Iterable[DatasetConfig]) -> list[str]:
    """Names of the catalog groups the configs draw on, each once, in the order of first use."""
    return list(dict.fromkeys(name for config in configs for name in config.sources))


def licences(groups: Iterable[str], catalog: Catalog, used: Iterable[str] | None = None) -> str:
    """Terms of every source as a table.

    Args:
        groups: names of catalog groups.
        catalog: the catalog in force.
        used: names of the raw files read, whose own terms count; None for the terms of the group.

    Example:
        >>> from cxc_eccv.sources.catalog import load_catalog
        >>> print(licences(["pcme"], load_catalog()))
        | source | terms |
        |---|---|
        | [PCME caption ids](https://github.com/naver-ai/pcme) | MIT (NAVER Corp.) |
    """
    names = None if used is None else set(used)
    rows = []
    for name in groups:
        group = catalog.group(name)
        read = [entry for entry in catalog.of_group(name) if names is not None and entry.name in names]
        terms = dict.fromkeys(entry.licence for entry in read) or [group.licence]
        rows.append((f"[{text(group.title)}]({quote(group.homepage, safe=URL)})", text("; ".join(terms))))
    return table(["source", "terms"], rows)


def citations(groups: Iterable[str], catalog: Catalog) -> str:
    """BibTeX of every paper the groups name, each once, as a code block.

    Example:
        >>> from cxc_eccv.sources.catalog import load_catalog
        >>> print(citations(["cxc"], load_catalog()).splitlines()[1])
        @inproceedings{parekh2021crisscrossed,
    """
    keys = dict.fromkeys(key for name in groups for key in catalog.group(name).citations)
    papers = "\n\n".join(catalog.citations[key].strip() for key in keys)
    return fenced(papers, "bibtex")
