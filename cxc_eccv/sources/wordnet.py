"""WordNet 3.0 through nltk: synsets by name and path similarities; and the words for COCO's 80 categories."""

from __future__ import annotations

import csv
import os
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing
from cxc_eccv.extras import install_line, require
from cxc_eccv.types import FloatArray

VERSION = "3.0"
"""The version that nltk calls ``wordnet``; later versions number the synsets differently."""


def load_wordnet() -> Any:  # noqa: ANN401 - nltk is untyped
    """Open WordNet 3.0 with nltk's ``WordNetCorpusReader``, from ``NLTK_DATA`` or nltk's other folders."""
    require("nltk", "explain", "WordNet needs", SourceMissing)
    import nltk.data  # imported late: only concepts need it

    named = [folder for folder in os.environ.get("NLTK_DATA", "").split(os.pathsep) if folder]
    folders = [Path(folder) for folder in dict.fromkeys([*named, *nltk.data.path])]
    for folder in folders:
        for place in (folder / "corpora" / "wordnet.zip", folder / "corpora" / "wordnet"):
            if place.exists():
                return _open(place)
    places = ", ".join(map(str, folders))
    setting = f"is {os.pathsep.join(named)!r}" if named else "is not set"
    raise SourceMissing(
        f"WordNet {VERSION} is not on this machine. This command gets all that explain needs:\n  "
        f"{install_line('explain')}\nOr set NLTK_DATA, which {setting}, to the folder with corpora/wordnet.zip. "
        f"Searched: {places}."
    )


@cache
def _open(place: Path) -> Any:  # noqa: ANN401 - nltk is untyped
    """Open the corpus in a zip file or a folder and check it, since nltk opens most files only when it needs them."""
    from nltk.corpus.reader.wordnet import WordNetCorpusReader
    from nltk.data import FileSystemPathPointer, ZipFilePathPointer

    class English(WordNetCorpusReader):  # type: ignore[misc] # nltk is untyped
        def map_wn(self, version: str = "wordnet") -> None:
            """Skip the table of other languages, which takes seconds and searches nltk's folders."""

    expected = (
        f"WordNet {VERSION} as nltk packs it; delete it and download it again with `python -m nltk.downloader "
        "wordnet`, or set NLTK_DATA to another folder"
    )
    try:
        if place.suffix == ".zip":
            with zipfile.ZipFile(place) as archive:
                damaged = archive.testzip()
            if damaged:
                raise ValueError(f"{damaged} is damaged")
            root = ZipFilePathPointer(str(place), "wordnet/")
        else:
            root = FileSystemPathPointer(str(place))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns that it supports only English
            corpus = English(root, None)
        version = corpus.get_version()
        corpus.synset("entity.n.01")
    except Exception as error:  # a damaged file can raise any error in nltk
        raise MalformedSource(place, "", f"{type(error).__name__}: {error}", expected) from None
    if version != VERSION:
        raise MalformedSource(place, "", f"WordNet {version}", expected)
    return corpus


def find_synset(name: str) -> Any:  # noqa: ANN401 - nltk is untyped
    """The synset with a name such as ``dog.n.01``; DataError if WordNet 3.0 has no such synset."""
    from nltk.corpus.reader.wordnet import WordNetError

    corpus = load_wordnet()
    try:
        return corpus.synset(name)
    except (WordNetError, ValueError, KeyError) as error:
        raise DataError(
            f"WordNet {VERSION} has no synset {name!r} ({error}). Write a word, its part of speech and the number of "
            "the sense, as in dog.n.01."
        ) from None


def similarity_matrix(names: Sequence[str]) -> FloatArray:
    """(N, N) float64 path similarities of all pairs of N synsets, much faster than pair by pair."""
    members: dict[str, dict[int, int]] = defaultdict(dict)
    for row, name in enumerate(names):
        steps_to: dict[str, int] = {}
        for ancestor, steps in find_synset(name).hypernym_distances():
            steps_to[ancestor.name()] = min(steps, steps_to.get(ancestor.name(), steps))
        # The virtual root is one step above the farthest hypernym; for nouns entity.n.01 is always nearer.
        for ancestor, steps in {**steps_to, "*ROOT*": max(steps_to.values()) + 1}.items():
            members[ancestor][row] = steps
    distances = np.full((len(names), len(names)), np.inf)
    for below in members.values():
        rows = np.array(list(below))
        steps = np.array(list(below.values()), dtype=np.float64)
        block = np.ix_(rows, rows)
        distances[block] = np.minimum(distances[block], steps[:, None] + steps)
    return np.asarray(1 / (1 + distances))


NO_CATEGORY = ""
"""Key of phrases that contain a category's name but do not name it, such as ``bus stop``."""

ANIMALS = ("bear", "bird", "cat", "cow", "dog", "elephant", "giraffe", "horse", "sheep", "zebra")


@cache
def load_category_words() -> Mapping[str, tuple[str, ...]]:
    """Category to its words and phrases, singular and lower case, with its name first."""
    text = resources.files("cxc_eccv.sources").joinpath("coco_words.csv").read_text(encoding="utf-8")
    table = {}
    for row in csv.DictReader(text.splitlines()):
        words = [word.replace("-", " ") for word in row["words"].split()]
        table[row["category"]] = tuple(filter(None, [row["category"], *words]))
    return table


@cache
def words_for_living() -> frozenset[str]:
    """Words for persons and for the animals among the categories, in the singular."""
    words = load_category_words()
    return frozenset(chain.from_iterable(words[category] for category in ("person", *ANIMALS)))
