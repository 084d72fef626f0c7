"""WordNet 3.0: its synsets by name, and how near two of them are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.sources.wordnet import VERSION, load_wordnet
from cxc_eccv.types import FloatArray

__all__ = ["VERSION", "find_synset", "load_wordnet", "path_similarity", "similarity_matrix"]


def find_synset(name: str) -> Any:  # noqa: ANN401 - nltk is untyped
    """The synset of a name such as ``dog.n.01``.

    Raises:
        DataError: WordNet 3.0 has none of that name.
    """
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
    r"""WordNet's path similarity of two synsets, by name.

    .. math:: ps(u, v) = \frac{1}{1 + d(u, v)}

    where d is the number of steps from one to the other over their nearest common hypernym. What is no noun has no
    common one at times: as in nltk, a root is then thought above all.

    Args:
        one: name of a synset, as in ``dog.n.01``.
        other: name of another, or of the same.

    Returns:
        In (0, 1]; 1 for the same synset.

    Raises:
        DataError: WordNet 3.0 has no synset of that name, or WordNet is missing or damaged.

    References:
        Fellbaum, WordNet: An Electronic Lexical Database, 1998; nltk's ``Synset.path_similarity``.
    """
    return float(find_synset(one).path_similarity(find_synset(other)))


def similarity_matrix(names: Sequence[str]) -> FloatArray:
    """Path similarity of all pairs at once, far quicker than pair by pair.

    Args:
        names: N names of synsets.

    Returns:
        (N, N) float64, symmetric, with ones on its diagonal.

    Raises:
        DataError: WordNet 3.0 has no synset of that name, or WordNet is missing or damaged.
    """
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
