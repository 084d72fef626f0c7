"""Visual Genome: annotated objects and descriptions of regions of the images that it shares with COCO."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.readers.coco_instances import (
    ANNOTATION_SCHEMA,
    IMAGE_SCHEMA,
    Instances,
    make_table,
    read_box,
    read_size,
)
from cxc_eccv.sources.readers.karpathy import CAPTION_SCHEMA
from cxc_eccv.sources.reading import integer, read_records, require_keys, shown, text

RECORDS_PER_BATCH = 100_000  # records held as Python objects at a time, before they become columns of a table

SECOND_IMAGE = "object of a second image of Visual Genome with the same COCO id"
COPIED_OBJECT = "object with the id of another object of its image"
NEGATIVE_BOX = "box of negative width or height"


def read_visual_genome(paths: Sequence[Path]) -> Instances:
    """Objects of the images with a COCO id; paths are ``objects.json`` and ``image_data.json``.

    Only the first synset of an object is used, and only the first of two images with the same COCO id. All releases can
    be read: 1.0 writes ``id`` for ``image_id`` and sometimes leaves out synsets.
    """
    objects, _ = paths
    images: dict[int, tuple[int, int, int]] = {}
    tables = []
    rows = []
    for place, image, items in _read_images(paths, "objects"):
        left_out = SECOND_IMAGE if image[0] in images else None
        images.setdefault(image[0], image)
        seen = set[int]()
        for position, item in enumerate(items):
            rows.append(_read_object(objects, f"{place}.objects[{position}]", image[0], item, left_out, seen))
        if len(rows) >= RECORDS_PER_BATCH:
            tables.append(make_table(ANNOTATION_SCHEMA, rows))
            rows = []
    tables.append(make_table(ANNOTATION_SCHEMA, rows))
    return Instances(make_table(IMAGE_SCHEMA, list(images.values())), pa.concat_tables(tables))


def read_region_descriptions(paths: Sequence[Path]) -> pa.Table:
    """Descriptions of regions of the images with a COCO id, as captions of these images numbered from 0.

    Paths are ``region_descriptions.json`` and ``image_data.json``. Empty phrases are left out, as is a second image
    with the same COCO id.
    """
    descriptions, _ = paths
    tables = []
    rows = list[tuple[int, int, str]]()
    done = set[int]()
    number = 0
    for place, (image_id, _, _), regions in _read_images(paths, "regions"):
        if image_id in done:
            continue
        done.add(image_id)
        for position, region in enumerate(regions):
            where = f"{place}.regions[{position}]"
            phrase = require_keys(descriptions, where, region, ("phrase",))["phrase"]
            if words := " ".join(text(descriptions, f"{where}.phrase", phrase).split()):
                rows.append((number, image_id, words))
                number += 1
        if len(rows) >= RECORDS_PER_BATCH:
            tables.append(make_table(CAPTION_SCHEMA, rows))
            rows = []
    tables.append(make_table(CAPTION_SCHEMA, rows))
    return pa.concat_tables(tables)


def _read_images(paths: Sequence[Path], key: str) -> Iterator[tuple[str, tuple[int, int, int], list[Any]]]:
    """Yield the place, the image and the records under ``key`` of every image with a COCO id."""
    path, image_data = paths
    known = _read_image_data(image_data)
    annotated = set[int]()
    for number, record in enumerate(read_records(path)):
        place = f"[{number}]"
        genome_id = _image_id(path, place, record)
        if genome_id not in known:
            raise MalformedSource(path, place, f"image {genome_id}", f"an image that {image_data} lists")
        if genome_id in annotated:
            raise MalformedSource(path, place, f"image {genome_id} a second time", "every image once")
        annotated.add(genome_id)
        items = require_keys(path, place, record, (key,))[key]
        if not isinstance(items, list):
            raise MalformedSource(path, f"{place}.{key}", shown(items), "a list")
        image = known[genome_id]
        if image is not None:
            yield place, image, items


def _read_image_data(path: Path) -> dict[int, tuple[int, int, int] | None]:
    """Id in Visual Genome to COCO's id, width and height; None for an image that is not in COCO."""
    known: dict[int, tuple[int, int, int] | None] = {}
    for number, record in enumerate(read_records(path)):
        place = f"[{number}]"
        genome_id = _image_id(path, place, record)
        if genome_id in known:
            raise MalformedSource(path, place, f"image {genome_id} a second time", "every image once")
        coco_id = require_keys(path, place, record, ("coco_id",))["coco_id"]
        if coco_id is None or coco_id == -1:  # both mean that it is not in COCO
            known[genome_id] = None
        else:
            known[genome_id] = integer(path, f"{place}.coco_id", coco_id), *read_size(path, place, record)
    return known


def _image_id(path: Path, place: str, record: object) -> int:
    name = "id" if isinstance(record, dict) and "image_id" not in record and "id" in record else "image_id"
    return integer(path, f"{place}.{name}", require_keys(path, place, record, (name,))[name])


def _read_object(
    path: Path, place: str, image_id: int, item: object, left_out: str | None, seen: set[int]
) -> tuple[object, ...]:
    """A row of the table of annotations; ``seen`` holds the ids of earlier objects of the image."""
    record = require_keys(path, place, item, ("x", "y", "w", "h"))
    name, synset = (_first_text(path, f"{place}.{key}", record.get(key)) for key in ("names", "synsets"))
    box = read_box(path, place, [record[side] for side in ("x", "y", "w", "h")])
    given = record.get("object_id", record.get("id"))
    number = None if given is None else integer(path, f"{place}.object_id", given)
    if left_out is None and number in seen:
        left_out = COPIED_OBJECT
    if left_out is None and min(box[2:]) < 0:
        left_out = NEGATIVE_BOX
    if number is not None:
        seen.add(number)
    return image_id, name or "", synset, False, left_out, *box


def _first_text(path: Path, place: str, values: Any) -> str | None:  # noqa: ANN401 - JSON holds anything
    """The first of a list of texts; None if the list is empty or missing."""
    if values is None or (isinstance(values, list) and not values):
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise MalformedSource(path, place, shown(values), "a list of texts")
    return str(values[0])
