"""Kind ``verb_antonym``: a verb gives way to its opposite."""

from cxc_eccv.sources.coco_words import words_for_living
from cxc_eccv.studies.explain.altering.english import inflect_verb
from cxc_eccv.studies.explain.altering.sentences import Kind, Places, Sentence, substitute

ACTIVE = ("VB", "VBD", "VBG", "VBP", "VBZ")
"""Past participles are left alone: *filled with* has no opposite of the same grammar."""

POSTURES = {"lie": ("sit", "stand"), "sit": ("lie", "stand"), "stand": ("lie", "sit"), "sleep": ("wake",)}
"""Of persons and animals alone: a pizza that *sits* on a plate *lies* there as well."""

OF_OBJECTS = {"hold": "let go of", "pull": "push", "push": "pull"}
"""With an object alone: a train that *pulls in* does not *push in*, and a ride that *holds on* lets go of nothing."""

BOTH_WAYS = (
    "ascend/descend buy/sell close/open cry/laugh empty/fill enter/exit fall/rise follow/precede frown/smile "
    "lose/win lower/raise"
)
ONE_WAY = "begin/end float/sink hit/miss lock/unlock love/hate pack/unpack wrap/unwrap"
OPPOSITES = dict(pair.split("/") for pair in f"{BOTH_WAYS} {ONE_WAY}".split())
OPPOSITES |= {second: first for first, second in (pair.split("/") for pair in BOTH_WAYS.split())}
"""Each was read in captions. Left out are opposites of WordNet's that captions do not bear out: a giraffe that walks is
none that *rides*, and a train that comes down the track *goes* down it."""

GROUPS = frozenset("bunch couple crowd flock group herd lot number pack pair row team".split())


def find(sentence: Sentence) -> Places:
    """Every verb of the lists, in the same form; none with a particle, which changes what it means."""
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
    return POSTURES.get(lemma, ()) or ((OPPOSITES[lemma],) if lemma in OPPOSITES else ())


def _is_done_by_living(sentence: Sentence, verb: int) -> bool:
    """Whether the subject of a verb is a person or an animal; of *a group of dogs*, the dogs are asked."""
    subject = _subject_of(sentence, verb)
    while subject is not None and sentence.words[subject].lemma in GROUPS:
        of = [child for child in sentence.children(subject, "prep") if sentence.lower[child] == "of"]
        members = sentence.children(of[0], "pobj") if of else []
        if not members:
            break
        subject = members[0]
    return subject is not None and sentence.words[subject].lemma in words_for_living()


def _subject_of(sentence: Sentence, verb: int) -> int | None:
    """Place of the noun that does what a verb says; None where the parse has none."""
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


KIND = Kind(
    name="verb_antonym",
    description="A verb gives way to its opposite, in the same form: *a man sitting* is *a man standing*.",
    prepare=lambda data: find,
)
