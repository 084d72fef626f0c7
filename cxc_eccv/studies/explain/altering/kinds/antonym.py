"""Kind ``antonym``: replace an adjective by its opposite."""

from cxc_eccv.sources.wordnet import words_for_living
from cxc_eccv.studies.explain.altering.english import compare_adjective
from cxc_eccv.studies.explain.altering.sentences import Kind, Places, Sentence, substitute

BOTH_WAYS = (
    "armed/unarmed artificial/natural back/front beautiful/ugly cheap/expensive clean/dirty closed/open cold/hot "
    "comfortable/uncomfortable complete/incomplete complex/simple cooked/raw dangerous/safe deep/shallow "
    "difficult/easy dry/wet eastern/western empty/full even/uneven exterior/interior familiar/strange fancy/plain "
    "fast/slow female/male finished/unfinished formal/informal happy/unhappy hard/soft healthy/unhealthy high/low "
    "horizontal/vertical incoming/outgoing indoor/outdoor inner/outer inside/outside loaded/unloaded "
    "married/unmarried narrow/wide noisy/quiet occupied/unoccupied organized/disorganized painted/unpainted "
    "paved/unpaved pleasant/unpleasant private/public rough/smooth round/square rural/urban strong/weak "
    "usual/unusual wireless/wired"
)
ONE_WAY = (
    "attractive/unattractive bright/dull bumpy/smooth curly/straight damaged/undamaged dark/light dead/living "
    "fat/thin good/bad hairy/hairless heavy/light important/unimportant long/short many/few new/old nice/nasty "
    "sharp/dull similar/dissimilar smart/stupid sour/sweet tall/short thick/thin warm/cool young/old"
)
"""The second word is the opposite of the first, but itself has another opposite or another sense."""

OPPOSITES = dict(pair.split("/") for pair in f"{BOTH_WAYS} {ONE_WAY}".split())
OPPOSITES |= {second: first for first, second in (pair.split("/") for pair in BOTH_WAYS.split())}
"""Each pair was checked in captions. Left out are colours and sizes, which have other kinds, words that point at
things, and WordNet's opposites that make no sense in captions: *heavy blue sky*, *idle street*, *stale snow*."""

OF_LIVING_OR_NOT = {
    "old": ("young", "new"),
    "short": ("tall", "long"),
    "thin": ("fat", "thick"),
}
"""The opposite for persons and animals, and the one for things."""

SHADED = frozenset(
    "beige black blond blonde blue brown brunette color colored colors colour coloured complexion gray green grey "
    "haired hair orange pink purple red skinned skin tan white wood yellow".split()
)
"""Before these, *bright* and *dark* are shades of a colour."""

CHILDREN = frozenset("baby boy calf child cub foal girl infant kid kitten lamb puppy teen teenager toddler".split())
"""Nouns without an opposite of *young*: there is no *old child*."""

FIXED_PHRASES = (
    "back/and,ground,pack cold/cut,cuts dead/end,ends fast/food,foods full/body,length,moon,size,sized,speed,view "
    "good/morning,time happy/birthday hard/boiled,hat,hats,to,wood heavy/duty,set "
    "high/chair,chairs,end,five,heel,heels,rise,school,tech hot/air,chocolate,dog,dogs,pink,rod,rods,sauce,tub "
    "long/as,board,horn,horned,horns old/fashion,fashioned "
    "open/air,area,field,fields,flame,land,ocean,plain,range,sea,sky,space,water short/order,sleeve,sleeved,stop "
    "smart/car,phone,phones square/feet,foot wet/suit,suits"
)
FIXED = {word: frozenset(after.split(",")) for word, after in (pair.split("/") for pair in FIXED_PHRASES.split())}
"""Adjective to the next words that rule out an opposite."""


def find(sentence: Sentence) -> Places:
    """The listed adjectives whose opposite, in the same degree of comparison, is not yet in the sentence."""
    places = []
    for place, word in enumerate(sentence.words):
        opposite = _opposite_at(sentence, place)
        form = opposite and compare_adjective(opposite, word.tag)
        if form and form not in sentence.lower:
            places.append([substitute(sentence, place, form)])
    return places


def _opposite_at(sentence: Sentence, place: int) -> str:
    """The opposite of the adjective at this place; empty if there is none."""
    word, after = sentence.words[place], sentence.after(place)
    described = sentence.words[word.head].lemma
    if word.tag not in ("JJ", "JJR", "JJS") or not sentence.stands_alone(place, place):
        return ""
    if after in FIXED.get(word.lemma, ()) or sentence.before(place) == "half":  # half full is half empty
        return ""
    if (word.lemma == "many" and sentence.before(place) == "of") or (word.lemma == "young" and described in CHILDREN):
        return ""
    living = described in words_for_living()
    if word.lemma in ("bright", "dark") and (living or after in SHADED):
        return ""
    if word.lemma in OF_LIVING_OR_NOT:
        return OF_LIVING_OR_NOT[word.lemma][not living]
    return OPPOSITES.get(word.lemma, "")


KIND = Kind(
    name="antonym",
    description="An adjective gives way to its opposite: *an old bus* is *a new bus*. Colours and sizes are "
    "left to the kinds of these.",
    prepare=lambda data: find,
)
