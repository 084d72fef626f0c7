"""Dataset cards, from the configs' declarations and from statistics of the data; ``templates`` has their text."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import datasets
from datasets.splits import SplitDict, SplitInfo
from huggingface_hub import DatasetCard, DatasetCardData

from cxc_eccv.builders.dataset_config import DEFAULT_CONFIG, DatasetConfig
from cxc_eccv.builders.output import BuildSummary, SplitSummary
from cxc_eccv.builders.statistics import (
    SplitStatistics,
    fields_table,
    left_out_table,
    made_with_line,
    rows_table,
    statistics_tables,
)
from cxc_eccv.sources.catalog import OFFICIAL, Catalog
from cxc_eccv.terminal import code_block, code_span, markdown_table, markdown_text
from cxc_eccv.types.provenance import ModifiedFile

TEMPLATES = Path(__file__).parent / "templates"

FOLDER_TITLE = "CxC and ECCV Caption"
FOLDER_TITLE_WITH_ENTAILMENT = "CxC, ECCV Caption and entailment labels"
CARD_LANGUAGE = "en"
CARD_TAGS = ("image-text-retrieval", "ms-coco", "crisscrossed-captions", "eccv-caption")

LICENCE_FILE = "LICENSE.md"
"""The file of terms beside a card; the Hub links only to this name and to LICENSE."""

EXAMPLE_FOLDER = "cxc_eccv_data"  # The folder in the documentation's examples

URL_CHARACTERS = ":/?#&=%~+,;@!$'*"  # Characters not to quote in an address; a parenthesis would end a Markdown link

IMAGE_FIELD = "the photograph, null if its file was not found"

ConfigInfo = dict[str, Any]
"""A config's entry in ``dataset_info``, as ``datasets`` writes it."""

SIZE_CATEGORIES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "n>100M")


def config_card(config: DatasetConfig, statistics: Mapping[str, Any], catalog: Catalog) -> DatasetCard:
    """The card of one config; without statistics if ``statistics["configs"]`` lacks it."""
    splits = statistics["configs"].get(config.name, {})
    sizes = {split: (facts["rows"], facts["num_bytes"]) for split, facts in splits.items()}
    groups = list_groups([config])
    card: DatasetCard = DatasetCard.from_template(
        _front_matter(f"cxc_eccv: {config.name}", [dataset_info(config.name, config.features, sizes)]),
        str(TEMPLATES / "config.md.jinja"),
        config=config,
        built=EXAMPLE_FOLDER,
        sections=config_sections(config, config.features, splits, EXAMPLE_FOLDER, "##"),
        licences=licences(groups, catalog),
        citations=citations(groups, catalog),
        splits=list(splits),
        edition=code_span(statistics["edition"]),
        version=markdown_text(statistics["data_version"]),
        fingerprint=statistics["fingerprint"],
    )
    return card


def folder_card(summary: BuildSummary, catalog: Catalog) -> DatasetCard:
    """The card of a built folder: all configs, and how the folder was built."""
    provenance = summary.provenance
    groups = list_groups(parts[0].config for parts in summary.configs.values())
    infos = [_built_info(parts) for parts in summary.configs.values()]
    aliases: dict[str, str] = {}
    for parts in summary.configs.values():
        aliases |= dict.fromkeys(parts[0].config.aliases, parts[0].config.name)
    title = FOLDER_TITLE_WITH_ENTAILMENT if "entailment" in groups else FOLDER_TITLE
    card: DatasetCard = DatasetCard.from_template(
        _front_matter(title, infos, provenance.modified, aliases),
        str(TEMPLATES / "folder.md.jinja"),
        table=markdown_table,
        official=provenance.edition == OFFICIAL,
        edition=code_span(provenance.edition),
        version=markdown_text(provenance.data_version),
        provenance=provenance,
        options=summary.options,
        modified=[
            [code_span(name), code_span(file.expected), code_span(file.found)]
            for name, file in provenance.modified.items()
        ],
        labels=[_labels_line(name, facts, provenance.sources[name]) for name, facts in provenance.labels.items()],
        overview=_overview(summary),
        configs=[(parts[0].config, _built_sections(parts)) for parts in summary.configs.values()],
        images=[
            (part.config.name, part.split, part.images_found, part.images_missing)
            for part in summary.splits
            if part.images_found + part.images_missing
        ],
        left_out=[(*place, number) for place, number in summary.left_out.items()],
        not_built=[(part.config, part.split, part.reason) for part in summary.not_built],
        licences=licences(groups, catalog, provenance.sources),
        citations=citations(groups, catalog),
    )
    return card


