"""Colours and sizes that a text gives to a concept, and captions of an image do not."""

import re

import pytest
from cxc_eccv.studies.explain.attributes import find_differences


def locate(text):
    return [(*found.span(), {found[0].rstrip("s")}) for found in re.finditer("cat|dogs?|square", text)]


def differences(text, *captions):
    found = find_differences(text, locate(text), [(caption, locate(caption)) for caption in captions])
    return {one.asked: one.told for one in found}


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


def test_a_puppy_is_a_dog_and_a_cat_is_none():
    def among(concepts):
        return find_differences("black dog", [(6, 9, {"dog", "animal"})], [("red pet", [(4, 7, concepts)])])[0].told

    assert among({"puppy", "dog", "animal"}) == ("red pet",)
    assert among({"cat", "animal"}) == ()
