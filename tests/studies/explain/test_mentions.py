"""What a sentence mentions, rule by rule, and of the real captions; and the colours and sizes that it gives."""

import re
from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.sources.wordnet import NO_CATEGORY, load_category_words
from cxc_eccv.studies.explain.concepts import (
    find_differences,
    find_mentions,
    load_concepts,
    locate_mentions,
    synsets_of_categories,
)

COMMON = ["person.n.01", "dog.n.01", "cat.n.01", "fireplug.n.01", "hotdog.n.02", "mouse.n.04", "bicycle.n.01"]
COMMON += ["street_sign.n.01", "ball.n.01", "houseplant.n.01", "cellular_telephone.n.01"]
COMMON += ["motorcycle.n.01", "wineglass.n.01", "baseball_bat.n.01", "apple.n.01", "skateboard.n.01", "toilet.n.02"]
COMMON += ["horse.n.01", "sheep.n.01", "cow.n.01"]


SAMPLE = {"circle", "square", "triangle", "star", "heart", "cross"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog beside two CATS.", {"dog.n.01", "cat.n.01"}),  # any number, any case
        ("Fire hydrants, painted", {"fireplug.n.01"}),
        ("a red fire hydrant", {"fireplug.n.01"}),  # WordNet has a red fire and a black cat
        ("a black cat and a white horse", {"cat.n.01", "horse.n.01"}),
        ("a fire-hydrant and a skate board", {"fireplug.n.01", "skateboard.n.01"}),  # other spellings
        ("a hot dog", {"hotdog.n.02"}),  # the longest name: no dog
        ("puppies, kittens, lambs and cattle", {"dog.n.01", "cat.n.01", "sheep.n.01", "cow.n.01"}),
        ("an animal", set()),
        ("a pot, a can and a stool", set()),  # names of toilets in WordNet
        ("two men and a woman", {"person.n.01"}),
        ("people", {"person.n.01"}),
        ("a couple of apples", {"apple.n.01"}),  # no person
        ("her bike", {"person.n.01", "bicycle.n.01", "motorcycle.n.01"}),  # of two categories
        ("a mouse", {"mouse.n.04"}),
        ("wine glasses", {"wineglass.n.01"}),
        ("a white delicious cake, and they have more", set()),  # nouns for persons and apples, but rarely
        ("stop signs and a potted plant", {"street_sign.n.01", "houseplant.n.01"}),  # as COCO calls them
        ("a cell phone, sports balls", {"cellular_telephone.n.01", "ball.n.01"}),
        ("the dog's bone", {"dog.n.01"}),
        ("", set()),
        ("12 !?", set()),
    ],
)
def test_what_a_sentence_mentions(wordnet, text, expected):
    assert find_mentions([text], COMMON) == [expected]


def test_every_coco_category_has_words(wordnet):
    words = load_category_words()
    synsets = synsets_of_categories()
    assert [*words] == [*[name for name in synsets if name not in SAMPLE], NO_CATEGORY]
    vocabulary = [entry.synset for entry in synsets.values()]
    for category, phrases in words.items():
        assert len(set(phrases)) == len(phrases)
        wanted = set() if category == NO_CATEGORY else {synsets[category].synset}
        assert all(found >= wanted and bool(found) == bool(wanted) for found in find_mentions(phrases, vocabulary))


@pytest.mark.parametrize(
    ("images", "precision", "recall"),
    [(1_000, 0.9391, 0.6252), pytest.param(None, 0.9435, 0.6220, marks=pytest.mark.slow)],
)
def test_what_captions_mention_is_what_their_images_show(wordnet, real_library, images, precision, recall):
    """Of the test split: WordNet's senses alone had 91.58% and 59.27%."""
    shown = {image: set(names) for image, names in load_concepts(real_library.split("test")).images.items() if names}
    shown = dict(list(shown.items())[:images])
    captions = real_library.split("test").captions
    captions = captions.filter(pc.is_in(captions["image_id"], pa.array(shown)))
    found = find_mentions(captions["text"].to_pylist(), {name for names in shown.values() for name in names})
    pairs = zip(captions["image_id"].to_pylist(), found, strict=True)
    pairs = [(image, names) for image, names in pairs if image in shown]
    of_image = defaultdict(set)
    for image, names in pairs:
        of_image[image] |= names
    right = sum(len(names & shown[image]) for image, names in pairs)
    assert right / sum(len(names) for _, names in pairs) == pytest.approx(precision, abs=5e-5)
    told = sum(len(of_image[image] & names) for image, names in shown.items())
    assert told / sum(map(len, shown.values())) == pytest.approx(recall, abs=5e-5)


