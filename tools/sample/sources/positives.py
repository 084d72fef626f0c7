"""The sample's ECCV Caption files: positives of the test split in both directions, and the caption order; the truth."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np

from sample.collection import Picture, of_split, seeded
from sample.likeness import is_true
from sample.sources.karpathy import compact
from sample.sources.ratings import Rating

__all__ = ["THRESHOLD", "caption_order", "eccv_files", "truth"]

THRESHOLD = 3.0
"""SITS rating from which CxC counts a pair as positive."""

IMAGE_QUERIES = 20
CAPTION_QUERIES = 24
FEWEST_CAPTIONS = 6
"""Image queries of ECCV Caption have at least so many positives."""

Link = tuple[int, int]


def eccv_files(pictures: list[Picture], sits: list[Rating]) -> dict[str, bytes]:
    """File name to content of the six files; a link is (caption id, image id)."""
    test = of_split(pictures, "test")
    original = sorted((caption.caption_id, picture.image_id) for picture in test for caption in picture.counted)
    rated = [(row.left, row.right) for row in sits if row.score >= THRESHOLD]
    files = {}
    for name, links in (("cxc", rated), ("original", original)):
        files[f"{name}_image_to_caption.json"] = _grouped((image, caption) for caption, image in links)
        files[f"{name}_caption_to_image.json"] = _grouped(links)
    files["eccv_image_to_caption.json"] = _grouped(verified_captions(test))
    files["eccv_caption_to_image.json"] = _grouped(_verified_images(test))
    return files


def caption_order(pictures: list[Picture]) -> bytes:
    """``coco_test_ids.npy``: int64 caption ids of the test split, five per image, in Karpathy order."""
    ids = [caption.caption_id for picture in of_split(pictures, "test") for caption in picture.counted]
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array(ids, dtype="<i8"), version=(1, 0))
    return buffer.getvalue()


def truth(pictures: list[Picture]) -> bytes:
    """Image id to the captions of its split that are true of it, for every image: what nobody knows of real data."""
    found = {}
    for split in dict.fromkeys(picture.split for picture in pictures):
        own = of_split(pictures, split)
        captions = [caption for picture in own for caption in picture.counted]
        for picture in own:
            true = [caption.caption_id for caption in captions if is_true(caption.statement, picture.scene)]
            found[picture.image_id] = true
    return compact(found)


def verified_captions(test: list[Picture]) -> list[Link]:
    """(image id, caption id): all true captions of some images, one with a caption that is in no gallery."""
    rng = seeded("eccv image_to_caption")
    captions = [caption for picture in test for caption in picture.counted]
    true = {p.image_id: [c.caption_id for c in captions if is_true(c.statement, p.scene)] for p in test}
    six = [picture for picture in test if len(picture.captions) > len(picture.counted)]
    for picture in six:
        true[picture.image_id] += [caption.caption_id for caption in picture.captions[len(picture.counted) :]]
    must = [picture.image_id for picture in six]
    enough = [image for image, ids in true.items() if len(ids) >= FEWEST_CAPTIONS and image not in must]
    queries = must + rng.sample(enough, IMAGE_QUERIES - len(must))
    rng.shuffle(queries)
    return [(image, caption) for image in queries for caption in true[image]]


def _verified_images(test: list[Picture]) -> list[Link]:
    """(caption id, image id): all images that some captions are true of."""
    rng = seeded("eccv caption_to_image")
    captions = [caption for picture in test for caption in picture.counted]
    true = {c.caption_id: [p.image_id for p in test if is_true(c.statement, p.scene)] for c in captions}
    several = [caption for caption, images in true.items() if len(images) > 1]
    single = [caption for caption, images in true.items() if len(images) == 1]
    queries = rng.sample(several, CAPTION_QUERIES - 3) + rng.sample(single, 3)
    return [(caption, image) for caption in queries for image in true[caption]]


def _grouped(links: Iterable[Link]) -> bytes:
    table: dict[str, list[int]] = {}
    for query, item in links:
        table.setdefault(str(query), []).append(item)
    return compact(table)
