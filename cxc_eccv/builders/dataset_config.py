"""Declarations of dataset configs: rows, features and the text of the card; columns of rows; all configs by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.discovery import find_declared, study_modules
from cxc_eccv.errors import UnknownName
from cxc_eccv.judgments.evidence.source import Thresholds
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Split
from cxc_eccv.types import IntArray, find_positions

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """A user's choices for a build; they are part of every cache key.

    Attributes:
        policy: how contradicting sources are merged: ``union``, ``strict`` or ``override``.
        sts, sis, sits: lowest rating that makes a pair positive.
        restval_in_train: fold Karpathy's ``restval`` into ``train``.
        allow_modified: use raw files whose hash differs from the catalog's.
        mined: files of weak positives that ``cxc-eccv mine`` wrote; they are the source ``mined`` of ``pairs`` and
            ``retrieval``, for pairs that nobody judged.
        tagger: name of the installed spaCy pipeline that tags the captions of ``adversarial``.
        seed: seed of the choices in ``adversarial``.
        labels: files, folders or datasets of people's labels, as :class:`cxc_eccv.sources.library.Library` takes them;
            each is a source of ``pairs`` and ``retrieval`` under its own name.
    """

    policy: str = "union"
    sts: float = 3.0
    sis: float = 2.5
    sits: float = 3.0
    restval_in_train: bool = False
    allow_modified: bool = False
    mined: tuple[str, ...] = ()
    tagger: str = "en_core_web_sm"
    seed: int = 0
    labels: tuple[str, ...] = ()

    @property
    def thresholds(self) -> Thresholds:
        """The lowest positive ratings."""
        return Thresholds(sts=self.sts, sis=self.sis, sits=self.sits)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one config and split.

    Attributes:
        table: columns in the order of the config's features.
        left_out: rule to the number of rows it left out, for the build summary.
    """

    table: pa.Table
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DatasetConfig:
    """One dataset config. A file in ``builders/configs`` defines one as ``CONFIG``, or several as ``CONFIGS``.

    Attributes:
        name: config name; a ``CONFIG`` alone in its file is named like the file.
        title: one line for tables and headings.
        description: what one row is and what it is for (Markdown).
        collection: how the labels were collected (Markdown).
        columns: name of each column to its feature, in the portable forms ``[Value(...)]`` and ``[{...}]``, and its
            meaning.
        splits: splits that this config can have; those without raw files are left out and reported.
        rows: function of split and options that returns the rows.
        sources: groups of catalog entries that the rows come from, for licences and citations.
        data: the images and captions that the rows are about.
        defects: known defects of the data, one sentence each (Markdown).
        example: Python lines that use the config, after ``dataset = load_dataset(...)``.
        made_with: function of the options that returns the tools which make the rows, name to version, and raises
            ``SourceMissing`` if one is missing. None if the rows come from raw files only.
        aliases: further names under which the card offers the same files.
        photographs: whether a build with images embeds them here, by the column ``file_name``.
    """

    name: str
    title: str
    description: str
    collection: str
    columns: Mapping[str, tuple[Any, str]]
    splits: tuple[str, ...]
    rows: Callable[[Split, BuildOptions], Rows]
    sources: tuple[str, ...]
    data: Collection = COCO
    defects: tuple[str, ...] = ()
    example: str = "print(dataset[0])"
    made_with: Callable[[BuildOptions], Mapping[str, str]] | None = None
    aliases: tuple[str, ...] = ()
    photographs: bool = False

    @property
    def features(self) -> datasets.Features:
        """The typed features of the columns."""
        import datasets

        return datasets.Features({name: feature for name, (feature, _) in self.columns.items()})

    @property
    def fields(self) -> dict[str, str]:
        """Name of each column to its meaning."""
        return {name: meaning for name, (_, meaning) in self.columns.items()}


DEFAULT_CONFIG = "captions"
"""The config that ``load_dataset(folder)`` loads."""


@cache
def dataset_configs() -> Mapping[str, DatasetConfig]:
    """All declared configs by name: the default, then the others in alphabetical order."""
    packages = [importlib.import_module("cxc_eccv.builders.configs"), *study_modules("configs")]
    configs = find_declared(packages[0], "CONFIG", DatasetConfig, *packages[1:])
    return MappingProxyType({DEFAULT_CONFIG: configs[DEFAULT_CONFIG], **configs})


def select_configs(wanted: Iterable[str | DatasetConfig] | None) -> list[DatasetConfig]:
    """The configs of these names, or these declarations, each once; all declared configs for None."""
    known = dataset_configs()
    chosen = {}
    for item in known.values() if wanted is None else wanted:
        if not isinstance(item, DatasetConfig) and item not in known:
            raise UnknownName("config", item, known, listed="configs")
        config = item if isinstance(item, DatasetConfig) else known[item]
        chosen[config.name] = config
    return list(chosen.values())


def captions_by_image(split: Split) -> tuple[IntArray, IntArray]:
    """The order that sorts the split's captions by image, and the number of captions of each image."""
    places = find_positions(split.caption_image_ids, split.image_ids)[0]
    return np.argsort(places, kind="stable"), np.bincount(places, minlength=split.image_ids.size)


def list_column(sizes: IntArray, values: pa.Array | NDArray[Any]) -> pa.ListArray:
    """One list per row, of the next ``sizes[row]`` values."""
    return pa.ListArray.from_arrays(np.append(0, np.cumsum(sizes)).astype(np.int32), values)


def struct_lists(sizes: IntArray, columns: dict[str, pa.Array | NDArray[Any]]) -> pa.ListArray:
    """One list of structs per row, of the next ``sizes[row]`` values of every column."""
    return list_column(sizes, pa.StructArray.from_arrays(list(columns.values()), names=list(columns)))


def nullable(values: NDArray[np.float64]) -> pa.Array:
    """Float column with null for NaN."""
    return pa.array(values, mask=np.isnan(values))


def subset_lists(flags: NDArray[np.bool_], names: Sequence[str]) -> pa.Array:
    """For each row, the names whose flags are set."""
    n_names = len(names)
    subsets = [_decode_subset(code, names) for code in range(2**n_names)]
    codes = flags @ (1 << np.arange(n_names)) if n_names else np.zeros(flags.shape[0], dtype=np.int64)
    return pa.array(subsets, pa.list_(pa.string())).take(pa.array(codes))


def _decode_subset(code: int, names: Sequence[str]) -> list[str]:
    """The names whose bits are set in a code."""
    return [name for bit, name in enumerate(names) if code >> bit & 1]
