"""Kind ``antonym``: an adjective gives way to its opposite."""

from cxc_eccv.sources.coco_words import words_for_living
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
"""The second word is the opposite of the first, but has another opposite itself, or is of another sense."""

OPPOSITES = dict(pair.split("/") for pair in f"{BOTH_WAYS} {ONE_WAY}".split())
OPPOSITES |= {second: first for first, second in (pair.split("/") for pair in BOTH_WAYS.split())}
"""Each was read in captions. Left out are colours and sizes, which have kinds of their own, words that point at things,
and opposites of WordNet's that captions do not bear out: *heavy blue sky*, *idle street*, *stale snow*."""

OF_LIVING_OR_NOT = {
    "old": ("young", "new"),
    "short": ("tall", "long"),
    "thin": ("fat", "thick"),
}
"""The opposite for persons and animals, and that for things."""

SHADED = frozenset(
    "beige black blond blonde blue brown brunette color colored colors colour coloured complexion gray green grey "
    "haired hair orange pink purple red skinned skin tan white wood yellow".split()
)
"""Of these, *bright* and *dark* are shades: their change is one of colour."""

CHILDREN = frozenset("baby boy calf child cub foal girl infant kid kitten lamb puppy teen teenager toddler".split())
"""Of these, nothing but *young* is said: there is no *old child*."""

FIXED_PHRASES = (
    "back/and,ground,pack cold/cut,cuts dead/end,ends fast/food,foods full/body,length,moon,size,sized,speed,view "
    "good/morning,time happy/birthday hard/boiled,hat,hats,to,wood heavy/duty,set "
    "high/chair,chairs,end,five,heel,heels,rise,school,tech hot/air,chocolate,dog,dogs,pink,rod,rods,sauce,tub "
    "long/as,board,horn,horned,horns old/fashion,fashioned "
    "open/air,area,field,fields,flame,land,ocean,plain,range,sea,sky,space,water short/order,sleeve,sleeved,stop "
    "smart/car,phone,phones square/feet,foot wet/suit,suits"
)
FIXED = {word: frozenset(after.split(",")) for word, after in (pair.split("/") for pair in FIXED_PHRASES.split())}
"""Adjectives to the words before which they have no opposite."""


def find(sentence: Sentence) -> Places:
    """Every adjective of the list, in the same degree of comparison, whose opposite is not in the sentence already."""
    places = []
    for place, word in enumerate(sentence.words):
        opposite = _opposite_at(sentence, place)
        form = opposite and compare_adjective(opposite, word.tag)
        if form and form not in sentence.lower:
            places.append([substitute(sentence, place, form)])
    return places


def _opposite_at(sentence: Sentence, place: int) -> str:
    """The opposite of an adjective here; empty where there is none."""
    word, after = sentence.words[place], sentence.after(place)
    described = sentence.words[word.head].lemma
    if word.tag not in ("JJ", "JJR", "JJS") or not sentence.stands_alone(place, place):
        return ""
    if after in FIXED.get(word.lemma, ()) or sentence.before(place) == "half":  # as full as it is empty
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
