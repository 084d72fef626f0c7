"""English grammar that an altered sentence must keep: articles, capitals, plurals, forms of verbs and adjectives.

What has no rule here has no form (None), and the sentence is then left as it is: no form is better than a wrong one.
"""

from __future__ import annotations

import re
from functools import cache

from cxc_eccv.sources.wordnet import load_wordnet

__all__ = ["article_for", "compare_adjective", "inflect_verb", "keep_capital", "plural_of", "third_person"]

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
UNCHANGED_PAST = frozenset("bet burst cast cost cut hit hurt let put quit set shed shut split spread thrust".split())
COMPARED = {("good", "JJR"): "better", ("good", "JJS"): "best", ("bad", "JJR"): "worse", ("bad", "JJS"): "worst"}


def article_for(phrase: str) -> str:
    """``a`` or ``an``, by the sound that a phrase begins with.

    Example:
        >>> [article_for(word) for word in ("enormous", "tiny", "unicorn", "unimportant", "hour", "8")]
        ['an', 'a', 'a', 'an', 'an', 'an']
    """
    start = phrase.lower()
    if start.startswith(SILENT_H) or SPOKEN_VOWEL_NUMBERS.match(start):
        return "an"
    return "an" if re.match("[aeiou]", start) and not SOUNDS_LIKE_CONSONANT.match(start) else "a"


def keep_capital(new: str, old: str) -> str:
    """The new words in the capitals of the old ones.

    Example:
        >>> keep_capital("small dog", "Big"), keep_capital("small", "BIG"), keep_capital("small", "big")
        ('Small dog', 'SMALL', 'small')
    """
    if old.isupper() and len(old) > 1:
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def plural_of(noun: str) -> str:
    """The plural of a singular noun in lower case.

    Example:
        >>> [plural_of(noun) for noun in ("dog", "bus", "baby", "child", "fireman", "sheep", "boy", "bench")]
        ['dogs', 'buses', 'babies', 'children', 'firemen', 'sheep', 'boys', 'benches']
    """
    if noun in SAME_PLURAL:
        return noun
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    return noun[:-2] + "en" if noun.endswith("man") else third_person(noun)


def third_person(verb: str) -> str:
    """A verb with its ``s``, which is spelt as a regular plural is.

    Example:
        >>> [third_person(verb) for verb in ("sit", "catch", "fly", "play", "go", "be", "have")]
        ['sits', 'catches', 'flies', 'plays', 'goes', 'is', 'has']
    """
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ies"
    return verb + ("es" if re.search(r"(s|x|z|ch|sh)$", verb) or verb in ("go", "do") else "s")


def inflect_verb(verb: str, tag: str) -> str | None:
    """A verb in the form of a Penn tag; of several words, the first one is inflected. None where two forms compete.

    Irregular forms are those of WordNet's list of exceptions.

    Raises:
        SourceMissing: WordNet is not at hand.
    """
    head, blank, rest = verb.partition(" ")
    if tag in ("VB", "VBP"):
        form: str | None = head
    elif tag == "VBZ":
        form = third_person(head)
    else:
        form = _ing(head) if tag == "VBG" else _past(head)
    return None if form is None else form + blank + rest


def _ing(verb: str) -> str:
    irregular = [form for form in _exceptions("verb").get(verb, ()) if form.endswith("ing")]
    if irregular:
        return irregular[0]
    return (verb[:-1] if re.search(r"[^eoy]e$", verb) else verb) + "ing"


def _past(verb: str) -> str | None:
    if verb in UNCHANGED_PAST:
        return verb
    irregular = [form for form in _exceptions("verb").get(verb, ()) if not form.endswith("ing")]
    if irregular:
        # Of two forms, a participle ends in n: rode, ridden.
        past = irregular if len(irregular) == 1 else [form for form in irregular if not form.endswith("n")]
        return past[0] if len(past) == 1 else None
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if re.search(r"[^aeiou]y$", verb) else verb + "ed"


def compare_adjective(adjective: str, tag: str) -> str | None:
    """An adjective as it is (``JJ``), as a comparative (``JJR``) or a superlative (``JJS``).

    None where it has no such form in one word. Irregular ones are those of WordNet's list of exceptions.

    Raises:
        SourceMissing: WordNet is not at hand.
    """
    if tag == "JJ" or (adjective, tag) in COMPARED:
        return COMPARED.get((adjective, tag), adjective)
    ending = "er" if tag == "JJR" else "est"
    irregular = [form for form in _exceptions("adj").get(adjective, ()) if form.endswith(ending)]
    if irregular:
        return irregular[0]
    if len(re.findall(r"[aeiouy]+", adjective.rstrip("e"))) > 1 or " " in adjective:
        return None
    return adjective.rstrip("e") + ending


@cache
def _exceptions(part: str) -> dict[str, list[str]]:
    """Lemma to its irregular forms, from WordNet's list of one part of speech."""
    forms: dict[str, list[str]] = {}
    with load_wordnet().open(f"{part}.exc") as lines:
        for line in lines:
            form, *lemmas = line.split()
            for lemma in lemmas:
                forms.setdefault(lemma, []).append(form)
    return forms
