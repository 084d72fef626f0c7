"""Crisscrossed Captions: pairs from images with similar captions, and from captions of similar images.

The strata of the paper are halves: one half of the caption pairs are co-captions; one half of the image-caption pairs
come from caption pairs and the other from image pairs. The paper orders both by people's ratings; without ratings, the
similarity that chose a pair orders it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cxc_eccv.studies.annotation.proposing.alike import (
    NEIGHBOURS,
    choose_caption_pairs,
    choose_image_pairs,
    draw_captions,
    in_turn,
)
from cxc_eccv.studies.annotation.proposing.pool import Chosen, Entries, Pool, Strategy, join_entries
from cxc_eccv.types import DIRECTIONS, IntArray, positions_of


def choose(pool: Pool) -> Chosen:
    """Distinct image-caption pairs: half from the caption pairs, half from the image pairs."""
    content = pool.library.karpathy(pool.split)
    images = choose_image_pairs(pool.runs, content, neighbours=pool.depth)
    captions = choose_caption_pairs(
        pool.runs, content, neighbours=pool.depth, seed=int(pool.random.integers(np.iinfo(np.int64).max))
    )
    captions = captions.filter(captions["model"].is_valid())
    described = [
        content.caption_image_ids[positions_of(np.asarray(captions[name]), content.caption_ids)[0]]
        for name in ("left_id", "right_id")
    ]
    by_captions = _cross(pool, described[0], described[1])
    by_images = _cross(pool, np.asarray(images["left_id"]), np.asarray(images["right_id"]))
    names = list(pool.runs)
    entries = [_enter(by_captions, captions, names, "t2t"), _enter(by_images, images, names, "i2i")]
    first, second = (pairs[pool.is_open(pairs)] for pairs in (by_captions, by_images))
    first, second = (pairs[np.sort(np.unique(pairs, return_index=True)[1])] for pairs in (first, second))
    return Chosen(_take_halves(first, second, pool.budget), None, join_entries(entries))


def _cross(pool: Pool, left: IntArray, right: IntArray) -> IntArray:
    """The pair of each left image with a random caption of the right image."""
    captions = draw_captions(pool.library.karpathy(pool.split), right, pool.random)
    return pool.pairs.of_ids(left, captions, "pairs of images")


def _enter(pairs: IntArray, table: pa.Table, names: list[str], direction: str) -> Entries:
    models = table["model"].to_pylist()
    return Entries(
        pairs,
        np.array([names.index(model) for model in models], dtype=np.int64),
        np.full(pairs.size, DIRECTIONS.index(direction)),
        np.asarray(table["rank"], dtype=np.int64),
    )


def _take_halves(first: IntArray, second: IntArray, budget: int | None) -> IntArray:
    """Half of the budget from the first pairs, half from other second pairs, in turn."""
    total = first.size + second.size if budget is None else budget
    kept = first[: (total + 1) // 2]
    others = second[~np.isin(second, kept)][: total - kept.size]
    left = first[kept.size :]
    left = left[~np.isin(left, others)][: total - kept.size - others.size]
    return np.append(np.concatenate([kept, others])[in_turn(kept.size, others.size)], left)


STRATEGY = Strategy(
    name="cxc",
    choose=choose,
    depth=NEIGHBOURS,
    directions=(),
    takes=(),
)
