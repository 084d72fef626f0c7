"""Concepts of an image: the WordNet synsets of its annotations, with their number and size; and those of a sentence.

A sentence mentions a category of COCO by a checked list of words, and other concepts by their names in WordNet.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.library import Split
from cxc_eccv.sources.readers import Instances
from cxc_eccv.sources.wordnet import find_synset, load_category_words, load_wordnet
from cxc_eccv.studies.explain.grammar import plural_of
from cxc_eccv.types import FloatArray, find_positions
from cxc_eccv.types.concept_pairs import Concepts

SOURCES = (COCO.name, "visual-genome")


class CategorySynset(NamedTuple):
    """The WordNet synset of a category, and the reason for the choice if there is one."""

    category_id: int
    category: str
    synset: str
    reason: str


@cache
def synsets_of_categories() -> Mapping[str, CategorySynset]:
    """The packaged tables: the 80 categories of COCO and the 6 of the embedded sample, by name."""
    table = {}
    for name in ("coco_synsets.csv", "sample_synsets.csv"):
        text = resources.files("cxc_eccv.studies.explain").joinpath(name).read_text(encoding="utf-8")
        for row in csv.DictReader(text.splitlines()):
            entry = CategorySynset(int(row["category_id"]), row["category"], row["synset"], row["reason"])
            table[entry.category] = entry
    return table


class Box(NamedTuple):
    """One annotated instance of a synset, with the annotators' word for it.

    Sides are shares of the image's width and height, cut off at its edges; the origin is top left.
    """

    concept: str
    name: str
    x: float
    y: float
    width: float
    height: float


def concept_word(concept: str) -> str:
    """The word of a concept: that of ``traffic_light.n.01`` is ``traffic light``."""
    return concept.partition(".")[0].replace("_", " ")


@dataclass(frozen=True, slots=True, eq=False)
class ImageConcepts:
    """The concepts that one source annotated in the images of a split.

    ``images`` has the concepts of every annotated image, possibly none; an image that is not a key was not annotated.
    If instances are not ``counted``, their areas are empty arrays, there are no boxes, and only concept agreement and
    similarity can be computed. ``groups`` counts the instances of unknown number (COCO's ``iscrowd``), each as one;
    ``left_out`` counts the annotations that were left out, by reason.
    """

    source: str
    split: str
    n_images: int
    images: Mapping[int, Concepts] = field(repr=False)
    counted: bool
    boxes: Mapping[int, tuple[Box, ...]] = field(repr=False)
    groups: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def vocabulary(self) -> list[str]:
        """The concepts that any of the images shows, in alphabetical order."""
        return sorted(set().union(*self.images.values()))

    def of(self, image_ids: Iterable[int]) -> list[Concepts]:
        """The concepts of images, in this order; DataError if one of them was not annotated."""
        ids = [int(image_id) for image_id in image_ids]
        lacking = [image_id for image_id in dict.fromkeys(ids) if image_id not in self.images]
        if lacking:
            remedy = " Give a file that has all: --annotations instances_val2014.json." * self.source.startswith("COCO")
            raise DataError(
                f"{self.source}: {len(lacking):,} of the images have no annotations, among them image {lacking[0]}. "
                f"{len(self.images):,} of the {self.n_images:,} images of {self.split} are annotated.{remedy}"
            )
        return [self.images[image_id] for image_id in ids]


def load_concepts(split: Split, source: str = COCO.name, annotations: Path | None = None) -> ImageConcepts:
    """Concepts of the images of a split.

    An annotation is one instance, whose box is clipped to the image; a group of unknown number (COCO's ``iscrowd``)
    counts as one, since the paper counts boxes. Left out are boxes without an area inside the image, objects without a
    synset of WordNet 3.0, and copies of another annotation. An image is annotated if the source lists it, and not all
    of its annotations were left out.

    Args:
        split: one of COCO's Karpathy splits.
        source: ``coco``, full annotations if available, else category sets; or ``visual-genome``.
        annotations: a file of COCO annotations, full ones or category sets, or the folder with Visual Genome's
            ``objects.json`` and ``image_data.json``, in place of the library's.

    Returns:
        The concepts of the annotated images of the split.

    Raises:
        UnknownName: unknown source or split, or a category that is not COCO's.
        InvalidOption: nltk is missing, which Visual Genome's synsets need.
        DataError: a file is missing or malformed, or names no concept in an image of the split; WordNet is missing.

    Example:
        >>> from cxc_eccv.sources.library import Library
        >>> concepts = load_concepts(Library("sample").split("test"))
        >>> concepts.source, concepts.counted, len(concepts.images)
        ('COCO instances', True, 60)
    """
    check_source(source)
    if source == COCO.name:
        return _collect(split.instances(annotations), split, "COCO", _find_category_synset)
    load_wordnet()  # fails before a long file is read
    files = [] if annotations is None else [annotations / name for name in ("objects.json", "image_data.json")]
    return _collect(split.library.visual_genome(*files), split, "Visual Genome", _find_object_synset)


def check_source(source: str) -> None:
    """Raise UnknownName for another source of concepts."""
    if source not in SOURCES:
        raise UnknownName("source of concepts", source, SOURCES)


def _collect(
    content: Instances, split: Split, source: str, find: Callable[[str, str | None], str | None]
) -> ImageConcepts:
    """The concepts of the annotated images."""
    image_ids = split.image_ids
    images, annotations = (
        table.filter(pa.array(find_positions(table["image_id"], image_ids)[1]))
        for table in (content.images, content.annotations)
    )
    counted = not content.annotations["x"].null_count
    if source == "COCO":
        source = "COCO instances" if counted else "COCO categories"
    if not images.num_rows:
        raise DataError(
            f"{source} annotates none of the {image_ids.size:,} images of {split.name}; give files that annotate them"
        )
    named, groups, left_out = _name_boxes(annotations, _shares(annotations, images) if counted else None, find)
    if not named:
        reasons = "".join(f"; left out: {count:,}, {reason}" for reason, count in left_out.items())
        raise DataError(
            f"{source}: the file lists {images.num_rows:,} of the images of {split.name}, but none of their annotations"
            f" names a concept ({annotations.num_rows:,} annotations{reasons}); give a file that names their objects"
        )
    boxes: dict[int, list[Box]] = {image_id: [] for image_id in images["image_id"].to_pylist()}
    for image_id, box in named:
        boxes[image_id].append(box)
    # An image whose annotations were all left out has unknown concepts, not none.
    for image_id in set(annotations["image_id"].to_pylist()):
        if not boxes[image_id]:
            del boxes[image_id]
    return ImageConcepts(
        source,
        split.name,
        n_images=image_ids.size,
        images={image_id: _areas(shown, counted) for image_id, shown in boxes.items()},
        counted=counted,
        boxes={image_id: tuple(shown) for image_id, shown in boxes.items()} if counted else {},
        groups=groups,
        left_out=left_out,
    )


def _name_boxes(
    annotations: pa.Table, shares: FloatArray | None, find: Callable[[str, str | None], str | None]
) -> tuple[list[tuple[int, Box]], int, dict[str, int]]:
    """Image and box of each annotation with a concept, the number of groups, and why others were left out."""
    boxes = []
    groups = 0
    left_out = Counter[str]()
    columns = (annotations[name].to_pylist() for name in ("image_id", "name", "synset", "group", "left_out"))
    places = np.zeros((annotations.num_rows, 4)) if shares is None else shares
    for image_id, name, synset, group, reason, place in zip(*columns, places.tolist(), strict=True):
        concept = None if reason else find(name, synset)
        if concept is None:
            no_synset = "object " + ("without a synset" if synset is None else "with a synset that WordNet 3.0 lacks")
            left_out[reason or no_synset] += 1
        elif shares is not None and min(place[2:]) <= 0:
            left_out["box without an area inside the image"] += 1
        else:
            boxes.append((image_id, Box(concept, name, *place)))
            groups += group
    return boxes, groups, dict(left_out)


def _areas(boxes: Sequence[Box], counted: bool) -> dict[str, FloatArray]:
    """Concept to the areas of its boxes, or to no areas if boxes are not counted."""
    areas: dict[str, list[float]] = {}
    for box in boxes:
        areas.setdefault(box.concept, []).extend([box.width * box.height] if counted else [])
    return {concept: np.array(sizes) for concept, sizes in areas.items()}


def _shares(annotations: pa.Table, images: pa.Table) -> FloatArray:
    """(N, 4) boxes of annotations as x, y, width, height: clipped to their images, in shares of the image's sides."""

    def columns(table: pa.Table, *names: str) -> FloatArray:
        return np.stack([np.asarray(table[name], dtype=np.float64) for name in names], axis=1)

    rows, _ = find_positions(annotations["image_id"], np.asarray(images["image_id"]))
    sizes = columns(images, "width", "height")[rows]
    starts = columns(annotations, "x", "y")
    low, high = np.clip([starts, starts + columns(annotations, "width", "height")], 0, sizes) / sizes
    return np.hstack([low, high - low])


def _find_category_synset(name: str, _synset: str | None) -> str:
    table = synsets_of_categories()
    if name not in table:
        raise UnknownName("COCO category", name, table)
    return table[name].synset


@cache
def _find_object_synset(_name: str, synset: str | None) -> str | None:
    """The synset under its canonical name; None if WordNet 3.0 lacks it."""
    try:
        return None if synset is None else str(find_synset(synset).name())
    except DataError:
        return None


WORD = re.compile(r"[^\W\d_]+")
LONGEST_NAME = 3
"""The most words of a name: ``compact disc player``."""

Place = tuple[int, int, AbstractSet[str]]
"""A mention: its start and end in characters, and its concepts."""


def find_mentions(texts: Iterable[str], vocabulary: Collection[str]) -> list[set[str]]:
    """Concepts of the vocabulary that each sentence mentions.

    Words are read from left to right, the longest name first, in singular or plural: a ``hot dog`` is no dog.

    1. COCO's 80 categories have a list of words, checked on captions of images with known categories: ``kitten``
       mentions a cat, ``people`` and ``she`` a person, a ``bus stop`` no bus. No other words mention them.
    2. Of other concepts, a word mentions every one in the vocabulary that it names in WordNet: ``star`` is the figure
       if the vocabulary has only that sense, and also the celestial body if it has both.

    A sentence also mentions every concept above these: an ``oak`` is a tree, a ``tree`` is no oak. COCO's categories
    are never above each other: a ``hot dog`` is no sandwich, as in COCO's annotations.

    Args:
        texts: N sentences.
        vocabulary: WordNet synsets, such as ``dog.n.01``, that the images may show.

    Returns:
        N sets of synsets of the vocabulary.

    Raises:
        DataError: a synset is unknown, or WordNet is missing; says how to get it.
    """
    return list(map(_join_concepts, locate_mentions(texts, vocabulary)))


def _join_concepts(places: Iterable[Place]) -> set[str]:
    """The concepts of all mentions of a sentence."""
    return set[str]().union(*(concepts for _, _, concepts in places))


def locate_mentions(texts: Iterable[str], vocabulary: Collection[str]) -> list[list[Place]]:
    """The mentions of each sentence from left to right, as :func:`find_mentions` finds them."""
    reader = _Reader(vocabulary)
    return [reader.read(text) for text in texts]


@cache
def _synsets_of_phrases() -> Mapping[str, frozenset[str]]:
    """Every phrase of the checked list, in singular and plural, to the synsets of its categories, if any."""
    synsets = {name: {entry.synset} for name, entry in synsets_of_categories().items()}
    phrases: dict[str, frozenset[str]] = {}
    for category, words in load_category_words().items():
        for phrase in words:
            before, blank, last = phrase.rpartition(" ")
            for form in (phrase, before + blank + plural_of(last)):
                phrases[form] = phrases.get(form, frozenset()) | synsets.get(category, set())
    return phrases


class _Reader:
    """Finds mentions, and looks up each phrase once."""

    def __init__(self, vocabulary: Collection[str]) -> None:
        self.corpus = load_wordnet()
        self.names: dict[str, set[str]] = {}
        """Synset to its names in the vocabulary: a synset has a name for each of its words."""
        for name in vocabulary:
            self.names.setdefault(find_synset(name).name(), set()).add(name)
        self.parts_of_speech = sorted({name.split(".")[-2] for name in self.names})
        self.listed = _synsets_of_phrases()
        self.unlisted = self.names.keys() - frozenset().union(*self.listed.values())
        self.look_up = cache(self._look_up)

    def read(self, text: str) -> list[Place]:
        words = list(WORD.finditer(text))
        mentions = list[Place]()
        start = 0
        while start < len(words):
            for length in range(min(LONGEST_NAME, len(words) - start), 0, -1):
                phrase = words[start : start + length]
                concepts = self.look_up(*(word[0].lower() for word in phrase))
                if concepts is not None:
                    break
            if concepts:
                mentions.append((phrase[0].start(), phrase[-1].end(), concepts))
            start += length
        return mentions

    def _look_up(self, *words: str) -> frozenset[str] | None:
        """Concepts that a phrase mentions; None if it is no name."""
        synsets = self.listed.get(" ".join(words))
        spellings = dict.fromkeys(mark.join(words) for mark in ("_", "-", ""))  # fire_hydrant, t-shirt, wineglass
        every = chain.from_iterable(self.corpus.synsets(spelling, self.parts_of_speech) for spelling in spellings)
        senses = [sense for sense in every if sense.name() in self.unlisted]
        if synsets is None and not senses:
            return None
        # WordNet puts a hot dog below sandwich and a doughnut below cake, unlike COCO's annotators.
        above = self._go_up(map(self.corpus.synset, synsets or ())) & self.unlisted
        meant = {*self._go_up(senses), *above, *(synsets or ())}
        return frozenset().union(*(self.names[synset] for synset in meant & self.names.keys()))

    def _go_up(self, senses: Iterable[Any]) -> set[str]:
        """These senses and the synsets above them."""
        names = set()
        for sense in senses:
            names |= {ancestor.name() for ancestor, _ in sense.hypernym_distances()}
        return names


COLOURS = frozenset({"beige", "black", "blue", "brown", "gold", "gray", "green", "orange", "pink", "purple", "red"})
COLOURS |= {"silver", "tan", "white", "yellow"}
LARGE = ("big", "enormous", "giant", "huge", "large")
SMALL = ("little", "miniature", "small", "tiny")
VALUES = {name: ("colour", name) for name in sorted(COLOURS)} | {"grey": ("colour", "gray")}
VALUES |= dict.fromkeys(LARGE, ("size", "large")) | dict.fromkeys(SMALL, ("size", "small"))
"""Word to its attribute and value; words of the same value agree."""

ANY_VALUE = "|".join(VALUES)
VALUE = re.compile(ANY_VALUE, re.IGNORECASE)
VALUES_BEFORE_NAME = re.compile(
    rf"\b(?:(?:{ANY_VALUE})(?:[-\s]+and[-\s]+|[\s,/-]+))*(?:{ANY_VALUE})\s+$", re.IGNORECASE
)
"""Attributes before a name, such as ``black and white`` before ``cat``."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A colour or size of a concept in a text (``asked``) that no caption of an image has.

    ``others`` has the words of captions with other values of the concept, the shortest of each value, sorted.
    """

    asked: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Attribute:
    concepts: AbstractSet[str]
    name: str
    value: str
    words: str


def find_differences(
    text: str, places: Sequence[Place], captions: Iterable[tuple[str, Sequence[Place]]]
) -> list[Difference]:
    """Colours and sizes of a text that no caption of an image has.

    An attribute belongs to the concept that it directly precedes. Two concepts count as the same if one is above the
    other, as a dog is above a puppy.
    """
    in_captions: list[_Attribute] = []
    for caption, mentions in captions:
        in_captions += _find_attributes(caption, mentions)
    differences = {}
    for asked in _find_attributes(text, places):
        same = [
            other
            for other in in_captions
            if other.name == asked.name and (other.concepts <= asked.concepts or asked.concepts <= other.concepts)
        ]
        if all(other.value != asked.value for other in same):
            by_value = {other.value: other.words for other in sorted(same, key=lambda other: -len(other.words))}
            differences[asked.words] = Difference(asked.words, tuple(sorted(by_value.values())))
    return list(differences.values())


def _find_attributes(text: str, places: Sequence[Place]) -> Iterator[_Attribute]:
    for start, end, concepts in places:
        if run := VALUES_BEFORE_NAME.search(text, 0, start):
            for word in VALUE.findall(run[0]):
                yield _Attribute(concepts, *VALUES[word.lower()], f"{word} {text[start:end]}".lower())
