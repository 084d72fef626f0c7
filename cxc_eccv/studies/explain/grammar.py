"""English grammar: articles, plurals, and forms of verbs and adjectives; of irregular verbs those that are used."""

from __future__ import annotations

import re

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
