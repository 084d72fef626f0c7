"""Choose candidates, the pairs that people are asked about, by a strategy.

- ``pool`` is what a strategy chooses from (the pairs of a split, the models' ranked lists, and which pairs are open),
  and the proposal that is made of its choice.
- ``alike`` chooses pairs by the other modality, as Crisscrossed Captions does.
- ``strategies`` holds the other strategies: those of the papers, by disagreement, by chance, and for one number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.evidence.source import merged_official
from cxc_eccv.judgments.merging import merge
from cxc_eccv.ranking import ranked
from cxc_eccv.runs import Run
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.annotation.proposing.alike import propose_alike
from cxc_eccv.studies.annotation.proposing.pool import (
    CANDIDATES,
    NEAR,
    NONE,
    PROPOSAL,
    Choice,
    Entries,
    JudgedPairs,
    Pairs,
    Pool,
    Proposal,
    ProposalFacts,
    ProposalOptions,
    Strategy,
    list_proposals,
)
from cxc_eccv.studies.annotation.proposing.strategies import strategies as list_strategies
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS, SIDES, FloatArray, IntArray, check_whole, find_positions
from cxc_eccv.types.ids import find_distinct
from cxc_eccv.types.json_records import to_json
from cxc_eccv.unjudged.judges import Judge

__all__ = ["CANDIDATES", "Proposal", "ProposalFacts", "ProposalOptions", "list_proposals", "propose"]


def propose(runs: Mapping[str, Run], split: Split, options: ProposalOptions | None = None) -> Proposal:
    """Choose the pairs that people are asked about.

    Each pair is proposed once. Pairs that a source calls positive are listed separately; pairs that a source judged
    negative, for example by a low rating of CxC, and pairs that were asked before are not proposed. The other pairs
    with the highest priority fill the budget, ties at random. Equal scores of a model are ordered by id.

    Args:
        runs: name of each model to its run, on all images and captions of the split, or of its part.
        split: a split of COCO.
        options: which pairs to propose.

    Example:
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> from cxc_eccv.sources.library import Library
        >>> split, random = Library("sample").split("test"), np.random.default_rng(0)
        >>> sides = [Embeddings(ids, random.standard_normal((ids.size, 8))) for ids in (split.image_ids,
        ...     split.caption_ids)]
        >>> proposal = propose({"model": EmbeddingsRun(*sides)}, split, ProposalOptions(budget=20))
        >>> proposal.candidates.num_rows, proposal.candidates["proposals"][0].as_py()[0]["model"]
        (20, 'model')
    """
    options = options or ProposalOptions()
    strategy = _find_strategy(options)
    if options.sides != ("image", "caption"):
        if strategy.name != "cxc":
            side = options.sides[0]
            raise InvalidOption(f"strategy {strategy.name} cannot choose pairs of two {side}s; give --strategy cxc")
        return propose_alike(runs, split, options)
    pairs = Pairs(split.first(options.limit))
    queries = _choose_queries(options, pairs, strategy, runs.values())
    _check_models(strategy, runs, queries)
    judged = _find_judged(split, pairs, options.sources)
    if strategy.draws and options.asked is not None:
        raise InvalidOption(
            f"strategy {strategy.name} draws from all pairs, so only a project's first round can use it: start another"
        )
    asked_before = _find_asked_before(options, pairs, Pairs(split))
    pool = Pool(
        split=split,
        options=options,
        strategy=strategy,
        pairs=pairs,
        runs=runs,
        queries=queries,
        judged=judged,
        asked_before=asked_before,
        random=np.random.default_rng([options.seed, len(queries), asked_before.size]),
    )
    return _make_proposal(pool)


def _make_proposal(pool: Pool) -> Proposal:
    """Cut the pairs that the strategy chooses to the budget, and tabulate them with the known positives."""
    choice = pool.strategy.choose(pool)
    every = find_distinct(np.append(choice.pairs, choice.entries.pairs))
    candidates, priority = _cut(choice, pool)
    apart = every[pool.judged.are_positive(every) & ~np.isin(every, candidates)]
    counts = _count(every, choice.entries, pool) | {"candidates": candidates.size}
    # Of all images and captions, not only of the queries.
    tops = [lists[:, :NEAR].ravel() for of_model in pool.lists.values() for lists in of_model.values()]
    near = find_distinct(np.concatenate([NONE.pairs, *tops]))
    return Proposal(
        candidates=_tabulate(candidates, priority, choice.entries, pool),
        known=_tabulate(apart, None, choice.entries, pool),
        facts=_describe(pool, choice, counts),
        is_near=lambda image_ids, caption_ids: np.isin(pool.pairs.of_ids(image_ids, caption_ids, "is_near"), near),
    )


def _find_strategy(options: ProposalOptions) -> Strategy:
    """The strategy; InvalidOption if it does not take a given option."""
    by_name = list_strategies()
    name = options.strategy or ("eccv" if options.sides == ("image", "caption") else "cxc")
    if name not in by_name:
        raise UnknownName("strategy", name, by_name)
    strategy = by_name[name]
    for option in ("depth", "queries", "judge", "number"):
        if getattr(options, option) is not None and option not in (*strategy.takes, "depth" if strategy.depth else ""):
            able = [other.name for other in by_name.values() if option in other.takes]
            advice = f"; {' and '.join(able)} take{'s' * (len(able) == 1)} it" if 1 <= len(able) <= 2 else ""
            raise InvalidOption(f"strategy {name} does not take {option}{advice}")
    return strategy


def _choose_queries(
    options: ProposalOptions, pairs: Pairs, strategy: Strategy, runs: Iterable[Run]
) -> tuple[IntArray, IntArray]:
    """Ascending rows of the images and of the captions that are queries."""
    queries = options.queries
    sides = tuple(zip(SIDES, (pairs.image_ids, pairs.caption_ids), strict=True))
    if queries is None:
        able = [way for way in strategy.directions if any(run.why_not(way) is None for run in runs)]
        i2t, t2i = (None if not able or way in able else 0 for way in CROSS_MODAL)
        queries = i2t, t2i
    if not isinstance(queries, tuple | list) or len(queries) != len(sides):
        raise InvalidOption(f"queries {queries!r:.60}: give images and captions, such as (1261, 1333)")
    images, captions = (
        _choose_rows(of_side, name, ids, np.random.default_rng([options.seed, number]))
        for number, (of_side, (name, ids)) in enumerate(zip(queries, sides, strict=True))
    )
    if strategy.directions == ("i2t",) and captions.size:
        raise InvalidOption(
            f"strategy {strategy.name} takes only images as queries; give no captions: queries=(500, 0), "
            "--queries 500,0"
        )
    if not images.size + captions.size:
        raise InvalidOption("queries: give at least one image or caption")
    return images, captions


def _choose_rows(queries: int | ArrayLike | None, name: str, ids: IntArray, random: np.random.Generator) -> IntArray:
    """Ascending rows of the queries of one side, given by number or by id; None for all."""
    if queries is None:
        return np.arange(ids.size)
    if isinstance(queries, int):
        check_whole(f"queries: number of {name}", queries, least=0)
        if queries > ids.size:
            raise InvalidOption(f"queries: the split has {ids.size:,} {name}, fewer than {queries:,}; draw fewer")
        return np.sort(random.choice(ids.size, queries, replace=False))
    query_ids = whole_ids(queries, f"queries: {name}").astype(np.int64)
    rows, there = find_positions(query_ids, ids)
    if not there.all():
        raise InvalidOption(f"queries: {query_ids[~there][0]} is not among the {name} of the split")
    return np.unique(rows)


def _check_models(strategy: Strategy, runs: Mapping[str, Run], queries: tuple[IntArray, IntArray]) -> None:
    fewest, most = strategy.models
    if len(runs) < fewest or (most is not None and len(runs) > most):
        number = f"at least {fewest}" if len(runs) < fewest else f"at most {most}"
        raise InvalidOption(f"strategy {strategy.name} takes {number} models; there are {len(runs)}")
    ways = {way for way, rows in zip(CROSS_MODAL, queries, strict=True) if rows.size}
    for (name, run), direction in product(runs.items(), strategy.directions):
        reason = run.why_not(direction)
        if direction in ways and reason is not None:
            raise InvalidOption(
                f"{name} does not rank {direction}: {reason}. Leave it out, or use queries of the other side only: "
                "queries=(500, 0), --queries 500,0 for images"
            )


def _find_asked_before(options: ProposalOptions, pairs: Pairs, whole: Pairs) -> IntArray:
    """Ascending pairs that were asked before, which may be of the whole split."""
    if options.asked is None:
        return np.empty(0, np.int64)
    image_ids, caption_ids = whole.ids(whole.read(options.asked, "pairs asked before"))
    within = pairs.holds(image_ids, caption_ids)
    return find_distinct(pairs.of_ids(image_ids[within], caption_ids[within], "pairs asked before"))


def _find_judged(split: Split, pairs: Pairs, sources: Sequence[str] | None) -> JudgedPairs:
    """The judgments of sources, which are those of both directions."""
    names = merged_official(split.library) if sources is None else list(sources)
    merged = merge(split, "i2t", sources=names)
    images = merged.query_ids[merged.queries]
    captions = merged.gallery_ids[merged.items]
    within = pairs.holds(images, captions)
    numbers = pairs.of_ids(images[within], captions[within], "judged pairs")
    positives = {name: np.empty(0, np.int64) for name in names}
    for column, name in enumerate(merged.sources):
        positives[name] = find_distinct(numbers[merged.said_positive[within, column]])
    return JudgedPairs(find_distinct(numbers), positives)


def _count(every: IntArray, entries: Entries, pool: Pool) -> dict[str, int]:
    """Counts of the chosen pairs; each distinct pair is in one of the last four."""
    is_judged = np.isin(every, pool.judged.pairs)
    n_positive = int(pool.judged.are_positive(every).sum())
    return {
        "proposed": entries.pairs.size + every.size - find_distinct(entries.pairs).size,
        "distinct": every.size,
        "known_positive": n_positive,
        "judged_negative": int(is_judged.sum()) - n_positive,
        "asked_before": int((np.isin(every, pool.asked_before) & ~is_judged).sum()),
        "open": int(pool.is_open(every).sum()),
    }


def _cut(choice: Choice, pool: Pool) -> tuple[IntArray, FloatArray | None]:
    """The open pairs within the budget, in the order of asking, and their priorities."""
    rows = np.flatnonzero(pool.is_open(choice.pairs))
    if choice.priority is None:
        return choice.pairs[rows[: pool.options.budget]], None
    rows = pool.random.permutation(rows)
    rows = rows[np.argsort(-choice.priority[rows], kind="stable")][: pool.options.budget]
    return choice.pairs[rows], choice.priority[rows]


def _tabulate(pairs: IntArray, priority: FloatArray | None, entries: Entries, pool: Pool) -> pa.Table:
    order = np.argsort(pairs)
    listed = entries.only(np.isin(entries.pairs, pairs))
    rows = order[np.searchsorted(pairs[order], listed.pairs)]
    sequence = np.lexsort((listed.ranks, listed.directions, listed.models, rows))
    proposals = pa.StructArray.from_arrays(
        [
            pa.array(list(pool.runs), pa.string()).take(pa.array(listed.models[sequence])),
            pa.array(DIRECTIONS, pa.string()).take(pa.array(listed.directions[sequence])),
            pa.array(listed.ranks[sequence], pa.int32()),
        ],
        fields=list(PROPOSAL),
    )
    flags = pool.judged.flag(pairs)
    named = pa.array(list(pool.judged.positives), pa.string()).take(pa.array(np.nonzero(flags)[1]))
    image_ids, caption_ids = pool.pairs.ids(pairs)
    columns = [
        pa.array(image_ids),
        pa.array(caption_ids),
        _make_lists(np.bincount(rows, minlength=pairs.size), proposals),
        pa.array([pool.strategy.name] * pairs.size, pa.string()),
        pa.nulls(pairs.size, pa.float64()) if priority is None else pa.array(priority),
        _make_lists(flags.sum(axis=1), named),
    ]
    return pa.table(columns, schema=CANDIDATES)


def _make_lists(lengths: IntArray, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), values)


def _describe(pool: Pool, choice: Choice, counts: Mapping[str, int]) -> ProposalFacts:
    models = {
        name: {
            "run": to_json(run.facts()),
            "similarity": ranked(run).scoring["similarity"],
            "lists": {direction: _hash(lists[:, :NEAR]) for direction, lists in pool.lists[name].items()},
        }
        for name, run in pool.runs.items()
    }
    return ProposalFacts(
        strategy=pool.strategy.name,
        split=pool.split.name,
        options=_describe_options(pool) | dict(choice.facts),
        models=models,
        counts=counts,
        searched=_find_searched(pool),
        near=NEAR,
    )


def _describe_options(pool: Pool) -> dict[str, Any]:
    options = pool.options
    strategy = pool.strategy
    sources = list(pool.judged.positives)
    used = pool.split.library.files_used()
    labels = {file.name: used[key] for key, file in pool.split.library.label_files.items() if key in used}
    labels = {name: sha for name, sha in labels.items() if name in sources}
    depth = pool.depth if strategy.depth else None
    facts: dict[str, Any] = {"budget": options.budget, "depth": depth, "seed": options.seed, "sources": sources}
    if labels:
        facts["labels"] = labels
    if "queries" in strategy.takes:
        facts["queries"] = dict(zip(SIDES, (rows.size for rows in pool.queries), strict=True))
    if "number" in strategy.takes:
        facts["metric"] = options.number
    if isinstance(options.judge, Judge):
        facts["classifier"] = options.judge.facts.identity
    if pool.probabilities is not None:
        facts["probabilities"] = {"pairs": pool.probabilities[0].size, "sha256": _hash(*pool.probabilities)}
    if options.limit is not None:
        facts["limit"] = options.limit
    return facts | ({"ask_known": True} if options.ask_known else {})


def _find_searched(pool: Pool) -> dict[str, list[int]]:
    """Direction to the ids of the queries whose lists the strategy reads, whether or not it finds open pairs there."""
    if not pool.strategy.depth:
        return {}
    directions = {direction for lists in pool.lists.values() for direction in lists} & set(pool.strategy.directions)
    every = zip(CROSS_MODAL, (pool.pairs.image_ids, pool.pairs.caption_ids), pool.queries, strict=True)
    return {direction: np.sort(ids[rows]).tolist() for direction, ids, rows in every if direction in directions}


def _hash(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