@pytest.mark.parametrize(
    ("text", "vocabulary", "expected"),
    [
        # The images decide which of the senses it was.
        ("a star", ["star.n.01", "star.n.05"], {"star.n.01", "star.n.05"}),
        ("stars", ["star.n.05", "celestial_body.n.01"], {"star.n.05"}),
        # Concepts above a concept are mentioned too.
        ("a puppy", ["puppy.n.01", "dog.n.01", "animal.n.01", "plant.n.02"], {"puppy.n.01", "dog.n.01", "animal.n.01"}),
        ("a dog", ["canis_familiaris.n.01"], {"canis_familiaris.n.01"}),  # a synset by any of its names
        ("a dog", [], set()),
    ],
)
def test_other_words_mean_their_wordnet_names(wordnet, text, vocabulary, expected):
    assert find_mentions([text], vocabulary) == [expected]


def test_an_unknown_synset_is_refused(wordnet):
    with pytest.raises(DataError, match=r"no synset 'dogg\.n\.01'"):
        find_mentions(["a dog"], ["dogg.n.01"])


def test_where_a_sentence_mentions_concepts(wordnet):
    text = "  A hot dog, two DOGS & (fire-hydrants)."
    (found,) = locate_mentions([text], COMMON)
    assert [(text[start:end], set(concepts)) for start, end, concepts in found] == [
        ("hot dog", {"hotdog.n.02"}),
        ("DOGS", {"dog.n.01"}),
        ("fire-hydrants", {"fireplug.n.01"}),
    ]
    assert locate_mentions(["", "a rock"], COMMON) == [[], []]


def locate(text):
    return [(*found.span(), {found[0].rstrip("s")}) for found in re.finditer("cat|dogs?|square", text)]


def differences(text, *captions):
    found = find_differences(text, locate(text), [(caption, locate(caption)) for caption in captions])
    return {one.asked: one.others for one in found}


@pytest.mark.parametrize(
    ("text", "captions", "expected"),
    [
        ("a black square", ["a red square", "a square"], {"black square": ("red square",)}),
        ("a black square", ["a square", "A Black square"], {}),
        ("a black square", ["a square on black"], {"black square": ()}),
        ("a grey cat", ["a gray cat"], {}),
        ("a big dog", ["a large dog", "a small black dog"], {}),
        ("a big dog", ["a tiny dog"], {"big dog": ("tiny dog",)}),
        ("a black-and-white cat", ["a black cat"], {"white cat": ("black cat",)}),
        ("a red, small dog", ["a brown dog"], {"red dog": ("brown dog",), "small dog": ()}),
        ("a black dog", ["a black cat and a dog"], {"black dog": ()}),
        ("a dog in black and cat", ["a white cat"], {}),
        ("a bored dog", ["a white dog"], {}),
        ("a man in a red shirt", ["a man in a blue shirt"], {}),
        ("a red dog", ["a brown dog", "a white dog, brown dogs"], {"red dog": ("brown dog", "white dog")}),
    ],
)
def test_what_a_caption_says_of_its_concepts(text, captions, expected):
    assert differences(text, *captions) == expected


def test_puppy_is_a_dog_and_cat_is_not():
    def among(concepts):
        return find_differences("black dog", [(6, 9, {"dog", "animal"})], [("red pet", [(4, 7, concepts)])])[0].others

    assert among({"puppy", "dog", "animal"}) == ("red pet",)
    assert among({"cat", "animal"}) == ()
