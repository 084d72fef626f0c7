"""What one kind of alteration declares, and a change of one place of a sentence that keeps article and capitals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cxc_eccv.studies.explain.altering.english import article_for, keep_capital
from cxc_eccv.studies.explain.altering.sentences import Sentence

__all__ = ["Change", "Kind", "Places", "substitute"]


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
