"""A ``datasets`` builder of the configs, for Python and for ``loading_scripts``."""

from __future__ import annotations

import hashlib
import itertools
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from cxc_eccv.builders.dataset_config import (
    DEFAULT_CONFIG,
    BuildOptions,
    DatasetConfig,
    dataset_configs,
    select_configs,
)
from cxc_eccv.builders.image_columns import attach_images
from cxc_eccv.builders.output import conform, open_library, row_groups
from cxc_eccv.errors import InvalidOption, SourceMissing, UnknownName
from cxc_eccv.hashing import hash_content
from cxc_eccv.sources.catalog import SPLIT_NAMES, load_catalog
from cxc_eccv.sources.download import find_catalog, locate
from cxc_eccv.sources.library import Library


@dataclass
class CxcEccvConfig(datasets.BuilderConfig):  # type: ignore[misc] # datasets is untyped
    """A config with the user's ``options``, such as conflict policy and rating thresholds."""

    options: BuildOptions = field(default_factory=BuildOptions)

    def create_config_id(self, config_kwargs: dict[str, Any], custom_features: datasets.Features | None = None) -> str:
        """Name of the cache folder; it changes with the raw files, the options and the code."""
        if custom_features is not None:
            raise InvalidOption(f"the features of config {self.name!r} are fixed; cast the loaded dataset instead")
        return f"{self.name}-{cache_key(dataset_configs()[self.name], self.data_dir, self.options)[:16]}"


class CxcEccv(datasets.ArrowBasedBuilder):  # type: ignore[misc] # datasets is untyped
    """Builder of every config; takes a mirror folder or ``sample`` as ``data_dir``, and ``options``."""

    BUILDER_CONFIG_CLASS = CxcEccvConfig
    BUILDER_CONFIGS = [  # noqa: RUF012 - the name and kind that datasets looks for
        CxcEccvConfig(name=config.name, version=datasets.Version(load_catalog().version), description=config.title)
        for config in dataset_configs().values()
    ]
    DEFAULT_CONFIG_NAME = DEFAULT_CONFIG

    def __init__(
        self,
        cache_dir: str | None = None,
        dataset_name: str | None = None,
        config_name: str | None = None,
        **arguments: Any,  # noqa: ANN401 - forwarded
    ) -> None:
        self._library: Library | None = None
        self._tables: dict[str, pa.Table] = {}
        super().__init__(cache_dir, dataset_name or "cxc_eccv", config_name or DEFAULT_CONFIG, **arguments)

    def __getstate__(self) -> dict[str, Any]:
        # A copy in another process reads the raw files again.
        return {**self.__dict__, "_library": None, "_tables": {}}

    def splits_at_hand(self) -> list[str]:
        """Splits of the config that the raw files contain."""
        return [split for split in self._declared.splits if split in self.library.splits]

    @property
    def _declared(self) -> DatasetConfig:
        return dataset_configs()[self.config.name]

    @property
    def library(self) -> Library:
        """The raw sources, opened once in each process."""
        if self._library is None:
            self._library = open_library(self.config.data_dir, self.config.options)
        return self._library

    def _info(self) -> datasets.DatasetInfo:
        description = self._declared.description
        if self.config.options.allow_modified:
            digests = _digests(self._declared, self.config.data_dir)
            present = {name: digest for name, digest in digests.items() if digest is not None}
            for name, hashes in find_catalog(self.config.data_dir).modified(present).items():
                description += f"\n\nModified data: {name}, sha256 {hashes.found}, expected {hashes.expected}."
        return datasets.DatasetInfo(description=description, features=self._declared.features)

    def _split_generators(self, dl_manager: datasets.DownloadManager) -> list[datasets.SplitGenerator]:
        splits = self.splits_at_hand() if dl_manager.is_streaming else self._splits_with_rows()
        return [datasets.SplitGenerator(name=split, gen_kwargs={"split": split}) for split in splits]

    def _splits_with_rows(self) -> list[str]:
        reasons = {}
        for split in self.splits_at_hand():
            try:
                table = self._table(split)
            except SourceMissing as error:
                reasons[split] = str(error)
                continue
            if table.num_rows:
                self._tables[split] = table
            else:
                reasons[split] = "no row"
        if not self._tables:
            raise SourceMissing(
                "\n".join(f"{self.config.name}/{split}: {reason}" for split, reason in reasons.items())
                or f"the raw files on this machine have none of the splits {', '.join(self._declared.splits)}"
            )
        for split, reason in reasons.items():
            warnings.warn(f"split {split!r} of config {self.config.name!r} is left out: {reason}", stacklevel=2)
        return list(self._tables)

    def _table(self, split: str) -> pa.Table:
        rows = self._declared.rows(self.library.split(split, self._declared.data), self.config.options)
        return conform(rows.table, self._declared.features, f"{self.config.name}/{split}")

    def _generate_tables(self, split: str) -> Iterator[tuple[int, pa.Table]]:
        table = self._tables.pop(split) if split in self._tables else self._table(split)
        yield from enumerate(row_groups(table))


