"""Kind ``number``: replace a numeral by another."""

from cxc_eccv.studies.explain.altering.sentences import Kind, Places, Sentence, substitute

WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = tuple(str(number) for number in range(2, 11))
"""Without one, which would change the noun and the verb."""

BETWEEN = frozenset({"JJ", "JJR", "NN", "NNP", "VBG", "VBN", "CC", ",", "RB", "HYPH", "CD"})
FARTHEST = 5


def find(sentence: Sentence) -> Places:
    """The numbers from two to ten that count things: a plural noun, or *of*, follows."""
    places = []
    for place, word in enumerate(sentence.words):
        number = sentence.lower[place]
        if word.tag != "CD" or not sentence.stands_alone(place, place) or not _counts_things(sentence, place):
            continue
        for numerals in (WORDS, DIGITS):
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


KIND = Kind(
    name="number",
    description="A number from two to ten that counts things gives way to another one, words to words and digits to "
    "digits: *two dogs* are *seven dogs*.",
    prepare=lambda data: find,
)
