"""Concepts of an image: the WordNet synsets of its annotations, with their number and size."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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

    An annotation is one instance, whose box is clipped to the image; a group of unknown number (COCO's ``iscrowd``)
    counts as one, since the paper counts boxes. Left out are boxes without an area inside the image, objects without a
    synset of WordNet 3.0, and copies of another annotation. An image is annotated if the source lists it, and not all
    of its annotations were left out.

    Args:
        library: the raw files.
        split: one of COCO's Karpathy splits.
        source: ``coco``, full annotations if available, else category sets; or ``visual_genome``.
        instances: a file of COCO annotations to use for the library's, full ones or category sets.
        objects: Visual Genome's ``objects.json`` to use for the library's.
        image_data: Visual Genome's ``image_data.json`` to use for the library's.

    Returns:
        The concepts of the annotated images of the split.

    Raises:
        UnknownName: unknown source or split, or a category that is not COCO's.
        InvalidOption: a file belongs to the other source; or nltk is missing, which Visual Genome's synsets need.
        DataError: a file is missing or malformed, or names no concept in an image of the split; WordNet is missing.

    Example:
        >>> concepts = load_concepts(Library("sample"), "test")
        >>> concepts.source, concepts.counted, len(concepts.images)
        ('COCO instances', True, 60)
    """
    if source not in SOURCES:
        raise UnknownName("source of concepts", source, SOURCES)
    if instances and source != "coco":
        raise InvalidOption(f"instances are COCO's, but the source of concepts is {source}: give one of the two")
    if (objects or image_data) and source != "visual_genome":
        raise InvalidOption(f"objects and image_data are Visual Genome's, but the source of concepts is {source}")
    if (objects is None) != (image_data is None):
        raise InvalidOption("objects and image_data belong together: give both files of one release")
    image_ids = library.karpathy(split).image_ids
    if source == "coco":
        return _collect(library.instances(split, instances), split, image_ids, "COCO", _synset_of_category)
    load_wordnet()  # fails before a long file is read
    return _collect(library.visual_genome(objects, image_data), split, image_ids, "Visual Genome", _synset_of_object)


def _collect(
    content: Instances, split: str, image_ids: IntArray, source: str, find: Callable[[str, str | None], str | None]
) -> ImageConcepts:
    """The concepts of the annotated images."""
    images, annotations = (
        table.filter(pa.array(positions_of(table["image_id"], image_ids)[1]))
        for table in (content.images, content.annotations)
    )
    counted = not content.annotations["x"].null_count
    if source == "COCO":
        source = "COCO instances" if counted else "COCO categories"
    if not images.num_rows:
        raise DataError(
            f"{source} annotates none of the {image_ids.size:,} images of {split}; give files that annotate them"
        )
    named, groups, left_out = _name_boxes(annotations, _shares(annotations, images) if counted else None, find)
    if not named:
        reasons = "".join(f"; left out: {count:,}, {reason}" for reason, count in left_out.items())
        raise DataError(
            f"{source}: the file lists {images.num_rows:,} of the images of {split}, but none of their annotations "
            f"names a concept ({annotations.num_rows:,} annotations{reasons}); give a file that names their objects"
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
        split,
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
    """The synset under its canonical name; None if WordNet 3.0 lacks it."""
    try:
        return None if synset is None else str(find_synset(synset).name())
    except DataError:
        return None