def _labels_line(file: str, facts: Mapping[str, Any], sha256: str) -> str:
    """The source of labels, counts, and what is known of version, people, rule, terms and origin."""
    version = f", version {markdown_text(facts['version'])}" if facts.get("version") else ""
    people = f" by {facts['people']:,} people" if facts.get("people") else ""
    rule = f" by the rule {code_span(facts['rule'])}" if facts.get("rule") else ""
    terms = f"; licence {code_span(facts['licence'])}" if "licence" in facts else ""
    origin = f"; from {code_span(facts['repository'])} at `{facts['revision']}`" if "repository" in facts else ""
    return (
        f"`{file}`: source `{facts['name']}` of `pairs` and `retrieval`{version}: {facts['pairs']:,} pairs labelled"
        f"{people}, {facts['positive']:,} of them positive{rule}{terms}{origin}; sha256 `{sha256}`"
    )


def _built_info(parts: Sequence[SplitSummary]) -> ConfigInfo:
    sizes = {part.split: (part.shards.num_rows, part.shards.num_bytes) for part in parts}
    file_bytes = sum(sum(part.shards.sizes) for part in parts)
    # datasets identifies the cache of a local folder by its front matter: without a hash of the files it would return
    # rows of an older build of equal size.
    digests = chain.from_iterable(part.shards.sha256 for part in parts)
    content = hashlib.sha256("".join(digests).encode()).hexdigest()
    return dataset_info(parts[0].config.name, parts[0].features, sizes, file_bytes, f"sha256 {content}")


def _built_sections(parts: Sequence[SplitSummary]) -> str:
    statistics = {part.split: part.statistics for part in parts}
    return config_sections(parts[0].config, parts[0].features, statistics, None, "###")


def _overview(summary: BuildSummary) -> str:
    splits = list(dict.fromkeys(part.split for part in summary.splits))
    rows = []
    for name, parts in summary.configs.items():
        n_rows = {part.split: part.shards.num_rows for part in parts}
        rows.append((f"`{name}`", parts[0].config.title, *(n_rows.get(split) for split in splits)))
    return markdown_table(["config", "what", *splits], rows)


def dataset_info(
    name: str,
    features: datasets.Features,
    sizes: Mapping[str, tuple[int, int]],
    file_bytes: int | None = None,
    description: str = "",
) -> ConfigInfo:
    """One config's entry in ``dataset_info``; ``sizes`` are rows and uncompressed bytes by split."""
    splits = SplitDict()
    for split, (rows, num_bytes) in sizes.items():
        splits.add(SplitInfo(split, num_bytes=num_bytes, num_examples=rows))
    info = datasets.DatasetInfo(
        features=features,
        splits=splits or None,
        download_size=file_bytes,
        dataset_size=sum(num_bytes for _, num_bytes in sizes.values()) or None,
    )
    entry: ConfigInfo = {"config_name": name}
    if description:
        entry["description"] = description
    return entry | {key: value for key, value in info._to_yaml_dict().items() if value is not None}


