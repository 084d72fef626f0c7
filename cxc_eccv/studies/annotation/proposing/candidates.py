"""Candidates: the pairs that people are asked about, with who proposed them; the front door of the strategies."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.evaluation.settings import PairValues
from cxc_eccv.judgments.evidence import sources_of
from cxc_eccv.judgments.qrels import merge
from cxc_eccv.runs import Run
from cxc_eccv.runs.checks import whole_ids
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.annotation.proposing.alike import choose_caption_pairs, choose_image_pairs, once
from cxc_eccv.studies.annotation.proposing.pool import (
    NEAR,
    NONE,
    Chosen,
    Entries,
    Pairs,
    Pool,
    Strategy,
    find_similarity,
    holds,
)
from cxc_eccv.studies.annotation.proposing.strategies import strategies
from cxc_eccv.studies.entailment.judge import ClassifierJudge
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS, SIDES, FloatArray, IntArray, check_whole, positions_of
from cxc_eccv.types.ids import distinct_of

Queries = tuple[int | ArrayLike | None, int | ArrayLike | None]
"""Of images and of captions how many, or which ids."""

PAIR, SIDE_IDS = ("image_id", "caption_id"), ("left_id", "right_id")

PROPOSAL = pa.struct([("model", pa.string()), ("direction", pa.string()), ("rank", pa.int32())])
CANDIDATES = pa.schema(
    [
        pa.field("image_id", pa.int64(), nullable=False),
        pa.field("caption_id", pa.int64(), nullable=False),
        pa.field("proposals", pa.list_(PROPOSAL), nullable=False),
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("priority", pa.float64()),
        pa.field("known", pa.list_(pa.string()), nullable=False),
    ]
)
"""A pair: who has it at which rank of which list (nobody where it was drawn), what it was chosen by, its priority (none
where the strategy has none), and the sources that call it positive."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What a strategy proposes.

    Of the counts in ``facts``, ``proposed`` is over all lists, and pairs that were drawn or given beside these;
    ``distinct`` counts each pair once. These are known positives, judged negatives, asked about before, or open, and
    the candidates are those of the open ones that the budget allows.
    """

    candidates: pa.Table  # pairs to ask about, first those to be asked first; as CANDIDATES
    known: pa.Table  # pairs that a source calls positive already, and that are not asked about; as CANDIDATES
    facts: dict[str, Any]  # strategy, options, models with hashes, and counts, for a file
    # (P,) whether any model has each pair of (P,) image ids and caption ids among the top 25 of a list.
    is_near: Callable[[IntArray, IntArray], NDArray[np.bool_]]


def propose(
    runs: Mapping[str, Run],
    library: Library,
    split: str = "test",
    *,
    strategy: str = "eccv",
    budget: int | None = None,
    depth: int | None = None,
    queries: Queries | None = None,
    seed: int = 0,
    classifier: ClassifierJudge | None = None,
    probabilities: pa.Table | None = None,
    threshold: float | None = None,
    metric: str | None = None,
    sources: Sequence[str] | None = None,
    ask_known: bool = False,
    asked: pa.Table | None = None,
    sides: tuple[str, str] = ("image", "caption"),
) -> Proposal:
    """Choose the pairs that people are asked about.

    A pair is proposed once, whichever lists have it. What a source calls positive stands apart; what a source turned
    down, as a low rating of CxC does, and what was asked before are not proposed. Of the others those of the highest
    priority fill the budget; equal ones are drawn. Equal scores of a model are ordered by id.

    Args:
        runs: name of each model to its run, on all images and captions of the split.
        library: the raw sources.
        split: of COCO.
        strategy: a name of :func:`cxc_eccv.studies.annotation.proposing.strategies.strategies`.
        budget: how many candidates at most; None for all that the strategy proposes.
        depth: how many items of a list are looked at; None for as many as the strategy says.
        queries: how many images and how many captions are drawn to be queries, or the ids of those that are; None for
            all of a side, or in the place of both for all that any model ranks.
        seed: of all draws. Queries depend on it alone, so that further rounds have the same ones.
        classifier: of entailment, for ``uncertainty``.
        probabilities: in its place, a table with ``image_id``, ``caption_id`` and ``probability``.
        threshold: of these probabilities; None for the classifier's own, and 0.5 for a table.
        metric: for ``bounds``, the metric that a label shall move; None for ``map_at_r``.
        sources: whose labels are known; None for all official ones.
        ask_known: ask about what a source calls positive, too, so that the precision of the sources can be told.
        asked: pairs that were asked about before, with ``image_id`` and ``caption_id``.
        sides: what pairs are of; of two images or two captions only ``cxc`` chooses some.

    Example:
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> library, random = Library("sample"), np.random.default_rng(0)
        >>> content = library.karpathy("test")
        >>> sides = [Embeddings(ids, random.standard_normal((ids.size, 8))) for ids in (content.image_ids,
        ...     content.caption_ids)]
        >>> found = propose({"model": EmbeddingsRun(*sides)}, library, budget=20)
        >>> found.candidates.num_rows, found.candidates["proposals"][0].as_py()[0]["model"]
        (20, 'model')
    """
    options = {"depth": depth, "queries": queries, "classifier": classifier, "probabilities": probabilities}
    chosen_by = _find_strategy(strategy, **options, threshold=threshold, metric=metric)
    for name, value, least in (("budget", budget, 1), ("depth", depth, 1), ("seed", seed, 0)):
        if value is not None:
            check_whole(name, value, least)
    if sides != ("image", "caption"):
        if strategy != "cxc":
            raise InvalidOption(f"strategy {strategy} chooses no pairs of two {sides[0]}s; cxc does (--strategy cxc)")
        return _propose_alike(runs, library, split, sides[0], budget, depth or chosen_by.depth or NEAR, seed, asked)
    pairs = Pairs(library.karpathy(split))
    rows = _choose_queries(queries, pairs, chosen_by, seed, runs.values())
    _check_models(chosen_by, runs, rows, needs_lists=probabilities is None)
    if threshold is None:
        threshold = 0.5 if classifier is None else float(classifier.threshold)
    elif not 0 <= threshold <= 1:
        raise InvalidOption(f"threshold {threshold:g}: probabilities run from 0 to 1")
    known = _find_known(library, split, pairs, sources)
    before = np.empty(0, np.int64) if asked is None else distinct_of(_read_pairs(asked, pairs, "pairs asked before"))
    judged = known.judged[~known.flag(known.judged).any(axis=1)] if ask_known else known.judged
    pool = Pool(
        library=library,
        split=split,
        pairs=pairs,
        runs=runs,
        depth=depth or chosen_by.depth or NEAR,
        queries=rows,
        closed=distinct_of(np.append(judged, before)),
        sources=tuple(known.positive),
        budget=budget,
        random=np.random.default_rng([seed, len(rows), before.size]),
        classifier=classifier,
        probabilities=None if probabilities is None else _read_probabilities(probabilities, pairs),
        threshold=float(threshold),
        metric=metric or "map_at_r",
    )
    chosen = chosen_by.choose(pool)
    every = distinct_of(np.append(chosen.pairs, chosen.entries.pairs))
    candidates, priority = _cut(chosen, pool)
    apart = every[known.flag(every).any(axis=1) & ~np.isin(every, candidates)]
    counts = _count(every, chosen.entries, known, before, pool) | {"candidates": candidates.size}
    # Whatever the query, the pairs that a model has near the top of a list.
    near = [lists[:, :NEAR].ravel() for ranked in pool.lists.values() for lists in ranked.values()]
    facts = _describe(pool, chosen_by, seed) | {"counts": counts}
    if ask_known:
        facts["options"]["ask_known"] = True
    return Proposal(
        candidates=_tabulate(candidates, priority, chosen.entries, pool, strategy, known),
        known=_tabulate(apart, None, chosen.entries, pool, strategy, known),
        facts=facts,
        is_near=partial(_is_near, pairs, distinct_of(np.concatenate([NONE.pairs, *near]))),
    )


def _is_near(pairs: Pairs, near: IntArray, image_ids: IntArray, caption_ids: IntArray) -> NDArray[np.bool_]:
    """(P,) whether any model has a pair of an image and a caption among the top 25 of a list."""
    return holds(near, pairs.of_ids(image_ids, caption_ids, "is_near"))


def _propose_alike(
    runs: Mapping[str, Run],
    library: Library,
    split: str,
    side: str,
    budget: int | None,
    depth: int,
    seed: int,
    asked: pa.Table | None,
) -> Proposal:
    """Pairs of two images or two captions that CxC has not rated, each in one order."""
    content = library.karpathy(split)
    if side == "image":
        table = once(choose_image_pairs(runs, content, neighbours=depth))
    else:
        table = choose_caption_pairs(runs, content, neighbours=depth, seed=seed)
        half = table["model"].is_valid().to_pylist().count(True)  # co-captions stand behind; they take turns
        turns = np.argsort(np.concatenate([np.arange(half), np.arange(table.num_rows - half)]), kind="stable")
        table = table.take(pa.array(turns))
    rated = {}
    if split in ("validation", "test"):
        own = library.cxc("sis" if side == "image" else "sts", split)
        rated = dict.fromkeys(map(frozenset, zip(*(own[name].to_pylist() for name in SIDE_IDS), strict=True)))
    before = set() if asked is None else {frozenset(row.values()) for row in asked.select(PAIR).to_pylist()}
    direction, counts, rows = "i2i" if side == "image" else "t2t", Counter[str](), list[dict[str, Any]]()
    for row in table.to_pylist():
        pair = frozenset((row["left_id"], row["right_id"]))
        counts["known_positive" if pair in rated else "asked_before" if pair in before else "open"] += 1
        if pair not in rated and pair not in before and (budget is None or len(rows) < budget):
            proposals = [{"model": row["model"], "direction": direction, "rank": row["rank"]}] if row["model"] else []
            ids = {"image_id": row["left_id"], "caption_id": row["right_id"], "proposals": proposals}
            rows.append({**ids, "strategy": "cxc", "priority": row["similarity"], "known": []})
    total = {"proposed": table.num_rows, "distinct": table.num_rows, "judged_negative": 0, "candidates": len(rows)}
    named = ("known_positive", "asked_before", "open")
    facts = {
        "strategy": "cxc",
        "split": split,
        "options": {"budget": budget, "depth": depth, "seed": seed},
        "models": {name: {"run": dict(run.facts()), "similarity": find_similarity(run)} for name, run in runs.items()},
        "counts": total | {name: counts[name] for name in named},
    }
    found = pa.Table.from_pylist(rows, schema=CANDIDATES)
    return Proposal(found, CANDIDATES.empty_table(), facts, lambda ids, _: np.zeros(ids.size, dtype=bool))


def _find_strategy(name: str, **options: object) -> Strategy:
    """The strategy of this name, which takes all the options that are given."""
    known = strategies()
    if name not in known:
        raise UnknownName("strategy", name, known)
    strategy = known[name]
    for option, value in options.items():
        if value is not None and option not in (*strategy.takes, "depth" if strategy.depth else ""):
            able = [other.name for other in known.values() if option in other.takes]
            raise InvalidOption(f"strategy {name} takes no {option}" + (f"; {able[0]} does" if len(able) == 1 else ""))
    return strategy


def _choose_queries(
    queries: Queries | None, pairs: Pairs, own: Strategy, seed: int, runs: Iterable[Run]
) -> tuple[IntArray, IntArray]:
    """Rows of the images and of the captions that are queries, ascending."""
    sides = tuple(zip(SIDES, (pairs.image_ids, pairs.caption_ids), strict=True))
    if queries is None:
        able = [way for way in own.directions if any(run.why_not(way) is None for run in runs)]
        i2t, t2i = (None if not able or way in able else 0 for way in CROSS_MODAL)
        queries = i2t, t2i
    if not isinstance(queries, tuple | list) or len(queries) != len(sides):
        raise InvalidOption(f"queries {queries!r:.60}: give two, of images and of captions, as (1261, 1333)")
    found = []
    for side, (given, (name, ids)) in enumerate(zip(queries, sides, strict=True)):
        if given is None:
            found.append(np.arange(ids.size))
        elif isinstance(given, int):
            check_whole(f"queries: number of {name}", given, least=0)
            if given > ids.size:
                raise InvalidOption(f"queries: {given:,} {name} of {ids.size:,}; draw at most as many as there are")
            random = np.random.default_rng([seed, side])
            found.append(np.sort(random.choice(ids.size, given, replace=False)))
        else:
            wanted = whole_ids(given, f"queries: {name}").astype(np.int64)
            rows, there = positions_of(wanted, ids)
            if not there.all():
                raise InvalidOption(f"queries: {wanted[~there][0]} is none of the split's {name}")
            found.append(np.unique(rows))
    if own.directions == ("i2t",) and found[1].size:
        raise InvalidOption(
            f"strategy {own.name} asks for captions of images alone; give no caption as a query: queries=(500, 0), "
            "--queries 500,0"
        )
    if not found[0].size + found[1].size:
        raise InvalidOption("queries: neither an image nor a caption; draw at least one")
    return found[0], found[1]


def _check_models(
    strategy: Strategy, runs: Mapping[str, Run], queries: tuple[IntArray, IntArray], *, needs_lists: bool
) -> None:
    fewest, most = strategy.models
    if len(runs) < fewest or (most is not None and len(runs) > most):
        wanted = f"at least {fewest}" if len(runs) < fewest else f"at most {most}"
        raise InvalidOption(f"models given: {len(runs)}; strategy {strategy.name} takes {wanted}")
    wanted_ways = {way for way, rows in zip(CROSS_MODAL, queries, strict=True) if rows.size and needs_lists}
    for (name, run), direction in product(runs.items(), strategy.directions):
        reason = run.why_not(direction)
        if direction in wanted_ways and reason is not None:
            raise InvalidOption(
                f"{name} does not rank {direction}: {reason}. Leave it out, or have queries of the other side alone: "
                "queries=(500, 0), --queries 500,0 for images"
            )


def _read_pairs(table: pa.Table, pairs: Pairs, what: str) -> IntArray:
    lacking = [name for name in PAIR if name not in table.column_names]
    if lacking:
        raise DataError(f"{what}: no column {lacking[0]} among {', '.join(table.column_names)}")
    images, captions = (np.asarray(table[name]) for name in PAIR)
    if table.num_rows and any(ids.dtype.kind not in "iu" for ids in (images, captions)):
        raise DataError(f"{what}: image_id and caption_id must be whole numbers without gaps")
    return pairs.of_ids(images.astype(np.int64), captions.astype(np.int64), what)


def _read_probabilities(table: pa.Table, pairs: Pairs) -> tuple[IntArray, FloatArray]:
    """Numbers of the pairs of a table and their probabilities, checked."""
    PairValues(table, "probability", "probabilities")  # columns, types and values, every pair once
    return _read_pairs(table, pairs, "probabilities"), np.asarray(table["probability"], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Known:
    """What sources say of pairs."""

    judged: IntArray  # ascending pairs that any of them judged, whatever it said
    positive: Mapping[str, IntArray]  # name of each source to the ascending pairs that it calls positive

    def flag(self, pairs: IntArray) -> NDArray[np.bool_]:
        """(P, S) whether each source calls a pair positive."""
        return np.stack([holds(positive, pairs) for positive in self.positive.values()], axis=1)


def _find_known(library: Library, split: str, pairs: Pairs, sources: Sequence[str] | None) -> _Known:
    """What sources say of a pair in either direction."""
    every = sources_of(library)
    names = [name for name, own in every.items() if own.official] if sources is None else list(sources)
    judged, positive = [], {name: [np.empty(0, np.int64)] for name in names}
    for direction in CROSS_MODAL:
        merged = merge(library, split, direction, sources=names)
        numbers = pairs.number(*((merged.queries, merged.items)[:: 1 if direction == "i2t" else -1]))
        judged.append(numbers)
        for column, name in enumerate(merged.sources):
            positive[name].append(numbers[merged.said_positive[:, column]])
    return _Known(
        distinct_of(np.concatenate(judged)),
        {name: distinct_of(np.concatenate(found)) for name, found in positive.items()},
    )


def _count(every: IntArray, entries: Entries, known: _Known, before: IntArray, pool: Pool) -> dict[str, int]:
    """What became of all pairs that were chosen, each of which is in one of the last four."""
    judged = holds(known.judged, every)
    n_positive = int(known.flag(every).any(axis=1).sum())
    return {
        "proposed": entries.pairs.size + every.size - distinct_of(entries.pairs).size,
        "distinct": every.size,
        "known_positive": n_positive,
        "judged_negative": int(judged.sum()) - n_positive,
        "asked_before": int((holds(before, every) & ~judged).sum()),
        "open": int(pool.is_open(every).sum()),
    }


def _cut(chosen: Chosen, pool: Pool) -> tuple[IntArray, FloatArray | None]:
    """The open pairs that fill the budget, in the order in which they are asked about, and their priorities."""
    rows = np.flatnonzero(pool.is_open(chosen.pairs))
    if chosen.priority is None:
        return chosen.pairs[rows[: pool.budget]], None
    rows = pool.random.permutation(rows)
    rows = rows[np.argsort(-chosen.priority[rows], kind="stable")][: pool.budget]
    return chosen.pairs[rows], chosen.priority[rows]


def _tabulate(
    pairs: IntArray, priority: FloatArray | None, entries: Entries, pool: Pool, strategy: str, known: _Known
) -> pa.Table:
    order = np.argsort(pairs)
    own = entries.only(holds(pairs[order], entries.pairs))
    rows = order[np.searchsorted(pairs[order], own.pairs)]
    sequence = np.lexsort((own.ranks, own.directions, own.models, rows))
    said = pa.StructArray.from_arrays(
        [
            pa.array(list(pool.runs), pa.string()).take(pa.array(own.models[sequence])),
            pa.array(DIRECTIONS, pa.string()).take(pa.array(own.directions[sequence])),
            pa.array(own.ranks[sequence], pa.int32()),
        ],
        fields=list(PROPOSAL),
    )
    flags = known.flag(pairs)
    named = pa.array(list(known.positive), pa.string()).take(pa.array(np.nonzero(flags)[1]))
    image_ids, caption_ids = pool.pairs.ids(pairs)
    columns = [
        pa.array(image_ids),
        pa.array(caption_ids),
        _make_lists(np.bincount(rows, minlength=pairs.size), said),
        pa.array([strategy] * pairs.size, pa.string()),
        pa.nulls(pairs.size, pa.float64()) if priority is None else pa.array(priority),
        _make_lists(flags.sum(axis=1), named),
    ]
    return pa.table(columns, schema=CANDIDATES)


def _make_lists(lengths: IntArray, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), values)


def _describe(pool: Pool, strategy: Strategy, seed: int) -> dict[str, Any]:
    """What was chosen from, and how; a model is known by what it retrieved, from whatever file."""
    options: dict[str, Any] = {"budget": pool.budget, "depth": pool.depth if strategy.depth else None, "seed": seed}
    options["sources"] = list(pool.sources)
    if "queries" in strategy.takes:
        options["queries"] = dict(zip(SIDES, (rows.size for rows in pool.queries), strict=True))
    options |= {name: getattr(pool, name) for name in ("metric", "threshold") if name in strategy.takes}
    if pool.classifier is not None:
        options["classifier"] = dict(pool.classifier.facts)
    if pool.probabilities is not None:
        options["probabilities"] = {"pairs": pool.probabilities[0].size, "sha256": _digest(*pool.probabilities)}
    return {
        "strategy": strategy.name,
        "split": pool.split,
        "options": options,
        "models": {
            name: {
                "run": dict(run.facts()),
                "similarity": find_similarity(run),
                "lists": {direction: _digest(lists[:, :NEAR]) for direction, lists in pool.lists[name].items()},
            }
            for name, run in pool.runs.items()
        },
        "near": NEAR,
    }


def _digest(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
