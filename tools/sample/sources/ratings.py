"""The sample's CxC files: STS, SIS and SITS ratings that follow how alike the scenes truly are."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations

from sample.collection import Picture, of_split, seeded
from sample.likeness import is_true, likeness, rating

__all__ = ["Rating", "cxc_csv", "rate_captions", "rate_images", "rate_links"]

SILENCE_OF_CAPTIONS = 0.4
"""Credit for an attribute that only one of two captions names; a caption owes an image nothing."""

SIBLINGS = {"sts": 22, "sis": 50, "sits": 55}
STRANGERS = {"sts": 26, "sis": 24, "sits": 25}
"""Rated pairs across images: from one family of scenes, and from different families."""

REVERSED = 12
"""Image pairs that are rated a second time in the other order, as many are in the real file."""

HEADERS = {"sts": "caption1,caption2", "sis": "image1,image2", "sits": "caption,image"}


@dataclass(frozen=True, slots=True)
class Rating:
    """One row: two ids, the mean score of the annotators, and how the pair was sampled."""

    left: int
    right: int
    score: float
    method: str


def cxc_csv(kind: str, rows: Iterable[Rating], pictures: list[Picture]) -> bytes:
    """A file of kind ``sts``, ``sis`` or ``sits`` with ids in their real form."""
    file_names = {picture.image_id: picture.file_name for picture in pictures}
    name_left: Callable[[int], str] = file_names.__getitem__ if kind == "sis" else "COCO_val2014:sentid:{}".format
    name_right: Callable[[int], str] = "COCO_val2014:sentid:{}".format if kind == "sts" else file_names.__getitem__
    lines = [f"{name_left(row.left)},{name_right(row.right)},{row.score},{row.method}" for row in rows]
    return "\n".join([f"{HEADERS[kind]},agg_score,sampling_method", *lines, ""]).encode()


def rate_captions(pictures: list[Picture], split: str) -> list[Rating]:
    """STS: captions of two images, then one pair of co-captions per image."""
    rng = seeded(f"sts {split}")
    chosen = of_split(pictures, split)
    pairs = [(rng.choice(a.counted), rng.choice(b.counted), "c2c_isim") for a, b in _image_pairs("sts", chosen, rng)]
    for picture in chosen:
        one, other = rng.sample(picture.counted, 2)
        pairs.append((one, other, "c2c_cocaption"))
    rows = []
    for one, other, method in pairs:
        value = likeness(one.statement, other.statement, silence=SILENCE_OF_CAPTIONS)
        rows.append(Rating(one.caption_id, other.caption_id, rating(value, rng), method))
    return rows


def rate_images(pictures: list[Picture], split: str) -> list[Rating]:
    """SIS: image pairs, some of them in both orders with a rating each."""
    rng = seeded(f"sis {split}")
    pairs = _image_pairs("sis", of_split(pictures, split), rng)
    pairs += [(b, a) for a, b in rng.sample(pairs, REVERSED)]
    return [
        Rating(a.image_id, b.image_id, rating(likeness(a.scene, b.scene, silence=0.0), rng), "i2i_csim")
        for a, b in pairs
    ]


def rate_links(pictures: list[Picture], split: str) -> list[Rating]:
    """SITS: captions with other images, then one original link per image and every mistaken one."""
    rng = seeded(f"sits {split}")
    chosen = of_split(pictures, split)
    pairs = [(rng.choice(a.counted), b, "c2i_intrasim") for a, b in _image_pairs("sits", chosen, rng)]
    for picture in chosen:
        first = rng.choice(picture.counted)
        false = [caption for caption in picture.counted if not is_true(caption.statement, picture.scene)]
        pairs += [(caption, picture, "c2i_original") for caption in dict.fromkeys([first, *false])]
    return [
        Rating(
            caption.caption_id,
            picture.image_id,
            rating(likeness(caption.statement, picture.scene, silence=1.0), rng),
            method,
        )
        for caption, picture, method in pairs
    ]


def _image_pairs(kind: str, pictures: list[Picture], rng: random.Random) -> list[tuple[Picture, Picture]]:
    """Distinct pairs of distinct images in an order drawn by chance, no pair in both orders."""
    pairs = list(combinations(pictures, 2))
    siblings = [pair for pair in pairs if pair[0].family == pair[1].family]
    strangers = [pair for pair in pairs if pair[0].family != pair[1].family]
    drawn = rng.sample(siblings, SIBLINGS[kind]) + rng.sample(strangers, STRANGERS[kind])
    rng.shuffle(drawn)
    return [(a, b) if rng.random() < 0.5 else (b, a) for a, b in drawn]
