"""Kinds ``colour_all`` and ``colour_in``: replace a colour by a distant CSS colour."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from PIL import ImageColor

from cxc_eccv.sources.wordnet import load_category_words
from cxc_eccv.studies.explain.altering.sentences import Change, Kind, Places, Sentence, substitute

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
    name, after = sentence.lower[place], sentence.words[place + 1 : place + 2]
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


def find_any(sentence: Sentence) -> Places:
    """The colours of things, each with all distant colours."""
    return [recolour(sentence, mention, all_colours()) for mention in find_colours(sentence)]


def prepare_mentioned(data: Sequence[Sentence]) -> Callable[[Sentence], Places]:
    """The colours of things, each with the distant colours that other sentences of the data mention."""
    mentioned = sorted({mention.colour for sentence in data for mention in find_colours(sentence)})

    def find(sentence: Sentence) -> Places:
        places = [recolour(sentence, mention, mentioned) for mention in find_colours(sentence)]
        return [changes for changes in places if changes]

    return find


KINDS = (
    Kind(
        name="colour_all",
        description=f"A colour gives way to any CSS colour at an RGB distance of {LEAST_DISTANCE:.0f} or more: *a red "
        "bus* is *a dark slate blue bus*.",
        prepare=lambda data: find_any,
    ),
    Kind(
        name="colour_in",
        description="A colour gives way to one that another sentence of the data mentions, at an RGB distance of "
        f"{LEAST_DISTANCE:.0f} or more: *a red bus* is *a green bus*.",
        prepare=prepare_mentioned,
    ),
)
