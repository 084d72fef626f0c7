"""Words for the 80 categories of COCO in captions; the list was checked on captions of images with categories."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources

NO_CATEGORY = ""
"""Key of phrases that contain a category's name but do not name it, such as ``bus stop``."""

ANIMALS = ("bear", "bird", "cat", "cow", "dog", "elephant", "giraffe", "horse", "sheep", "zebra")


@cache
def load_category_words() -> Mapping[str, tuple[str, ...]]:
    """Category to its words and phrases, singular and lower case, with its name first."""
    text = resources.files("cxc_eccv.sources").joinpath("coco_words.csv").read_text(encoding="utf-8")
    table = {}
    for row in csv.DictReader(text.splitlines()):
        words = [word.replace("-", " ") for word in row["words"].split()]
        table[row["category"]] = tuple(filter(None, [row["category"], *words]))
    return table


@cache
def words_for_living() -> frozenset[str]:
    """Words for persons and for the animals among the categories, in the singular."""
    words = load_category_words()
    return frozenset(word for category in ("person", *ANIMALS) for word in words[category])
