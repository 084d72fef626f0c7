"""Crisscrossed Captions' sampling by the other modality: images with similar captions, captions of similar images.

Its strategy for image-caption pairs takes them from these pairs. The strata of the paper are halves: one half of the
caption pairs are co-captions; one half of the image-caption pairs come from caption pairs and the other from image
pairs. The paper orders both by people's ratings; without ratings, the similarity that chose a pair orders it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.judgments.evidence.source import co_captions
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.scores import refuse_zero_vectors
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.caption_means import average_captions
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.annotation.proposing.pool import (
    CANDIDATES,
    Choice,
    Entries,
    Pool,
    Proposal,
    ProposalFacts,
    ProposalOptions,
    Strategy,
    join_entries,
    rank_in_blocks,
)
from cxc_eccv.types import DIRECTIONS, Embeddings, FloatArray, IntArray, Judgments, find_positions
from cxc_eccv.types.json_records import to_json

SIDE_IDS = ("left_id", "right_id")

NEIGHBOURS = 5
"""Nearest neighbours of each item."""


def choose_image_pairs(runs: Mapping[str, Run], content: Split, *, neighbours: int = NEIGHBOURS) -> pa.Table:
    """Image pairs for SIS: images with similar captions (other-modality sampling)."""
    described = {name: _average_captions(name, run, content) for name, run in _with_side(runs, "captions").items()}
    tables = [_find_neighbours(name, run, content.image_ids, neighbours) for name, run in described.items()]
    return _order(tables, "i2i_csim")


def choose_caption_pairs(
    runs: Mapping[str, Run], content: Split, *, neighbours: int = NEIGHBOURS, seed: int = 0
) -> pa.Table:
    """Caption pairs for STS: captions of similar images (other-modality sampling), then as many co-captions."""
    random = np.random.default_rng(seed)
    seeing = _with_side(runs, "images")
    tables = [_find_neighbours(name, run, content.image_ids, neighbours) for name, run in seeing.items()]
    alike = once(_order(tables, "c2c_isim"))
    sides = [draw_captions(content, np.asarray(alike[name]), random) for name in SIDE_IDS]
    left, right = co_captions(content.caption_image_ids)
    ascending = np.flatnonzero(left < right)
    drawn = random.choice(ascending, min(ascending.size, alike.num_rows), replace=False)
    co = {"left_id": content.caption_ids[left[drawn]], "right_id": content.caption_ids[right[drawn]]}
    nothing = {name: pa.nulls(drawn.size, alike.schema.field(name).type) for name in ("model", "rank", "similarity")}
    alike = alike.set_column(0, "left_id", [sides[0]]).set_column(1, "right_id", [sides[1]])
    return pa.concat_tables(
        [alike, pa.table(co | nothing | {"sampling_method": pa.array(["c2c_cocaption"] * drawn.size)})]
    )


def _with_side(runs: Mapping[str, Run], side: str) -> dict[str, EmbeddingsRun]:
    able = {}
    for name, run in runs.items():
        vectors = run.as_embeddings()
        if vectors is None:
            raise InvalidOption(
                f"{name} has {run.kind}, which cannot compare images with images or captions with captions: give "
                "embeddings"
            )
        if vectors.ids(side).size:
            able[name] = vectors.without_roles()  # neither of two alike items is the query
    if not able:
        raise InvalidOption(f"no model has vectors of {side}, which the choice of pairs needs: give one that has")
    return able


def _average_captions(name: str, run: EmbeddingsRun, content: Split) -> EmbeddingsRun:
    """A run with the mean vector of each image's captions as the image's vector; under the cosine of unit vectors."""
    places, there = find_positions(content.caption_ids, run.ids("captions"))
    if not there.all():
        lacking = content.caption_ids[~there]
        raise MissingIds(
            f"{name} lacks {lacking.size} of {there.size} captions of the split, the first: {lacking[0]}. Encode all "
            "captions"
        )
    vectors = cast("Embeddings", run.captions).vectors[places]
    is_cosine = run.choose_similarity() == "cosine"
    if is_cosine:
        refuse_zero_vectors(content.caption_ids[~vectors.any(axis=1)], len(vectors), "captions", run.path or name)
    return replace(run, images=average_captions(vectors, content, normalize=is_cosine), captions=None)


def _find_neighbours(name: str, run: EmbeddingsRun, image_ids: IntArray, neighbours: int) -> pa.Table:
    """The nearest images of each image, the most similar pairs first, ties in Karpathy order."""
    judged = Judgments.empty(image_ids, image_ids, without_self=True)
    top = rank_in_blocks(run).find_top(judged, "i2i", neighbours)
    scores = cast("FloatArray", top.scores).ravel()  # runs of vectors have scores
    order = np.argsort(-scores, kind="stable")
    columns = {
        "left_id": np.repeat(image_ids, top.depth)[order],
        "right_id": top.ids.ravel()[order],
        "model": pa.array([name] * order.size),
        "rank": pa.array(order % top.depth + 1, pa.int32()),
        "similarity": scores[order],
    }
    return pa.table(columns)


def _order(tables: list[pa.Table], method: str) -> pa.Table:
    """The pairs of several models in turn, since similarities of different models are not comparable."""
    table = pa.concat_tables(tables)
    order = in_turn(*(each.num_rows for each in tables))
    return table.take(pa.array(order)).append_column("sampling_method", pa.array([method] * order.size))


def in_turn(*sizes: int) -> IntArray:
    """(N,) the order that takes from lists of these sizes, which follow each other, in turn."""
    return np.argsort(np.concatenate([np.arange(size) for size in sizes]), kind="stable")


def once(pairs: pa.Table) -> pa.Table:
    """The first row of every unordered pair."""
    both = np.sort(np.stack([np.asarray(pairs[name]) for name in SIDE_IDS], axis=1), axis=1)
    first = np.unique(both, axis=0, return_index=True)[1]
    return pairs.take(pa.array(np.sort(first)))


def draw_captions(content: Split, image_ids: IntArray, random: np.random.Generator) -> IntArray:
    """(P,) ids of one random caption of each image."""
    owners = find_positions(content.caption_image_ids, content.image_ids)[0]
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=content.image_ids.size)
    rows = find_positions(image_ids, content.image_ids)[0]
    places = (np.cumsum(counts) - counts)[rows] + random.integers(counts[rows])
    return np.asarray(content.caption_ids[order[places]])


def propose_alike(runs: Mapping[str, Run], split: Split, options: ProposalOptions) -> Proposal:
    """Choose pairs of two images or two captions that CxC has not rated, each in one order."""
    side = options.sides[0]
    depth = options.depth or NEIGHBOURS
    table = _choose_pairs(runs, split.first(options.limit), side, depth, options.seed)
    has_ratings = split.name in ("validation", "test")
    rated = _unordered(split.ratings("sis" if side == "image" else "sts"), SIDE_IDS) if has_ratings else set()
    before = set() if options.asked is None else _unordered(options.asked, ("image_id", "caption_id"))
    direction = "i2i" if side == "image" else "t2t"
    rows = []
    for row in table.to_pylist():
        pair = frozenset((row["left_id"], row["right_id"]))
        if pair in rated or pair in before:
            continue
        proposals = [{"model": row["model"], "direction": direction, "rank": row["rank"]}] if row["model"] else []
        ids = {"image_id": row["left_id"], "caption_id": row["right_id"], "proposals": proposals}
        rows.append({**ids, "strategy": "cxc", "priority": row["similarity"], "known": []})
    n_rated = len(_unordered(table, SIDE_IDS) & rated)
    candidates = rows[: options.budget]
    counts = {
        "proposed": table.num_rows,
        "distinct": table.num_rows,
        "judged_negative": 0,
        "candidates": len(candidates),
        "known_positive": n_rated,
        "asked_before": table.num_rows - n_rated - len(rows),
        "open": len(rows),
    }
    models = {
        name: {"run": to_json(run.facts()), "similarity": ranked(run).scoring["similarity"]}
        for name, run in runs.items()
    }
    facts = {"budget": options.budget, "depth": depth, "seed": options.seed}
    return Proposal(
        candidates=pa.Table.from_pylist(candidates, schema=CANDIDATES),
        known=CANDIDATES.empty_table(),
        facts=ProposalFacts(strategy="cxc", split=split.name, options=facts, models=models, counts=counts),
        is_near=lambda ids, _: np.zeros(ids.size, dtype=bool),
    )


def _choose_pairs(runs: Mapping[str, Run], content: Split, side: str, depth: int, seed: int) -> pa.Table:
    """Pairs of two images, each once; or of two captions, in turn with co-captions."""
    if side == "image":
        return once(choose_image_pairs(runs, content, neighbours=depth))
    table = choose_caption_pairs(runs, content, neighbours=depth, seed=seed)
    half = table["model"].is_valid().to_pylist().count(True)  # co-captions follow
    return table.take(pa.array(in_turn(half, table.num_rows - half)))


def _unordered(table: pa.Table, names: tuple[str, str]) -> set[frozenset[int]]:
    """The pairs of a table in either order."""
    return set(map(frozenset, zip(*(table[name].to_pylist() for name in names), strict=True)))


def _choose_cxc(pool: Pool) -> Choice:
    """Distinct image-caption pairs: half from the caption pairs, half from the image pairs."""
    content = pool.pairs.content
    images = choose_image_pairs(pool.runs, content, neighbours=pool.depth)
    captions = choose_caption_pairs(
        pool.runs, content, neighbours=pool.depth, seed=int(pool.random.integers(np.iinfo(np.int64).max))
    )
    captions = captions.filter(captions["model"].is_valid())
    described = [
        content.caption_image_ids[find_positions(np.asarray(captions[name]), content.caption_ids)[0]]
        for name in ("left_id", "right_id")
    ]
    by_captions = _cross(pool, described[0], described[1])
    by_images = _cross(pool, np.asarray(images["left_id"]), np.asarray(images["right_id"]))
    names = list(pool.runs)
    entries = [_enter(by_captions, captions, names, "t2t"), _enter(by_images, images, names, "i2i")]
    first, second = (pairs[pool.is_open(pairs)] for pairs in (by_captions, by_images))
    first, second = (pairs[np.sort(np.unique(pairs, return_index=True)[1])] for pairs in (first, second))
    return Choice(_take_halves(first, second, pool.options.budget), None, join_entries(entries))


def _cross(pool: Pool, left: IntArray, right: IntArray) -> IntArray:
    """The pair of each left image with a random caption of the right image."""
    captions = draw_captions(pool.pairs.content, right, pool.random)
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
    half = first[: (total + 1) // 2]
    others = second[~np.isin(second, half)][: total - half.size]
    left = first[half.size :]
    left = left[~np.isin(left, others)][: total - half.size - others.size]
    return np.append(np.concatenate([half, others])[in_turn(half.size, others.size)], left)


CXC = Strategy(name="cxc", choose=_choose_cxc, depth=NEIGHBOURS, directions=(), takes=())
