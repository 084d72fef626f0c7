"""Kind ``rare_synonym``: replace a noun by a rarer synonym, as a control."""

from cxc_eccv.studies.explain.altering.english import plural_of
from cxc_eccv.studies.explain.altering.sentences import Kind, Places, Sentence, substitute

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


def find(sentence: Sentence) -> Places:
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


KIND = Kind(
    name="rare_synonym",
    description="A noun gives way to a rarer word for the same thing: *a building* is *an edifice*. A control: the "
    "meaning stays, and so should the rank.",
    prepare=lambda data: find,
    same_meaning=True,
)
