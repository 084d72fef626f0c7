"""WordNet 3.0 as nltk reads it: its synsets by name, and how near two of them are; or how to get it."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing
from cxc_eccv.types import FloatArray

VERSION = "3.0"
"""What nltk calls ``wordnet``; later editions have names of their own, and other numbers in the names of synsets."""


def load_wordnet() -> Any:  # noqa: ANN401 - nltk is untyped
    """WordNet 3.0 by nltk's ``WordNetCorpusReader``, opened once, from ``NLTK_DATA`` or where nltk looks besides."""
    try:
        import nltk.data  # imported late: whoever asks for no concepts does without
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "nltk":
            raise
        raise SourceMissing("WordNet needs nltk, which is not installed: pip install 'cxc_eccv[explain]'") from None
    named = [folder for folder in os.environ.get("NLTK_DATA", "").split(os.pathsep) if folder]
    folders = [Path(folder) for folder in dict.fromkeys([*named, *nltk.data.path])]
    for folder in folders:
        for place in (folder / "corpora" / "wordnet.zip", folder / "corpora" / "wordnet"):
            if place.exists():
                return _open(place)
    places = ", ".join(map(str, folders))
    setting = f"is {os.pathsep.join(named)!r}" if named else "is not set"
    raise SourceMissing(
        f"WordNet is not on this machine: none of {places} holds corpora/wordnet.zip or corpora/wordnet. Get it by "
        f"`python -m nltk.downloader wordnet`, or name the folder that holds it in NLTK_DATA, which {setting}."
    )


@cache
def _open(place: Path) -> Any:  # noqa: ANN401 - nltk is untyped
    """The corpus of a zip file or a folder, as a whole: nltk opens most of its files when they are asked for."""
    from nltk.corpus.reader.wordnet import WordNetCorpusReader
    from nltk.data import FileSystemPathPointer, ZipFilePathPointer

    class English(WordNetCorpusReader):  # type: ignore[misc] # nltk is untyped
        def map_wn(self, version: str = "wordnet") -> None:
            """No table of other languages' synsets: it takes seconds, and looks for the corpus where nltk does."""

    expected = (
        f"WordNet {VERSION} as nltk packs it; delete it and get it again by `python -m nltk.downloader wordnet`, or "
        "name another folder in NLTK_DATA"
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
            warnings.simplefilter("ignore")  # it warns that it speaks English alone
            corpus = English(root, None)
        version = corpus.get_version()
        corpus.synset("entity.n.01")
    except Exception as error:  # nltk reads a damaged file until something goes wrong, whatever it is
        raise MalformedSource(place, "", f"{type(error).__name__}: {error}", expected) from None
    if version != VERSION:
        raise MalformedSource(place, "", f"WordNet {version}", expected)
    return corpus


def find_synset(name: str) -> Any:  # noqa: ANN401 - nltk is untyped
    """The synset of a name such as ``dog.n.01``; DataError where WordNet 3.0 has none of that name."""
    from nltk.corpus.reader.wordnet import WordNetError

    corpus = load_wordnet()
    try:
        return corpus.synset(name)
    except (WordNetError, ValueError, KeyError) as error:
        raise DataError(
            f"WordNet {VERSION} has no synset {name!r} ({error}); names are a word, its part of speech and the number "
            "of its sense, as in dog.n.01"
        ) from None


@cache
def path_similarity(one: str, other: str) -> float:
    r"""WordNet's path similarity of two synsets, by name: in (0, 1], and 1 for the same synset."""
    return float(find_synset(one).path_similarity(find_synset(other)))


def similarity_matrix(names: Sequence[str]) -> FloatArray:
    """(N, N) float64 path similarities of all pairs of N synsets, far quicker than pair by pair."""
    members: dict[str, dict[int, int]] = defaultdict(dict)
    for row, name in enumerate(names):
        steps_to: dict[str, int] = {}
        for ancestor, steps in find_synset(name).hypernym_distances():
            steps_to[ancestor.name()] = min(steps, steps_to.get(ancestor.name(), steps))
        # The thought root is one step above the farthest hypernym. For nouns it decides nothing: entity.n.01 is nearer.
        for ancestor, steps in {**steps_to, "*ROOT*": max(steps_to.values()) + 1}.items():
            members[ancestor][row] = steps
    distances = np.full((len(names), len(names)), np.inf)
    for below in members.values():
        rows, steps = np.array(list(below)), np.array(list(below.values()), dtype=np.float64)
        block = np.ix_(rows, rows)
        distances[block] = np.minimum(distances[block], steps[:, None] + steps)
    return np.asarray(1 / (1 + distances))
