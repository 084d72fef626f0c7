"""COCO instance annotations, and which of the 80 categories an image shows."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import first_duplicate, integer, read_json, require_keys, text
from cxc_eccv.types import IntArray, positions_of

__all__ = ["CategorySets", "read_category_sets"]

NUMBERS = {"images": ("id",), "annotations": ("id", "image_id", "category_id"), "categories": ("id",)}
"""List of an annotation file to the whole numbers that each of its records holds."""


@dataclass(frozen=True, slots=True, eq=False)
class CategorySets:
    """Category presence per image: (N, C) bool; category ids are COCO's own numbers (1-90 with gaps)."""

    image_ids: IntArray
    category_ids: IntArray
    category_names: tuple[str, ...]
    present: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Sequence[CategorySets]) -> CategorySets:
        """Several files over the same categories as one table."""
        first = parts[0]
        ids = np.concatenate([part.image_ids for part in parts])
        return cls(ids, first.category_ids, first.category_names, np.concatenate([part.present for part in parts]))

    def of(self, image_ids: IntArray) -> CategorySets:
        """The same table for these images, in this order; KeyError tells one that the annotations do not list."""
        rows, known = positions_of(image_ids, self.image_ids)
        if not known.all():
            raise KeyError(int(image_ids[~known][0]))
        return CategorySets(np.asarray(image_ids), self.category_ids, self.category_names, self.present[rows])


def read_category_sets(path: Path) -> CategorySets:
    """Which categories occur in which image; crowd regions count. Full annotations or category sets alike."""
    coco = _load(path)
    image_ids = np.array(sorted(coco.getImgIds()), dtype=np.int64)
    categories = coco.loadCats(sorted(coco.getCatIds()))
    category_ids = np.array([category["id"] for category in categories], dtype=np.int64)
    records = coco.dataset["annotations"]
    rows, known_image = positions_of([r["image_id"] for r in records], image_ids)
    columns, known_category = positions_of([r["category_id"] for r in records], category_ids)
    for known, name in ((known_image, "image_id"), (known_category, "category_id")):
        if not known.all():
            first = int(np.flatnonzero(~known)[0])
            raise MalformedSource(
                path, f"annotations[{first}]", f"unlisted {name} {records[first][name]}", "a listed one"
            )
    present = np.zeros((image_ids.size, category_ids.size), dtype=bool)
    present[rows, columns] = True
    return CategorySets(image_ids, category_ids, tuple(category["name"] for category in categories), present)


def _load(path: Path) -> Any:  # noqa: ANN401 - pycocotools is untyped
    from pycocotools.coco import COCO  # imported late: what is kept in tables does without

    data = read_json(path)
    for key, numbers in NUMBERS.items():
        if not isinstance(data, dict) or not isinstance(data.get(key), list):
            raise MalformedSource(path, "", f"no list under the key {key!r}", "the layout of instances_val2014.json")
        for position, record in enumerate(data[key]):
            place = f"{key}[{position}]"
            require_keys(path, place, record, numbers)
            for name in numbers:
                integer(path, f"{place}.{name}", record[name])
    for key in ("images", "categories"):
        ids = np.array([record["id"] for record in data[key]], dtype=np.int64)
        twice = first_duplicate(ids)
        if twice is not None:
            raise MalformedSource(path, f"{key}[{twice}]", f"id {ids[twice]} a second time", "every id once")
    for position, category in enumerate(data["categories"]):
        place = f"categories[{position}]"
        text(path, f"{place}.name", require_keys(path, place, category, ("name",))["name"])
    coco = COCO()
    coco.dataset = data
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools reports its progress with print
        coco.createIndex()
    return coco
