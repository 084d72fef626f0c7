"""Kind ``verb_antonym``: replace a verb by its opposite."""

from cxc_eccv.sources.wordnet import words_for_living
from cxc_eccv.studies.explain.altering.english import inflect_verb
from cxc_eccv.studies.explain.altering.sentences import Kind, Places, Sentence, substitute

ACTIVE = ("VB", "VBD", "VBG", "VBP", "VBZ")
"""Past participles are left out: *filled with* has no opposite of the same grammar."""

POSTURES = {"lie": ("sit", "stand"), "sit": ("lie", "stand"), "stand": ("lie", "sit"), "sleep": ("wake",)}
"""Used for persons and animals only: a pizza that *sits* on a plate also *lies* there."""

OF_OBJECTS = {"hold": "let go of", "pull": "push", "push": "pull"}
"""Used with an object only: a train that *pulls in* does not *push in*."""

BOTH_WAYS = (
    "ascend/descend buy/sell close/open cry/laugh empty/fill enter/exit fall/rise follow/precede frown/smile "
    "lose/win lower/raise"
)
ONE_WAY = "begin/end float/sink hit/miss lock/unlock love/hate pack/unpack wrap/unwrap"
OPPOSITES = dict(pair.split("/") for pair in f"{BOTH_WAYS} {ONE_WAY}".split())
OPPOSITES |= {second: first for first, second in (pair.split("/") for pair in BOTH_WAYS.split())}
"""Each pair was checked in captions. WordNet's opposites that make no sense there are left out: *walk* and *ride*."""

GROUPS = frozenset("bunch couple crowd flock group herd lot number pack pair row team".split())


def find(sentence: Sentence) -> Places:
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
    return POSTURES.get(lemma, ()) or ((OPPOSITES[lemma],) if lemma in OPPOSITES else ())


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


KIND = Kind(
    name="verb_antonym",
    description="A verb gives way to its opposite, in the same form: *a man sitting* is *a man standing*.",
    prepare=lambda data: find,
)
