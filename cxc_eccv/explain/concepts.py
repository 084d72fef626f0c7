"""Concepts of an image: WordNet synsets of what people annotated in it, how often and how large."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cxc_eccv.errors import DataError
from cxc_eccv.sources.library import Library
from cxc_eccv.types.seen import Concepts

__all__ = ["Box", "ImageConcepts", "load_concepts"]


class Box(NamedTuple):
    """One annotated instance, in shares of the image's width and height, cut off at its edges; the origin is top left.

    Attributes:
        concept: a WordNet synset such as ``dog.n.01``.
        name: the annotators' word for it.
        x: left edge.
        y: upper edge.
        width: above 0.
        height: above 0.
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

    Attributes:
        source: ``COCO instances``, ``COCO categories`` or ``Visual Genome``.
        split: the split of the images.
        n_images: images of the split, annotated or not.
        images: concepts of every annotated image, none where its annotators found nothing; an image that is not a key
            has not been annotated.
        counted: whether instances and their areas are known; where not, areas are empty arrays, and only concept
            agreement and similarity can be computed.
        boxes: the instances of every annotated image; none where they are not counted.
        groups: instances that are groups of unknown number (COCO's ``iscrowd``), each counted once.
        left_out: annotations that took no part, by reason.
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
        """Concepts of images, in this order.

        Raises:
            DataError: nobody annotated one of them; says which, and how many.
        """
        ids = [int(image_id) for image_id in image_ids]
        lacking = [image_id for image_id in dict.fromkeys(ids) if image_id not in self.images]
        if lacking:
            raise DataError(
                f"{self.source} have no entry for {len(lacking):,} of these images of the {self.split} split, image "
                f"{lacking[0]} among them: nobody said what it shows"
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

    Args:
        library: the raw files.
        split: one of COCO's Karpathy splits.
        source: ``coco``, instances where they are at hand, else category sets; or ``visual_genome``.
        instances: a file of COCO instances, in the place of the library's.
        objects: Visual Genome's ``objects.json``, in the place of the library's.
        image_data: Visual Genome's ``image_data.json``, in the place of the library's.
    """
    raise NotImplementedError
