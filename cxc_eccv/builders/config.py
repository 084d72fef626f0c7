"""What one dataset config declares: its rows, features and the text of its card; and all declarations by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from cxc_eccv.discovery import find_declared, study_modules
from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.judgments.evidence import Thresholds
from cxc_eccv.sources.library import Library

if TYPE_CHECKING:
    import datasets  # a report looks up texts as rows do, and needs nothing of it


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Choices a user makes when building; they are part of every cache key.

    Attributes:
        policy: what becomes of contradicting sources: ``union``, ``strict`` or ``override``.
        sts, sis, sits: lowest rating that makes a pair positive.
        restval_in_train: fold Karpathy's ``restval`` into ``train``.
        allow_modified: use raw files whose hash is not the catalog's.
        mined: files of weak positives that ``cxc-eccv mine`` wrote: a further source of labels, named ``mined``, of
            ``pairs`` and ``retrieval``, for what nobody judged.
        tagger: spaCy pipeline that tags the captions of ``adversarial``, by the name it is installed under.
        seed: of the choices of ``adversarial``.
        labels: files, folders or datasets of labels of people, as of :class:`cxc_eccv.sources.library.Library`: further
            sources of ``pairs`` and ``retrieval``, under their own names.
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
        """The lowest positive ratings, as judgments take them."""
        return Thresholds(sts=self.sts, sis=self.sis, sits=self.sits)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one config and split.

    Attributes:
        table: columns in the order of the config's features.
        left_out: rule to the number of rows it left out; shown in the build summary.
    """

    table: pa.Table
    left_out: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences of a config that a model encodes, and the arrays of an embeddings file that hold them.

    The name of an array is that of the config, the part that its rows are of, and what it holds, joined by ``_``:
    ``rococo_danger_ids``. Its rows are those of the part, in their order.

    Attributes:
        part: column that says which part a row is of.
        ids: what the array of ids is called, and the column that it is of.
        texts: what arrays of vectors are called, to the columns with their texts.
        image_files: column with the image file of the id; empty where the ids are of captions.
    """

    part: str
    ids: tuple[str, str]
    texts: Mapping[str, str]
    image_files: str = ""


@dataclass(frozen=True, slots=True)
class DatasetConfig:
    """One dataset config. A new one is one file in ``builders/configs`` that defines ``CONFIG``.

    Attributes:
        name: config name, equal to its module's name.
        title: a line for tables and headings.
        description: what one row is and what it is for (Markdown).
        collection: how the labels were collected (Markdown).
        features: typed features in the portable forms ``[Value(...)]`` and ``[{...}]``.
        fields: feature name to its meaning; one entry per feature.
        splits: splits this config can have; those whose raw files are absent are left out and reported.
        rows: (library, split, options) to the rows.
        sources: names of the catalog entries' groups it draws on, for licences and citations.
        defects: known defects of the data, one sentence each (Markdown).
        example: Python lines that use it, after ``dataset = load_dataset(...)``.
        sentences: what ``cxc-eccv encode --config`` encodes of it; None for a config without sentences of its own.
        made_with: options to what else the rows depend on, name to version, as a tagger; raises ``SourceMissing`` where
            it is not at hand. None for a config of raw files alone.
    """

    name: str
    title: str
    description: str
    collection: str
    features: datasets.Features
    fields: dict[str, str]
    splits: tuple[str, ...]
    rows: Callable[[Library, str, BuildOptions], Rows]
    sources: tuple[str, ...]
    defects: tuple[str, ...] = ()
    example: str = "print(dataset[0])"
    sentences: Sentences | None = None
    made_with: Callable[[BuildOptions], Mapping[str, str]] | None = None


def columns(**described: tuple[Any, str]) -> dict[str, Any]:
    """What a config says of its columns, from the feature and the meaning of each."""
    import datasets

    features = datasets.Features({name: feature for name, (feature, _) in described.items()})
    return {"features": features, "fields": {name: meaning for name, (_, meaning) in described.items()}}


DEFAULT_CONFIG = "captions"
"""What ``load_dataset(folder)`` gives when no config is named."""


@cache
def dataset_configs() -> Mapping[str, DatasetConfig]:
    """All declared configs by name, the default one first, then in alphabetical order."""
    rooms = [importlib.import_module("cxc_eccv.builders.configs"), *study_modules("configs")]
    found = find_declared(rooms[0], "CONFIG", DatasetConfig, *rooms[1:])
    for name, config in found.items():
        undescribed = sorted(set(config.features) ^ set(config.fields))
        if undescribed:
            raise DataError(f"config {name!r}: features and fields must name the same columns, not so {undescribed}")
    return MappingProxyType({DEFAULT_CONFIG: found[DEFAULT_CONFIG], **found})


def select_configs(wanted: Iterable[str | DatasetConfig] | None) -> list[DatasetConfig]:
    """The configs of these names, or these declarations, each once; all that are declared for None."""
    known = dataset_configs()
    chosen = {}
    for item in known.values() if wanted is None else wanted:
        if not isinstance(item, DatasetConfig) and item not in known:
            raise UnknownName("config", item, known)
        config = item if isinstance(item, DatasetConfig) else known[item]
        chosen[config.name] = config
    return list(chosen.values())