def _front_matter(
    title: str,
    infos: Sequence[ConfigInfo],
    modified: Mapping[str, ModifiedFile] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> DatasetCardData:
    """Front matter, with features: without them older releases of ``datasets`` cannot read files of newer ones.

    ``aliases`` are further names of configs.
    """
    by_name = {info["config_name"]: info for info in infos}
    default = DEFAULT_CONFIG if DEFAULT_CONFIG in by_name else next(iter(by_name))
    configs = [_files(name, info, name == default) for name, info in by_name.items()]
    dataset_infos = list(infos)
    for alias, name in (aliases or {}).items():
        configs.append({**_files(name, by_name[name]), "config_name": alias})
        # A copy: YAML would write an entry that occurs twice as a reference to the first.
        dataset_infos.append({**deepcopy(by_name[name]), "config_name": alias})
    splits = chain.from_iterable(info.get("splits", ()) for info in infos)
    n_rows = sum(split["num_examples"] for split in splits)
    front_matter = DatasetCardData(
        pretty_name=title,
        language=CARD_LANGUAGE,
        multilinguality="monolingual",
        # The sources have different terms, which the card lists.
        license="other",
        license_name="terms-of-each-source",
        license_link=LICENCE_FILE,
        annotations_creators=["crowdsourced", "machine-generated"],
        language_creators="crowdsourced",
        size_categories=size_category(n_rows),
        task_categories=["image-to-text", "text-to-image", "sentence-similarity"],
        tags=list(CARD_TAGS),
        configs=configs,
        dataset_info=dataset_infos,
    )
    if modified:
        front_matter["modified_data"] = [{"file": name, **asdict(hashes)} for name, hashes in modified.items()]
    return front_matter


def size_category(n_rows: int) -> str:
    """The Hub's size category for a number of rows."""
    return SIZE_CATEGORIES[min(max(len(str(n_rows)) - 3, 0), 6)]


def _files(name: str, info: ConfigInfo, is_default: bool = False) -> dict[str, Any]:
    splits = [split["name"] for split in info.get("splits", ())]
    entry: dict[str, Any] = {"config_name": name}
    if splits:
        entry["data_files"] = [{"split": split, "path": f"{name}/{split}-*.parquet"} for split in splits]
    if is_default:
        entry["default"] = True
    return entry


def config_sections(
    config: DatasetConfig,
    features: datasets.Features,
    splits: SplitStatistics,
    path: str | None,
    level: str,
    *,
    brief: bool = False,
) -> str:
    """One config's part of a card, as Markdown; the example loads ``path``, or the folder that the card is in.

    With ``brief`` it is the first paragraph of the description, the fields and the numbers of rows.
    """
    split = "test" if "test" in (splits or config.splits) else next(iter(splits or config.splits))
    load = LOAD_HERE_CODE if path is None else LOAD_CODE.format(path)
    code = f'{load}"{config.name}", split="{split}")\n{textwrap.dedent(config.example)}'
    described = {**config.fields, "image": IMAGE_FIELD} if "image" in features else config.fields
    description = config.description.partition("\n\n")[0] if brief else config.description
    blocks = [description, code_block(code, "python")]
    blocks += [f"{level} Fields", fields_table(features, described)]
    if not brief:
        blocks += [f"{level} How it was collected", config.collection]
    if config.defects and not brief:
        blocks += [f"{level} Known defects", "\n".join(f"- {defect}" for defect in config.defects)]
    blocks += [f"{level} Statistics"]
    if not splits:
        blocks.append("Not computed: the raw files were missing.")
    elif brief:
        blocks += [made_with_line(splits), rows_table(features, splits)]
    else:
        blocks += [made_with_line(splits), statistics_tables(features, splits), left_out_table(splits)]
    return "\n\n".join(block for block in blocks if block)


LOAD_CODE = 'from datasets import load_dataset\n\ndataset = load_dataset("{}", '
LOAD_HERE_CODE = """\
# Run this in the folder itself.
import os

from datasets import load_dataset

dataset = load_dataset(os.getcwd(), """
"""Independent of the folder, so that the same data gives the same card; ``load_dataset(".")`` fails."""


def point_examples(card: str, repo_id: str) -> str:
    """Change the examples of a built folder's card to load a repository of the Hub."""
    return card.replace(LOAD_HERE_CODE, LOAD_CODE.format(repo_id))


def list_groups(configs: Iterable[DatasetConfig]) -> list[str]:
    """The catalog groups that configs use, each once, in the order of first use."""
    return list(dict.fromkeys(chain.from_iterable(config.sources for config in configs)))


def licences(groups: Iterable[str], catalog: Catalog, used: Iterable[str] | None = None) -> str:
    """A table of the terms of every source; for raw files that were ``used``, the terms of these files."""
    names = set(used or ())
    rows = []
    for name in groups:
        group = catalog.group(name)
        of_files = [entry.licence for entry in catalog.of_group(name) if entry.name in names]
        licence = "; ".join(dict.fromkeys(of_files or [group.licence]))
        rows.append(
            (f"[{markdown_text(group.title)}]({quote(group.homepage, safe=URL_CHARACTERS)})", markdown_text(licence))
        )
    return markdown_table(["source", "terms"], rows)


PHOTOGRAPH_TERMS = (
    "The photographs have other terms: the COCO Consortium does not own their copyright. Their use must "
    "follow the [Flickr terms of use](https://cocodataset.org/#termsofuse), and each photograph has the licence that "
    "its author chose on Flickr."
)


def licence_file(
    configs: Sequence[DatasetConfig], catalog: Catalog, used: Iterable[str] | None = None, *, images: bool = False
) -> str:
    """The text of ``LICENSE.md``: the terms of the sources, and the configs with their data."""
    groups = list_groups(configs)
    rows = []
    for name in groups:
        users = [f"`{config.name}`" for config in configs if name in config.sources]
        rows.append((markdown_text(catalog.group(name).title), ", ".join(users)))
    blocks = [
        "# Terms of each source",
        "The data comes from several sources and keeps the terms of each. If you pass it on, pass these terms on too.",
        licences(groups, catalog, used),
        "Configs with data of each source:",
        markdown_table(["source", "configs"], rows),
        *([PHOTOGRAPH_TERMS] if images else []),
    ]
    return "\n\n".join(blocks) + "\n"


def bibtex(groups: Iterable[str], catalog: Catalog) -> str:
    """BibTeX of the groups' papers, each once."""
    keys = dict.fromkeys(chain.from_iterable(catalog.group(name).citations for name in groups))
    return "\n\n".join(catalog.citations[key].strip() for key in keys)


def citations(groups: Iterable[str], catalog: Catalog) -> str:
    """BibTeX of the groups' papers as a code block."""
    return code_block(bibtex(groups, catalog), "bibtex")
