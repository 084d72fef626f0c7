"""Kinds that exchange listed words: ``antonym``, ``rare_synonym``, ``spatial`` and ``verb_antonym``."""

from __future__ import annotations

from cxc_eccv.sources.wordnet import words_for_living
from cxc_eccv.studies.explain.altering.parsed_sentences import Kind, Places, Sentence, substitute
from cxc_eccv.studies.explain.grammar import compare_adjective, inflect_verb, plural_of


def _pair_up(both_ways: str, one_way: str) -> dict[str, str]:
    """Each first word to the second, its opposite; of ``both_ways`` also the second to the first.

    In ``one_way`` the second word has another opposite or another sense.
    """
    opposites = dict(pair.split("/") for pair in f"{both_ways} {one_way}".split())
    return opposites | {second: first for first, second in (pair.split("/") for pair in both_ways.split())}


OPPOSITE_ADJECTIVES = _pair_up(
    "armed/unarmed artificial/natural back/front beautiful/ugly cheap/expensive clean/dirty closed/open cold/hot "
    "comfortable/uncomfortable complete/incomplete complex/simple cooked/raw dangerous/safe deep/shallow "
    "difficult/easy dry/wet eastern/western empty/full even/uneven exterior/interior familiar/strange fancy/plain "
    "fast/slow female/male finished/unfinished formal/informal happy/unhappy hard/soft healthy/unhealthy high/low "
    "horizontal/vertical incoming/outgoing indoor/outdoor inner/outer inside/outside loaded/unloaded "
    "married/unmarried narrow/wide noisy/quiet occupied/unoccupied organized/disorganized painted/unpainted "
    "paved/unpaved pleasant/unpleasant private/public rough/smooth round/square rural/urban strong/weak "
    "usual/unusual wireless/wired",
    "attractive/unattractive bright/dull bumpy/smooth curly/straight damaged/undamaged dark/light dead/living "
    "fat/thin good/bad hairy/hairless heavy/light important/unimportant long/short many/few new/old nice/nasty "
    "sharp/dull similar/dissimilar smart/stupid sour/sweet tall/short thick/thin warm/cool young/old",
)
"""Each pair was checked in captions. Left out are colours and sizes, which have other kinds, words that point at
things, and WordNet's opposites that make no sense in captions: *heavy blue sky*, *idle street*, *stale snow*."""

OF_LIVING_OR_NOT = {"old": ("young", "new"), "short": ("tall", "long"), "thin": ("fat", "thick")}
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


def find_adjectives(sentence: Sentence) -> Places:
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
    word = sentence.words[place]
    after = sentence.after(place)
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
    return OPPOSITE_ADJECTIVES.get(word.lemma, "")


RARER = (
    "animal/creature attire/garb automobile/motorcar baby/infant backpack/knapsack bartender/barkeep "
    "basement/cellar building/edifice bush/shrub cafe/coffeehouse car/auto,automobile,motorcar cemetery/graveyard "
    "child/youngster chunk/lump classroom/schoolroom cloth/fabric coast/seacoast cowboy/cowhand creek/brook "
    "curtain/drape dad/daddy decoration/ornament doctor/physician dusk/twilight,nightfall fabric/textile "
    "fireplace/hearth flower/blossom freeway/superhighway garbage/refuse group/grouping hospital/infirmary "
    "kid/youngster liquor/booze lobby/foyer,vestibule luggage/baggage lunch/luncheon microphone/mike "
    "musician/instrumentalist napkin/serviette neighborhood/locality night/nighttime noon/midday owner/proprietor "
    "parachute/chute person/individual pile/heap purse/handbag railroad/railway refrigerator/icebox "
    "residence/abode roadside/wayside singer/vocalist sleep/slumber slope/incline smile/grin speed/velocity "
    "steeple/spire store/shop student/pupil sunlight/sunshine sunset/sundown teenager/adolescent tie/necktie "
    "trash/rubbish tub/bathtub violin/fiddle winter/wintertime"
)
"""Nouns and rarer synonyms, each checked in captions. The noun is the first sense of the rarer word in WordNet, which
counts that word at least once, and captions have the noun at least twice as often."""