def load(
    name: str = DEFAULT_CONFIG,
    split: str | None = None,
    *,
    data_dir: str | Path | None = None,
    streaming: bool = False,
    images: str | Path | None = None,
    missing_images: str = "error",
    options: BuildOptions = BuildOptions(),  # noqa: B008 - frozen
    cache_dir: str | Path | None = None,
) -> datasets.Dataset | datasets.DatasetDict | datasets.IterableDataset | datasets.IterableDatasetDict:
    """Load a config from the raw files, through the cache of ``datasets``.

    Args:
        name: config.
        split: ``train``, ``restval``, ``validation`` (or ``val``), ``test``, a sum or slice of them as in
            ``datasets`` (``test[:10%]``); None for all splits on this machine.
        data_dir: local mirror folder, ``"sample"``, or None for ``CXC_ECCV_DATA``, else the download cache.
        streaming: make the rows while iterating, without a cache.
        images: folder with images; adds image columns as :func:`attach_images` does.
        missing_images: what to do with a row without its image: ``error``, ``null`` or ``drop``.
        options: conflict policy and rating thresholds.
        cache_dir: cache folder; None for the default of ``datasets``.

    Returns:
        A dataset, or a dictionary of datasets if ``split`` is None; iterable with ``streaming``.

    Raises:
        UnknownName: no such config or split.
        SourceMissing: raw files or an image are missing.
        DataError: the raw files on this machine lack the split.
        InvalidOption: a slice of a split cannot be streamed.

    Example:
        >>> import tempfile
        >>> dataset = load("sits", split="test", data_dir="sample", cache_dir=tempfile.mkdtemp())
        >>> dataset.column_names[:2], 0 <= dataset[0]["rating"] <= 5
        (['caption_id', 'caption'], True)
    """
    select_configs([name])
    builder = CxcEccv(
        None if cache_dir is None else str(cache_dir),
        config_name=name,
        data_dir=None if data_dir is None else str(data_dir),
        options=options,
    )
    wanted = None if split is None else _spell_out(split, builder)
    if streaming:
        try:
            dataset = builder.as_streaming_dataset(wanted)
        except ValueError as error:
            remedy = "Name one whole split, or load all splits."
            raise InvalidOption(f"split {wanted!r} cannot be streamed ({error}). {remedy}") from None
    else:
        builder.download_and_prepare()
        dataset = builder.as_dataset(wanted)
    return dataset if images is None else attach_images(dataset, images, missing=missing_images)


def _spell_out(split: str, builder: CxcEccv) -> str:
    """Replace ``val`` by ``validation`` in ``split``, and check every name."""
    parts = []
    for part in str(split).split("+"):
        name, bracket, rest = part.strip().partition("[")
        name = SPLIT_NAMES.get(name, name)
        if name in dataset_configs()[builder.config.name].splits:
            builder.library.split(name)  # raises if the raw files lack it
        elif name != "all":
            raise UnknownName("split", name, builder.splits_at_hand())
        parts.append(name + bracket + rest)
    return "+".join(parts)


def cache_key(config: DatasetConfig, data_dir: str | Path | None, options: BuildOptions) -> str:
    """A hex sha256 that changes when the rows may: with raw files, labels, options, tools and code."""
    catalog = find_catalog(data_dir)
    files = open_library(data_dir, options).label_files if options.labels else {}
    labels = {name: hash_content(file.path) for name, file in files.items()}
    chosen = asdict(options) | {"mined": [hash_content(Path(file)) for file in options.mined], "labels": labels}
    facts = [config.name, catalog.edition, catalog.version, repr(sorted(chosen.items())), _code_hash()]
    facts += [f"{name} {digest or 'absent'}" for name, digest in _digests(config, data_dir).items()]
    if config.made_with is not None:
        with suppress(SourceMissing):
            facts += [f"{name} {version}" for name, version in config.made_with(options).items()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def _digests(config: DatasetConfig, data_dir: str | Path | None) -> dict[str, str | None]:
    """Catalog name to sha256 of every file that the config may read; None if it is missing."""
    entries = itertools.chain.from_iterable(map(find_catalog(data_dir).of_group, config.sources))
    # Modified files count too; their readers refuse them.
    paths = {entry.name: locate(entry.name, data_dir, allow_modified=True) for entry in entries}
    return {name: None if path is None else hash_content(path) for name, path in paths.items()}


@cache
def _code_hash() -> str:
    root = Path(str(resources.files("cxc_eccv")))
    code = hashlib.sha256()
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.toml")]):
        code.update(f"{path.relative_to(root).as_posix()}\n".encode() + path.read_bytes())
    return code.hexdigest()
