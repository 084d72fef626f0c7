"""Kinds that change what things look like: ``colour_all``, ``colour_in``, ``number``, ``plural`` and ``size``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

from PIL import ImageColor

from cxc_eccv.sources.wordnet import load_category_words
from cxc_eccv.studies.explain.altering.parsed_sentences import Change, Kind, Places, Sentence, substitute
from cxc_eccv.studies.explain.grammar import article_for, keep_capital, plural_of, third_person

LEAST_DISTANCE = 150.0
"""Least RGB distance of a replacement; black and white are 441.7 apart, red and orange 165.

The paper gives no figure. Below this are shades of a colour: red and crimson, blue and navy, grey and silver.
"""

PARTS = re.compile(
    "alice|antique|blanched|cadet|cornflower|dark|deep|dim|dodger|fire|floral|forest|ghost|hot|indian|lawn|lemon|light|lime(?=green)|medium|midnight|mint|misty|navajo|old(?=lace)|olive(?=drab|green)|orange(?=red)|pale|papaya|peach|powder|rebecca|rosy|royal|saddle|sandy|sea(?=green)|sky|slate|spring|steel|white(?=smoke)|yellow(?=green)|goldenrod(?=yellow)|green(?=yellow)|lavender(?=blush)|blue(?=violet)|violet(?=red)|burly"
)
"""First words of compound names: ``darkslategray`` is dark slate gray."""

SHADES = frozenset("baby bright dark deep dull hot light lime navy neon olive pale royal sky".split())
"""Words before a colour that belong to it; its RGB value is that of the compound if CSS has it, else of the colour."""

BLACK_AND_WHITE = frozenset("image images film photo photograph photographs photos picture pictures shot".split())
ORANGE_FRUIT = frozenset(
    "cake carrot carrots half halves juice marmalade peel peels rind section sections segments slice slices soda tree "
    "trees wedge wedges zest".split()
)


@dataclass(frozen=True, slots=True)
class Mention:
    """A colour in a sentence: the indices of its words, and its CSS name."""

    first: int
    last: int
    colour: str


@cache
def all_colours() -> dict[str, str]:
    """CSS name to its English words, in alphabetical order; names are spelt with ``gray``."""
    names = sorted(name for name in ImageColor.colormap if "grey" not in name)
    return {name: PARTS.sub(lambda part: part[0] + " ", name).strip() for name in names}


def find_colours(sentence: Sentence) -> Iterator[Mention]:
    """The colours of things in a sentence, by their tags.

    Left out are nouns (``orange`` the fruit, ``snow``), names (``Brown``), parts of longer words (``red-haired``), the
    skin of people, and photographs in black and white.
    """
    for place, word in enumerate(sentence.words):
        name = sentence.lower[place]
        if word.tag != "JJ" or name not in ImageColor.colormap or not sentence.stands_alone(place, place):
            continue
        if _looks_like_colour_only(sentence, place):
            continue
        shade = sentence.before(place)
        compound = shade + name
        first = place - 1 if (shade in SHADES or compound in ImageColor.colormap) and place else place
        colour = compound if compound in ImageColor.colormap else name
        if sentence.stands_alone(first, place):
            yield Mention(first, place, colour.replace("grey", "gray"))


def _looks_like_colour_only(sentence: Sentence, place: int) -> bool:
    name = sentence.lower[place]
    after = sentence.words[place + 1 : place + 2]
    if name == "orange":
        return sentence.after(place) in ORANGE_FRUIT or sentence.words[place].role != "amod"
    if name not in ("black", "white"):
        return False
    described = {word.lemma for word in (sentence.words[sentence.words[place].head], *after)}
    mixed = {"black", "white"} <= set(sentence.lower[max(place - 2, 0) : place + 3])
    photograph = mixed and not BLACK_AND_WHITE.isdisjoint(sentence.lower)
    return photograph or not described.isdisjoint(load_category_words()["person"])


def recolour(sentence: Sentence, mention: Mention, colours: Iterable[str]) -> list[Change]:
    """The changes of a mention to those ``colours`` that are distant and not yet in the sentence."""
    there = set(sentence.lower)
    return [
        substitute(sentence, mention.first, all_colours()[colour], mention.last)
        for colour in colours
        if math.dist(ImageColor.getrgb(colour), ImageColor.getrgb(mention.colour)) >= LEAST_DISTANCE
        and there.isdisjoint(all_colours()[colour].split())
    ]


def recolour_with_any(sentence: Sentence) -> Places:
    """The colours of things, each with all distant colours."""
    return [recolour(sentence, mention, all_colours()) for mention in find_colours(sentence)]


def prepare_mentioned(data: Sequence[Sentence]) -> Callable[[Sentence], Places]:
    """The colours of things, each with the distant colours that other sentences of the data mention."""
    mentioned = sorted({mention.colour for mention in chain.from_iterable(map(find_colours, data))})

    def find(sentence: Sentence) -> Places:
        places = [recolour(sentence, mention, mentioned) for mention in find_colours(sentence)]
        return [changes for changes in places if changes]

    return find


NUMERALS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = tuple(str(number) for number in range(2, 11))
"""Without one, which would change the noun and the verb."""

BETWEEN = frozenset({"JJ", "JJR", "NN", "NNP", "VBG", "VBN", "CC", ",", "RB", "HYPH", "CD"})
FARTHEST = 5


def find_numbers(sentence: Sentence) -> Places:
    """The numbers from two to ten that count things: a plural noun, or *of*, follows."""
    places = []
    for place, word in enumerate(sentence.words):
        number = sentence.lower[place]
        if word.tag != "CD" or not sentence.stands_alone(place, place) or not _counts_things(sentence, place):
            continue
        for numerals in (NUMERALS, DIGITS):
            if number in numerals:
                others = [other for other in numerals if other != number]
                places.append([substitute(sentence, place, other) for other in others])
    return places


def _counts_things(sentence: Sentence, place: int) -> bool:
    if sentence.before(place) in ("number", "#", "half") or sentence.after(place) == "of":
        return sentence.after(place) == "of"
    for word in sentence.words[place + 1 : place + 1 + FARTHEST]:
        if word.tag in ("NNS", "NNPS"):
            return True
        if word.tag not in BETWEEN:
            return False
    return False


MODIFIERS = frozenset({"CC", "HYPH", "JJ", "NN", "VBG", "VBN"})

POINTS_BACK = frozenset(
    "another both each either he her herself him himself his it its itself one ones she their them themselves "
    "they".split()
)
"""Words that agree with a noun elsewhere in the sentence; such sentences are left out."""

NO_PLURAL = frozenset(
    "bit couple deal dozen half hundred kind lot number time type variety view way while".split()
    + "bunch close front middle pair set side top".split()
)
NO_SINGULAR = frozenset(
    "arm belonging binoculars boxer clothes clothing earring foot glass glasses goggle goggles good grocery hand "
    "headphone headphones jean jeans leg leggings lot pajama pajamas pant pants people plier pliers remains scissor "
    "scissors short shorts sock ski stair stairs sunglass sunglasses surrounding thanks thong tight tights tong tongs "
    "trouser trousers wood".split()
)
QUANTIFIERS = frozenset(
    "all assorted different few many more most multiple numerous other several some such these those various".split()
)
NOT_BEFORE_ONE = frozenset({"a", "among", "an", "any", "between", "enough", "no", "of", *QUANTIFIERS})
NO_BOUNDARY = ("CD", "RB", ",", "JJ", "NN", "NNP", "NNS")
"""Tags of words after which the start of a noun phrase is uncertain."""

BEFORE_AN_ARTICLE = frozenset({"half", "many", "quite", "such", "what"})

SINGULAR_OF = {"are": "is", "were": "was", "have": "has", "do": "does"}
PLURAL_OF = {singular: plural for plural, singular in SINGULAR_OF.items()}


def find_nouns(sentence: Sentence) -> Places:
    """The nouns with *a* or *an*, and the plurals without a number or a quantity."""
    if not POINTS_BACK.isdisjoint(sentence.lower):
        return []
    changes = (_change_at(sentence, place) for place in range(len(sentence.words)))
    return [[change] for change in changes if change]


def _change_at(sentence: Sentence, place: int) -> Change | None:
    word = sentence.words[place]
    if word.tag not in ("NN", "NNS") or word.role in ("compound", "nmod", "npadvmod", "poss", "appos"):
        return None
    if not sentence.stands_alone(place, place) or sentence.words[min(place + 1, len(sentence.words) - 1)].tag == "POS":
        return None
    verb = _verb_of(sentence, place)
    if verb is None:
        return None
    return _to_plural(sentence, place, verb) if word.tag == "NN" else _to_singular(sentence, place, verb)


def _to_plural(sentence: Sentence, place: int, verb: int) -> Change | None:
    word = sentence.words[place]
    first = _start_of(sentence, place)
    if first == 0 or sentence.before(first) not in ("a", "an") or word.lemma in NO_PLURAL:
        return None
    plural = plural_of(word.lemma)
    if plural == word.lemma or sentence.before(first - 1) in BEFORE_AN_ARTICLE:
        return None
    return _rewrite(sentence, first - 1, place, verb, "", plural)


def _to_singular(sentence: Sentence, place: int, verb: int) -> Change | None:
    word = sentence.words[place]
    lemma = "person" if sentence.lower[place] == "people" else word.lemma
    if lemma in NO_SINGULAR or plural_of(lemma) != sentence.lower[place] or lemma == sentence.lower[place]:
        return None
    first = _start_of(sentence, place)
    described = sentence.lower[first:place]
    if sentence.children(place, "nummod", "predet", "quantmod") or not QUANTIFIERS.isdisjoint(described):
        return None
    tag_before = sentence.words[first - 1].tag if first else ""
    if sentence.before(first) in NOT_BEFORE_ONE or tag_before in NO_BOUNDARY:
        return None
    article = "" if tag_before in ("DT", "PRP$", "POS") else article_for(" ".join((*described, lemma)))
    return _rewrite(sentence, first, place, verb, article, lemma)


def _start_of(sentence: Sentence, place: int) -> int:
    """Index of the first of the words right before a noun that describe it."""
    first = place
    while first and sentence.words[first - 1].tag in MODIFIERS and _belongs(sentence, first - 1, place):
        first -= 1
    return first


def _belongs(sentence: Sentence, place: int, noun: int) -> bool:
    """Whether a word depends on the noun, directly or through words between them."""
    while place < noun:
        head = sentence.words[place].head
        if head <= place:
            return False
        place = head
    return place == noun


def _verb_of(sentence: Sentence, noun: int) -> int | None:
    """Place of the finite verb that agrees with the noun; -1 where none does, None where it is not that simple."""
    word = sentence.words[noun]
    if any(_finite(sentence, clause) for clause in sentence.children(noun, "relcl")):
        return None
    if word.role == "attr":
        there_is = word.head < noun and sentence.children(word.head, "expl") and not sentence.children(noun, "conj")
        return word.head if there_is else None
    if word.role not in ("nsubj", "nsubjpass"):
        return -1 if word.role != "conj" else None
    if sentence.children(noun, "conj"):
        return None
    finite = _finite(sentence, word.head)
    if len(finite) > 1 or any(_finite(sentence, other) for other in sentence.children(word.head, "conj")):
        return None
    if not finite:
        return -1
    return finite[0] if noun < finite[0] else None


def _finite(sentence: Sentence, verb: int) -> list[int]:
    """Indices of a verb and its auxiliaries that agree with a subject."""
    chain = sorted([verb, *sentence.children(verb, "aux", "auxpass")])
    tags = ("VBP", "VBZ")
    return [place for place in chain if sentence.words[place].tag in tags or sentence.lower[place] in ("was", "were")]


def _rewrite(sentence: Sentence, first: int, noun: int, verb: int, article: str, new: str) -> Change | None:
    """Replace the article and the noun of the phrase from ``first`` to ``noun``, and adapt the verb."""
    old = sentence.words[noun].text
    parts = {place: sentence.words[place].text for place in range(first, noun)}
    parts[noun] = new.upper() if old.isupper() else new
    if sentence.lower[first] in ("a", "an"):
        parts[first] = ""
    elif article:
        parts[first] = f"{article} {parts[first].lower() if first == 0 != noun else parts[first]}"
    if verb >= 0:
        form = _agree(sentence, verb, plural=sentence.words[noun].tag == "NN")
        if form is None:
            return None
        parts[verb] = form
    begin = min(parts)
    end = max(parts)
    text = ""
    for place in range(begin, end + 1):
        word = sentence.words[place]
        part = parts.get(place, word.text)
        gap = sentence.text[word.end : sentence.words[place + 1].start] if part and place < end else ""
        text += part + gap
    if begin == 0:
        text = keep_capital(text, sentence.words[0].text[:1])
    at = text.lower().rindex(new.lower())
    start = sentence.words[begin].start
    return Change(start, sentence.words[end].end, text, old, text[at : at + len(new)])


def _agree(sentence: Sentence, verb: int, *, plural: bool) -> str | None:
    """The verb in the other number; None if it does not agree in the first place."""
    word = sentence.words[verb]
    text = sentence.lower[verb]
    if plural:
        if text in PLURAL_OF:
            return PLURAL_OF[text]
        return word.lemma if word.tag == "VBZ" and third_person(word.lemma) == text else None
    if text in SINGULAR_OF:
        return SINGULAR_OF[text]
    return third_person(word.lemma) if word.tag == "VBP" and word.lemma == text else None


LARGE = ("big", "enormous", "huge", "large")
SMALL = ("little", "minor", "small", "tiny")
OPPOSITE_SIZES = {
    **dict.fromkeys(LARGE, SMALL),
    **dict.fromkeys(SMALL, LARGE),
    **dict.fromkeys(("bigger", "larger"), ("smaller", "tinier")),
    **dict.fromkeys(("smaller", "tinier"), ("bigger", "larger")),
    **dict.fromkeys(("biggest", "largest"), ("smallest", "tiniest")),
    **dict.fromkeys(("smallest", "tiniest"), ("biggest", "largest")),
}
NOT_OF_SIZE = frozenset({"apple", "bat", "ben", "bird", "bit", "league", "mac", "more", "rig", "too", "top", "wheel"})
"""Words before which *big* or *little* is part of a name or no adjective: Big Ben, little league, a little bit."""


def find_sizes(sentence: Sentence) -> Places:
    """The adjectives of size."""
    places = []
    for place, word in enumerate(sentence.words):
        name = sentence.lower[place]
        if word.tag not in ("JJ", "JJR", "JJS") or name not in OPPOSITE_SIZES:
            continue
        if sentence.after(place) not in NOT_OF_SIZE and sentence.stands_alone(place, place):
            places.append([substitute(sentence, place, opposite) for opposite in OPPOSITE_SIZES[name]])
    return places


ATTRIBUTE_ALTERATIONS = (
    Kind(
        name="colour_all",
        description=f"A colour gives way to any CSS colour at an RGB distance of {LEAST_DISTANCE:.0f} or more: *a red "
        "bus* is *a dark slate blue bus*.",
        prepare=lambda data: recolour_with_any,
    ),
    Kind(
        name="colour_in",
        description="A colour gives way to one that another sentence of the data mentions, at an RGB distance of "
        f"{LEAST_DISTANCE:.0f} or more: *a red bus* is *a green bus*.",
        prepare=prepare_mentioned,
    ),
    Kind(
        name="number",
        description="A number from two to ten that counts things gives way to another one, words to words and digits "
        "to digits: *two dogs* are *seven dogs*.",
        prepare=lambda data: find_numbers,
    ),
    Kind(
        name="plural",
        description="One thing becomes several, or several become one; the article and the verb go with it: *a dog is "
        "running* is *dogs are running*.",
        prepare=lambda data: find_nouns,
    ),
    Kind(
        name="size",
        description="*Large*, *big*, *enormous* or *huge* gives way to *small*, *little*, *minor* or *tiny*, and the "
        "other way round; comparatives to comparatives.",
        prepare=lambda data: find_sizes,
    ),
)
