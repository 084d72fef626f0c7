"""The sample's ``instances_*.json``: one annotation per drawn item in COCO's layout."""

from __future__ import annotations

from typing import Any

from sample.collection import Picture
from sample.drawing import Point, outline
from sample.scenes import SIDE
from sample.sources.karpathy import compact

__all__ = ["CATEGORY_IDS", "instances_json"]

# COCO's category ids have gaps; so have these, that nobody takes an id for a position.
CATEGORY_IDS = {"circle": 1, "square": 2, "triangle": 4, "star": 5, "heart": 7, "cross": 9}
SUPERCATEGORIES = {
    "circle": "round",
    "heart": "round",
    "square": "angular",
    "triangle": "angular",
    "star": "pointed",
    "cross": "pointed",
}
INFO = {
    "description": "Embedded sample: drawn scenes of coloured shapes",
    "url": "",
    "version": "1.0",
    "year": 2026,
    "contributor": "The cxc_eccv authors",
    "date_created": "2026/01/01",
}
LICENSE = {"url": "http://www.apache.org/licenses/LICENSE-2.0", "id": 1, "name": "Apache License 2.0"}
FIRST_ANNOTATION = {"train2014": 101, "val2014": 1203}
OUTLINE_CORNERS = 12


def instances_json(pictures: list[Picture], folder: str) -> bytes:
    """Images, categories and annotations of ``train2014`` or ``val2014``."""
    chosen = sorted((p for p in pictures if p.folder == folder), key=lambda picture: picture.image_id)
    annotations = [annotation for picture in chosen for annotation in _annotations(picture)]
    for number, annotation in enumerate(annotations):
        annotation["id"] = FIRST_ANNOTATION[folder] + 3 * number
    categories = [
        {"supercategory": SUPERCATEGORIES[kind], "id": number, "name": kind} for kind, number in CATEGORY_IDS.items()
    ]
    return compact(
        {
            "info": INFO,
            "images": [_image(picture) for picture in chosen],
            "licenses": [LICENSE],
            "annotations": annotations,
            "categories": categories,
        }
    )


def _image(picture: Picture) -> dict[str, Any]:
    return {
        "license": 1,
        "file_name": picture.file_name,
        "coco_url": f"http://sample.invalid/{picture.file_name}",
        "height": SIDE,
        "width": SIDE,
        "date_captured": "2026-01-01 00:00:00",
        "flickr_url": "",
        "id": picture.image_id,
    }


def _annotations(picture: Picture) -> list[dict[str, Any]]:
    rows = []
    for item, centre in zip(picture.scene.items, picture.scene.centres, strict=True):
        corners = [_pixel(corner) for corner in outline(item, centre, round_corners=OUTLINE_CORNERS)]
        left, top = (min(values) for values in zip(*corners, strict=True))
        right, bottom = (max(values) for values in zip(*corners, strict=True))
        rows.append(
            {
                "segmentation": [[value for corner in corners for value in corner]],
                "area": _area(corners),
                "iscrowd": 0,
                "image_id": picture.image_id,
                "bbox": [left, top, right - left, bottom - top],
                "category_id": CATEGORY_IDS[str(item.kind)],
            }
        )
    return rows


def _pixel(point: Point) -> tuple[int, int]:
    # Six decimals first: sine and cosine may differ in the last bit from machine to machine.
    return round(round(point[0], 6)), round(round(point[1], 6))


def _area(corners: list[tuple[int, int]]) -> float:
    """Shoelace formula, pixels squared."""
    following = corners[1:] + corners[:1]
    return abs(sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in zip(corners, following, strict=True))) / 2
