"""Change the meaning of sentences at one place: tag the words, find places by kind, and choose one by seed.

A kind of alteration finds the places of a sentence and their changes; ``words`` and ``attributes`` have the kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.studies.explain.altering.attributes import ATTRIBUTE_ALTERATIONS
from cxc_eccv.studies.explain.altering.parsed_sentences import TAGGER, Kind, Sentence, tag_sentences
from cxc_eccv.studies.explain.altering.words import WORD_ALTERATIONS


@dataclass(frozen=True, slots=True)
class Altered:
    """A sentence with one place changed.

    The characters of ``original`` from ``span_start`` to ``span_end`` differ: ``replaced``, with the article and the
    verb that agree with it.
    """

    query_id: int
    kind: str
    original: str
    altered: str
    span_start: int
    span_end: int
    replaced: str
    new_word: str
    seed: int


@cache
def all_kinds() -> Mapping[str, Kind]:
    """All kinds by name, in alphabetical order."""
    every = (*ATTRIBUTE_ALTERATIONS, *WORD_ALTERATIONS)
    return {kind.name: kind for kind in sorted(every, key=lambda kind: kind.name)}


def alter(
    sentences: Sequence[str],
    kind: str,
    *,
    ids: Sequence[int] | None = None,
    seed: int = 0,
    tagger: str = TAGGER,
) -> list[Altered]:
    """Change one place of every sentence that has a place for this kind.

    The choice depends only on the seed, the kind and the sentence's id, except that ``colour_in`` chooses among the
    colours of all sentences.

    Args:
        sentences: N texts, each one sentence.
        kind: a name of :func:`all_kinds`.
        ids: N distinct whole numbers; None for 0, 1, 2 and so on.
        seed: a whole number.
        tagger: name of an installed spaCy pipeline for English.

    Returns:
        One entry per altered sentence, in order; sentences without a place are left out.

    Raises:
        UnknownName: unknown kind.
        InvalidOption: a seed that is no whole number, or ids that are not one per sentence.
        SourceMissing: spaCy, the pipeline, nltk or WordNet is missing; says how to get it.

    Example:
        >>> alter(["A small dog on a bench"], "size", tagger="en_core_web_sm")[0].altered  # doctest: +SKIP
        'An enormous dog on a bench'
    """
    if kind not in all_kinds():
        raise UnknownName("kind of alteration", kind, all_kinds())
    numbers = range(len(sentences)) if ids is None else ids
    if len(numbers) != len(sentences) or len(set(numbers)) != len(numbers):
        raise InvalidOption(f"{len(sentences)} sentences need as many distinct ids; there are {len(set(numbers))}")
    require_seed(seed)
    return alter_tagged(tag_sentences(sentences, tagger), numbers, all_kinds()[kind], seed)


def alter_tagged(sentences: Sequence[Sentence], ids: Sequence[int], kind: Kind, seed: int) -> list[Altered]:
    """Do what :func:`alter` does, for tagged sentences."""
    places_of = kind.prepare(sentences)
    altered = []
    for number, sentence in zip(ids, sentences, strict=True):
        places = places_of(sentence)
        if places:
            # A hash makes the choice reproducible; all changes of a place are equally likely.
            drawn = int.from_bytes(hashlib.sha256(f"{seed}/{kind.name}/{number}".encode()).digest(), "big")
            changes = places[drawn % len(places)]
            change = changes[drawn // len(places) % len(changes)]
            altered.append(
                Altered(
                    query_id=number,
                    kind=kind.name,
                    original=sentence.text,
                    altered=change.of(sentence),
                    span_start=change.start,
                    span_end=change.end,
                    replaced=change.replaced,
                    new_word=change.new_word,
                    seed=seed,
                )
            )
    return altered


def require_seed(seed: object) -> None:
    """Raise InvalidOption unless a seed is a whole number of 64 bits."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not -(2**63) <= seed < 2**63:
        raise InvalidOption(f"seed={seed!r}: give a whole number")