SYNONYMS = {noun: names.split(",") for noun, names in (pair.split("/") for pair in RARER.split())}


ON_RAILS = frozenset("engine rail railroad rails subway tracks train trains".split())
"""Words that make *car* a railway car, which is no *auto*."""


def find_nouns(sentence: Sentence) -> Places:
    """The listed nouns that are not part of a compound."""
    places = []
    for place, word in enumerate(sentence.words):
        singular = word.tag == "NN" and word.lemma == sentence.lower[place]
        if not (singular or (word.tag == "NNS" and plural_of(word.lemma) == sentence.lower[place])):
            continue
        if word.lemma not in SYNONYMS or _is_part_of_name(sentence, place):
            continue
        if word.lemma != "car" or ON_RAILS.isdisjoint(sentence.lower):
            names = SYNONYMS[word.lemma] if singular else map(plural_of, SYNONYMS[word.lemma])
            places.append([substitute(sentence, place, name) for name in names])
    return places


def _is_part_of_name(sentence: Sentence, place: int) -> bool:
    compound = sentence.words[place].role == "compound" or sentence.children(place, "compound")
    before_noun = any(word.tag in ("NN", "NNS") for word in sentence.words[place + 1 : place + 2])
    return bool(compound) or before_noun or not sentence.stands_alone(place, place)


PREPOSITIONS = {
    "above": ("below",),
    "behind": ("in front of",),
    "below": ("above",),
    "beneath": ("above", "on top of"),
    "beside": ("far from",),
    "down": ("up",),
    "far from": ("close to", "near"),
    "in front of": ("behind",),
    "inside": ("outside",),
    "into": ("out of",),
    "near": ("far from",),
    "next to": ("far from",),
    "on top of": ("below", "under"),
    "outside": ("inside",),
    "over": ("under",),
    "toward": ("away from",),
    "towards": ("away from",),
    "under": ("above", "on top of"),
    "underneath": ("above", "on top of"),
    "up": ("down",),
}
SIDES = {"left": "right", "right": "left"}

SUPPORTS = frozenset("bed bench chair couch counter countertop desk shelf sofa stool table".split())
"""Nouns for which *under* is the opposite of *on*: nobody rides under a bus."""

PARTED = frozenset("break cut divide make slice split tear turn".split())
"""Verbs after which *into* names a result: *cut into pieces*."""


def find_words_of_place(sentence: Sentence) -> Places:
    """The prepositions of place that have an object, and *left* and *right*."""
    places = []
    for place, word in enumerate(sentence.words):
        name = sentence.lower[place]
        if not sentence.stands_alone(place, place):
            continue
        if name in SIDES and word.tag in ("JJ", "NN"):
            places.append([substitute(sentence, place, SIDES[name])])
        elif name == "on" and any(
            sentence.words[child].lemma in SUPPORTS for child in sentence.children(place, "pobj")
        ):
            places.append([substitute(sentence, place, "under")])
        else:
            phrases = (" ".join(sentence.lower[place : place + length]) for length in (3, 2, 1))
            phrase = next((phrase for phrase in phrases if phrase in PREPOSITIONS), "")
            last = place + phrase.count(" ")
            if phrase and _is_of_place(sentence, place, last):
                places.append([substitute(sentence, place, other, last) for other in PREPOSITIONS[phrase]])
    return places


def _is_of_place(sentence: Sentence, first: int, last: int) -> bool:
    word = sentence.lower[first]
    before = sentence.before(first)
    after = sentence.after(last)
    if first == last and (sentence.words[first].tag != "IN" or not sentence.children(first, "pobj")):
        return False
    if after in ("", "of", "to") or (after[:1].isdigit()) or (word == "over" and sentence.words[last + 1].tag == "CD"):
        return False
    near = {sentence.words[first - 1].lemma, sentence.words[sentence.words[first].head].lemma}
    if word == "into" and not near.isdisjoint(PARTED):
        return False
    return before not in ("all", "far", "from", "half", "right", "straight", "up", "upside")


ACTIVE = ("VB", "VBD", "VBG", "VBP", "VBZ")
"""Past participles are left out: *filled with* has no opposite of the same grammar."""

