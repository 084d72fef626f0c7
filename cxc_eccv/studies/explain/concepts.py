"""Concepts of an image: WordNet synsets of what people annotated in it, how often and how large."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import Instances
from cxc_eccv.sources.wordnet import find_synset, load_wordnet
from cxc_eccv.types import FloatArray, IntArray, positions_of
from cxc_eccv.types.seen import Concepts

SOURCES = ("coco", "visual_genome")


class CategorySynset(NamedTuple):
    """A category as WordNet has it, and why where that is a choice."""

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


@dataclass(frozen=True, slots=True, eq=False)
class ImageConcepts:
    """What one source says that the images of a split show.

    ``images`` has the concepts of every annotated image, none where its annotators found nothing; an image that is not
    a key has not been annotated. Where instances are not ``counted``, their areas are empty arrays, there are no boxes,
    and only concept agreement and similarity can be computed. ``groups`` are instances of unknown number (COCO's
    ``iscrowd``), each counted once; ``left_out`` counts annotations that took no part, by reason.
    """

    source: str
    split: str
    n_images: int
    images: Mapping[int, Concepts] = field(repr=False)
    counted: bool
    boxes: Mapping[int, tuple[Box, ...]] = field(repr=False)
    groups: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)

    def of(self, image_ids: Iterable[int]) -> list[Concepts]:
        """Concepts of images, in this order; raises DataError where nobody annotated one of them."""
        ids = [int(image_id) for image_id in image_ids]
        lacking = [image_id for image_id in dict.fromkeys(ids) if image_id not in self.images]
        if lacking:
            remedy = "; name a file that has all: --annotations instances_val2014.json" * self.source.startswith("COCO")
            raise DataError(
                f"{self.source}: no annotations of {len(lacking):,} of the images, image {lacking[0]} among them. "
                f"{len(self.images):,} of the {self.n_images:,} images of {self.split} have some; what others show is "
                f"not known{remedy}."
            )
        return [self.images[image_id] for image_id in ids]


def load_concepts(
    library: Library,
    split: str,
    source: str = "coco",
    *,
    instances: Path | None = None,
    objects: Path | None = None,
    image_data: Path | None = None,
) -> ImageConcepts:
    """Concepts of the images of a split.

    An annotation is one instance, whose box is cut off at the image's edges; a group of unknown number (COCO's
    ``iscrowd``) is one too, for the paper counts boxes. A box without an area inside the image is left out, as is an
    object without a synset that WordNet 3.0 has, and a copy of another annotation. An image is annotated if the source
    lists it, and not all of its annotations were left out.

    Args:
        library: the raw files.
        split: one of COCO's Karpathy splits.
        source: ``coco``, full annotations where they are at hand, else category sets; or ``visual_genome``.
        instances: a file of COCO annotations in the place of the library's, full ones or category sets.
        objects: Visual Genome's ``objects.json``, in the place of the library's.
        image_data: Visual Genome's ``image_data.json``, in the place of the library's.

    Returns:
        The concepts of those images of the split that the source has annotated.

    Raises:
        UnknownName: no such source, no such split, or a category that is not COCO's.
        InvalidOption: a file of the other source is named; or nltk is missing, which Visual Genome's synsets need.
        DataError: a file is missing or malformed, or names no concept in an image of the split; WordNet is missing.

    Example:
        >>> concepts = load_concepts(Library("sample"), "test")
        >>> concepts.source, concepts.counted, len(concepts.images)
        ('COCO instances', True, 60)
    """
    if source not in SOURCES:
        raise UnknownName("source of concepts", source, SOURCES)
    if instances and source != "coco":
        raise InvalidOption(f"instances are COCO's, and the source of concepts is {source}: name one of the two")
    if (objects or image_data) and source != "visual_genome":
        raise InvalidOption(f"objects and image_data are Visual Genome's, and the source of concepts is {source}")
    if (objects is None) != (image_data is None):
        raise InvalidOption("objects and image_data belong together: name both files of one release")
    image_ids = library.karpathy(split).image_ids
    if source == "coco":
        return _collect(library.instances(split, instances), split, image_ids, "COCO", _synset_of_category)
    load_wordnet()  # before a long file is read
    return _collect(library.visual_genome(objects, image_data), split, image_ids, "Visual Genome", _synset_of_object)


def _collect(
    content: Instances, split: str, image_ids: IntArray, source: str, find: Callable[[str, str | None], str | None]
) -> ImageConcepts:
    """Concepts of those of the images that were annotated."""
    images, annotations = (
        table.filter(pa.array(positions_of(table["image_id"], image_ids)[1]))
        for table in (content.images, content.annotations)
    )
    counted = not content.annotations["x"].null_count
    if source == "COCO":
        source = "COCO instances" if counted else "COCO categories"
    if not images.num_rows:
        raise DataError(
            f"{source}: no annotations of any of the {image_ids.size:,} images of {split}; name files that have some"
        )
    named, groups, left_out = _name_boxes(annotations, _shares(annotations, images) if counted else None, find)
    if not named:
        reasons = "".join(f"; left out: {count:,}, {reason}" for reason, count in left_out.items())
        raise DataError(
            f"{source}: the file lists {images.num_rows:,} of the images of {split}, and none of their annotations "
            f"names a concept ({annotations.num_rows:,} annotations{reasons}); name a file with annotations of what "
            "they show"
        )
    boxes: dict[int, list[Box]] = {image_id: [] for image_id in images["image_id"].to_pylist()}
    for image_id, box in named:
        boxes[image_id].append(box)
    # An image all of whose annotations were left out shows something, but nobody knows what.
    for image_id in set(annotations["image_id"].to_pylist()):
        if not boxes[image_id]:
            del boxes[image_id]
    areas: dict[int, dict[str, list[float]]] = {image_id: {} for image_id in boxes}
    for image_id, shown in boxes.items():
        for box in shown:
            areas[image_id].setdefault(box.concept, []).extend([box.width * box.height] if counted else [])
    return ImageConcepts(
        source,
        split,
        n_images=image_ids.size,
        images={
            image_id: {concept: np.array(sizes) for concept, sizes in shown.items()}
            for image_id, shown in areas.items()
        },
        counted=counted,
        boxes={image_id: tuple(shown) for image_id, shown in boxes.items()} if counted else {},
        groups=groups,
        left_out=left_out,
    )


def _name_boxes(
    annotations: pa.Table, shares: FloatArray | None, find: Callable[[str, str | None], str | None]
) -> tuple[list[tuple[int, Box]], int, dict[str, int]]:
    """Image and box of each annotation with a concept; how many of these are groups; why others were left out."""
    boxes, groups, left_out = [], 0, Counter[str]()
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


def _shares(annotations: pa.Table, images: pa.Table) -> FloatArray:
    """(N, 4) boxes of annotations, cut off at the edges of their images, in shares of these; x, y, width, height."""

    def columns(table: pa.Table, *names: str) -> FloatArray:
        return np.stack([np.asarray(table[name], dtype=np.float64) for name in names], axis=1)

    rows, _ = positions_of(annotations["image_id"], np.asarray(images["image_id"]))
    sizes, starts = columns(images, "width", "height")[rows], columns(annotations, "x", "y")
    low, high = np.clip([starts, starts + columns(annotations, "width", "height")], 0, sizes) / sizes
    return np.hstack([low, high - low])


def _synset_of_category(name: str, _synset: str | None) -> str:
    table = synsets_of_categories()
    if name not in table:
        raise UnknownName("COCO category", name, table)
    return table[name].synset


@cache
def _synset_of_object(_name: str, synset: str | None) -> str | None:
    """The synset by its own name, for others lead to it as well; None where WordNet 3.0 has none."""
    try:
        return None if synset is None else str(find_synset(synset).name())
    except DataError:
        return None
