"""COCO instance annotations, and the categories that each image shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import integer, read_json, require_distinct, require_keys, require_known, shown, text
from cxc_eccv.types import IntArray, find_positions

RECORD_NUMBERS = {"images": ("id",), "annotations": ("id", "image_id", "category_id"), "categories": ("id",)}
"""Lists of an annotation file, and the whole numbers that their records must have."""


@dataclass(frozen=True, slots=True, eq=False)
class CategorySets:
    """Category presence per image, (N, C) bool; category ids are those of COCO (1-90 with gaps)."""

    image_ids: IntArray
    category_ids: IntArray
    category_names: tuple[str, ...]
    present: NDArray[np.bool_]

    @classmethod
    def join(cls, parts: Sequence[CategorySets]) -> CategorySets:
        """Join several files with the same categories."""
        first = parts[0]
        ids = np.concatenate([part.image_ids for part in parts])
        return cls(ids, first.category_ids, first.category_names, np.concatenate([part.present for part in parts]))

    def of(self, image_ids: IntArray) -> CategorySets:
        """The categories of these images, in this order; KeyError names an image that the annotations do not list."""
        rows, known = find_positions(image_ids, self.image_ids)
        if not known.all():
            raise KeyError(int(image_ids[~known][0]))
        return CategorySets(np.asarray(image_ids), self.category_ids, self.category_names, self.present[rows])


def read_category_sets(path: Path) -> CategorySets:
    """Read which categories occur in which image, crowd regions included, from full annotations or category sets."""
    dataset = _load(path)
    image_ids = np.array(sorted(image["id"] for image in dataset["images"]), dtype=np.int64)
    categories = sorted(dataset["categories"], key=lambda category: category["id"])
    category_ids = np.array([category["id"] for category in categories], dtype=np.int64)
    records = dataset["annotations"]
    rows = _find_listed(path, records, "image_id", image_ids)
    columns = _find_listed(path, records, "category_id", category_ids)
    present = np.zeros((image_ids.size, category_ids.size), dtype=bool)
    present[rows, columns] = True
    return CategorySets(image_ids, category_ids, tuple(category["name"] for category in categories), present)


def _find_listed(path: Path, records: Sequence[Mapping[str, Any]], name: str, ids: IntArray) -> IntArray:
    """Positions among ``ids`` of the ids that annotations name; all must be listed."""
    listed = np.array([record[name] for record in records], dtype=np.int64)
    return require_known(path, listed, ids, "annotations[{row}]", f"unlisted {name}", "a listed one")


@dataclass(frozen=True, slots=True, eq=False)
class Instances:
    """Annotations of images: tables of ``IMAGE_SCHEMA``, with sizes in pixels, and ``ANNOTATION_SCHEMA``.

    ``name`` is the annotators' word, ``group`` marks a group of unknown size, and ``left_out`` is the reason why an
    annotation is not used. Boxes start at the top left. Sizes and boxes are null in category sets.
    """

    images: pa.Table
    annotations: pa.Table


IMAGE_SCHEMA = pa.schema(dict.fromkeys(("image_id", "width", "height"), pa.int64()))

ANNOTATION_SCHEMA = pa.schema(
    {"image_id": pa.int64(), "name": pa.string(), "synset": pa.string(), "group": pa.bool_(), "left_out": pa.string()}
    | dict.fromkeys(("x", "y", "width", "height"), pa.float64())
)


def read_instances(path: Path) -> Instances:
    """Annotations of images with category names and boxes; category sets have no boxes."""
    dataset = _load(path)
    names = {category["id"]: category["name"] for category in dataset["categories"]}
    seen = set[tuple[Any, ...]]()
    records = dataset["annotations"]
    _find_listed(path, records, "image_id", np.array([image["id"] for image in dataset["images"]], dtype=np.int64))
    _find_listed(path, records, "category_id", np.array(list(names), dtype=np.int64))
    boxed = any("bbox" in record for record in records)
    images = []
    annotations = []
    for position, image in enumerate(dataset["images"]):
        size = read_size(path, f"images[{position}]", image) if boxed else (None, None)
        images.append((image["id"], *size))
    for position, record in enumerate(records):
        place = f"annotations[{position}]"
        group = record.get("iscrowd", 0)
        if group not in (0, 1):
            raise MalformedSource(path, f"{place}.iscrowd", shown(group), "0 or 1")
        sides: tuple[float | None, ...] = (None,) * 4
        left_out = None
        if boxed:
            sides = read_box(path, f"{place}.bbox", require_keys(path, place, record, ("bbox",))["bbox"])
            if min(sides[2:]) < 0:
                raise MalformedSource(path, f"{place}.bbox", shown(record["bbox"]), "width and height of 0 or more")
            instance = record["image_id"], record["category_id"], group, *sides
            left_out = COPIED_ANNOTATION if instance in seen else None
            seen.add(instance)
        annotations.append((record["image_id"], names[record["category_id"]], None, bool(group), left_out, *sides))
    return Instances(make_table(IMAGE_SCHEMA, images), make_table(ANNOTATION_SCHEMA, annotations))


COPIED_ANNOTATION = "annotation with the same image, category and box as another one"


def read_size(path: Path, place: str, image: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height of an image in pixels."""
    require_keys(path, place, image, ("width", "height"))
    width, height = (integer(path, f"{place}.{name}", image[name], least=1) for name in ("width", "height"))
    return width, height


def read_box(path: Path, place: str, values: object) -> tuple[float, ...]:
    """Left edge, upper edge, width and height: any finite numbers, as real files have boxes beyond the edges."""
    numbers: list[Any] = values if isinstance(values, list) else []
    if len(numbers) != 4 or not all(type(side) in (int, float) and abs(side) < LARGEST_SIDE for side in numbers):
        raise MalformedSource(path, place, shown(values), "a box of four finite numbers: x, y, width and height")
    return tuple(map(float, numbers))


LARGEST_SIDE = 1e9  # pixels; larger coordinates are refused


def make_table(schema: pa.Schema, rows: Sequence[Sequence[object]]) -> pa.Table:
    """A table of the rows, which may be none."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def _load(path: Path) -> dict[str, list[dict[str, Any]]]:
    data: Any = read_json(path)
    for key, numbers in RECORD_NUMBERS.items():
        if not isinstance(data, dict) or not isinstance(data.get(key), list):
            raise MalformedSource(path, "", f"no list under the key {key!r}", "the layout of instances_val2014.json")
        for position, record in enumerate(data[key]):
            place = f"{key}[{position}]"
            require_keys(path, place, record, numbers)
            for name in numbers:
                integer(path, f"{place}.{name}", record[name])
    for key in RECORD_NUMBERS:
        ids = np.array([record["id"] for record in data[key]], dtype=np.int64)
        require_distinct(path, ids, f"{key}[{{}}]", "id")
    for position, category in enumerate(data["categories"]):
        place = f"categories[{position}]"
        text(path, f"{place}.name", require_keys(path, place, category, ("name",))["name"])
    return data  # type: ignore[no-any-return] # checked above