POSTURES = {"lie": ("sit", "stand"), "sit": ("lie", "stand"), "stand": ("lie", "sit"), "sleep": ("wake",)}
"""Used for persons and animals only: a pizza that *sits* on a plate also *lies* there."""

OF_OBJECTS = {"hold": "let go of", "pull": "push", "push": "pull"}
"""Used with an object only: a train that *pulls in* does not *push in*."""

OPPOSITE_VERBS = _pair_up(
    "ascend/descend buy/sell close/open cry/laugh empty/fill enter/exit fall/rise follow/precede frown/smile "
    "lose/win lower/raise",
    "begin/end float/sink hit/miss lock/unlock love/hate pack/unpack wrap/unwrap",
)
"""Each pair was checked in captions. WordNet's opposites that make no sense there are left out: *walk* and *ride*."""

GROUPS = frozenset("bunch couple crowd flock group herd lot number pack pair row team".split())


def find_verbs(sentence: Sentence) -> Places:
    """The listed verbs without a particle, which would change their meaning; opposites have the same form."""
    places = []
    for place, word in enumerate(sentence.words):
        if word.tag not in ACTIVE or word.role in ("amod", "aux", "auxpass"):
            continue
        if sentence.children(place, "prt") or not sentence.stands_alone(place, place):
            continue
        forms = [inflect_verb(opposite, word.tag) for opposite in _opposites_at(sentence, place)]
        if changes := [substitute(sentence, place, form) for form in forms if form not in sentence.lower]:
            places.append(changes)
    return places


def _opposites_at(sentence: Sentence, place: int) -> tuple[str, ...]:
    lemma = sentence.words[place].lemma
    if lemma in (*POSTURES, "hold") and not _is_done_by_living(sentence, place):
        return ()
    if lemma in OF_OBJECTS:
        unbound = sentence.after(place) not in ("on", "onto", "up") and sentence.children(place, "dobj")
        return (OF_OBJECTS[lemma],) if unbound else ()
    return POSTURES.get(lemma, ()) or ((OPPOSITE_VERBS[lemma],) if lemma in OPPOSITE_VERBS else ())


def _is_done_by_living(sentence: Sentence, verb: int) -> bool:
    """Whether the subject of a verb is a person or an animal; the subject of *a group of dogs* is *dogs*."""
    subject = _subject_of(sentence, verb)
    while subject is not None and sentence.words[subject].lemma in GROUPS:
        of = [child for child in sentence.children(subject, "prep") if sentence.lower[child] == "of"]
        members = sentence.children(of[0], "pobj") if of else []
        if not members:
            break
        subject = members[0]
    return subject is not None and sentence.words[subject].lemma in words_for_living()


def _subject_of(sentence: Sentence, verb: int) -> int | None:
    """Index of the subject of a verb; None if the parse has none."""
    while True:
        named = [child for child in sentence.children(verb, "nsubj") if sentence.words[child].tag not in ("WDT", "WP")]
        word = sentence.words[verb]
        if named:
            return named[0]
        if word.role in ("acl", "relcl"):
            return word.head
        if word.head == verb or word.role not in ("conj", "advcl", "xcomp"):
            return None
        verb = word.head


WORD_ALTERATIONS = (
    Kind(
        name="antonym",
        description="An adjective gives way to its opposite: *an old bus* is *a new bus*. Colours and sizes are "
        "left to the kinds of these.",
        prepare=lambda data: find_adjectives,
    ),
    Kind(
        name="rare_synonym",
        description="A noun gives way to a rarer word for the same thing: *a building* is *an edifice*. A control: the "
        "meaning stays, and so should the rank.",
        prepare=lambda data: find_nouns,
        same_meaning=True,
    ),
    Kind(
        name="spatial",
        description="A word of place gives way to its opposite: *left* and *right*, *above* and *below*, *over* and "
        "*under*, *in front of* and *behind*, *inside* and *outside*, *next to* and *far from*, *up* and *down*, "
        "*into* and *out of*, *on* a piece of furniture and *under* it.",
        prepare=lambda data: find_words_of_place,
    ),
    Kind(
        name="verb_antonym",
        description="A verb gives way to its opposite, in the same form: *a man sitting* is *a man standing*.",
        prepare=lambda data: find_verbs,
    ),
)
