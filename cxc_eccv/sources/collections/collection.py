"""Collection: the declaration of images with captions, and of the raw files that divide them into splits."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import UnknownName
from cxc_eccv.sources.readers import SplitTables


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collection:
    """Images and captions in splits. To add one, write a file in ``sources/collections`` that defines ``COLLECTION``.

    Attributes:
        name: name in commands and files, that of its own file.
        title: name in messages and tables.
        photographs: name of the set of photographs; collections of one set share the ids of images.
        splits: names of its splits in commands, each with the one that the library has.
        files: names in the catalog of the raw files that together hold every split.
        parts: names of files of single splits, which stand in for ``files`` where these are missing.
        read: maps the paths of the raw files to the tables of their splits.
        all_captions: name and reader of a file that has captions outside the splits too.
        descriptions: names and reader of files with texts that represent the images in query-corpus, where the captions
            only search; images without a description are left out.
        labels: names of further files without which tasks leave the collection out.
        entailment: beginning of the names of files with entailment labels of a split; empty without such files.
        mined: beginning of the names under which reports record weak positives; empty if there can be none.
        is_default: whether it is meant where nobody names a collection, and downloaded without being asked for.
    """

    name: str
    title: str
    photographs: str
    splits: Mapping[str, str]
    files: tuple[str, ...]
    read: Callable[[Sequence[Path]], Mapping[str, SplitTables]]
    parts: tuple[str, ...] = ()
    all_captions: tuple[str, Callable[[Path], pa.Table]] | None = None
    descriptions: tuple[tuple[str, ...], Callable[[Sequence[Path]], pa.Table]] | None = None
    labels: tuple[str, ...] = ()
    entailment: str = ""
    mined: str = ""
    is_default: bool = False


@cache
def collections() -> Mapping[str, Collection]:
    """Every declared collection by name."""
    return find_declared(importlib.import_module(__package__), "COLLECTION", Collection)


def find_collection(name: str) -> Collection:
    """The collection of a name; raises UnknownName if there is none."""
    if name not in collections():
        raise UnknownName("collection", name, collections())
    return collections()[name]
