"""Kind ``plural``: turn a singular noun into a plural or back, with its article and verb."""

from cxc_eccv.studies.explain.altering.english import article_for, keep_capital, plural_of, third_person
from cxc_eccv.studies.explain.altering.sentences import Change, Kind, Places, Sentence

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


def find(sentence: Sentence) -> Places:
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
    begin, end = min(parts), max(parts)
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
    word, text = sentence.words[verb], sentence.lower[verb]
    if plural:
        if text in PLURAL_OF:
            return PLURAL_OF[text]
        return word.lemma if word.tag == "VBZ" and third_person(word.lemma) == text else None
    if text in SINGULAR_OF:
        return SINGULAR_OF[text]
    return third_person(word.lemma) if word.tag == "VBP" and word.lemma == text else None


KIND = Kind(
    name="plural",
    description="One thing becomes several, or several become one; the article and the verb go with it: *a dog is "
    "running* is *dogs are running*.",
    prepare=lambda data: find,
)
