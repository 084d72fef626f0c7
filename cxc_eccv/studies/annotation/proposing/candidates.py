"""Choose candidates, the pairs that people are asked about, by a strategy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation.policies import PairValues
from cxc_eccv.judgments.evidence import readable_official
from cxc_eccv.judgments.qrels import merge
from cxc_eccv.ranking import ranked
from cxc_eccv.runs import Run
from cxc_eccv.runs.run import whole_ids
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.annotation.proposing.alike import propose_alike
from cxc_eccv.studies.annotation.proposing.pool import (
    CANDIDATES,
    NEAR,
    NONE,
    PROPOSAL,
    Chosen,
    Entries,
    Pairs,
    Pool,
    Proposal,
    Strategy,
)
from cxc_eccv.studies.annotation.proposing.strategies import strategies
from cxc_eccv.studies.entailment.judge import ClassifierJudge
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS, SIDES, FloatArray, IntArray, check_whole, find_positions
from cxc_eccv.types.ids import find_distinct

Queries = tuple[int | ArrayLike | None, int | ArrayLike | None]
"""Number or ids of the images and of the captions that are queries."""


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
    metric: str | None = None,
    sources: Sequence[str] | None = None,
    ask_known: bool = False,
    asked: pa.Table | None = None,
    sides: tuple[str, str] = ("image", "caption"),
    limit: int | None = None,
) -> Proposal:
    """Choose the pairs that people are asked about.

    Each pair is proposed once. Pairs that a source calls positive are listed separately; pairs that a source judged
    negative, for example by a low rating of CxC, and pairs that were asked before are not proposed. The other pairs
    with the highest priority fill the budget, ties at random. Equal scores of a model are ordered by id.

    Args:
        runs: name of each model to its run, on all images and captions of the split, or of its part.
        library: the raw sources.
        split: a split of COCO.
        strategy: a name of :func:`cxc_eccv.studies.annotation.proposing.strategies.strategies`.
        budget: the most candidates; None for all that the strategy proposes.
        depth: items to read from each list; None for the default of the strategy.
        queries: numbers of images and of captions to draw as queries, or their ids; None for all of a side, or as a
            whole for all that any model ranks.
        seed: seed of all draws. Queries depend only on it, so further rounds have the same queries.
        classifier: a classifier of entailment, the judge of ``active``.
        probabilities: a table with ``image_id``, ``caption_id`` and ``probability`` in place of the classifier.
        metric: the number for which ``active`` draws pairs, such as ``coco_5k/t2i/recall_at_1``.
        sources: sources of known labels; None for all official ones.
        ask_known: also ask about pairs that a source calls positive, to measure the precision of sources.
        asked: a table of pairs that were asked before, with ``image_id`` and ``caption_id``.
        sides: kinds of the items of a pair; only ``cxc`` chooses pairs of two images or two captions.
        limit: only the first images by id and their captions, as of ``cxc-eccv encode --limit``; None for all.

    Example:
        >>> from cxc_eccv.ranking import ranked
    from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> library, random = Library("sample"), np.random.default_rng(0)
        >>> content = library.karpathy("test")
        >>> sides = [Embeddings(ids, random.standard_normal((ids.size, 8))) for ids in (content.image_ids,
        ...     content.caption_ids)]
        >>> proposal = propose({"model": EmbeddingsRun(*sides)}, library, budget=20)
        >>> proposal.candidates.num_rows, proposal.candidates["proposals"][0].as_py()[0]["model"]
        (20, 'model')
    """
    options = {"depth": depth, "queries": queries, "classifier": classifier, "probabilities": probabilities}
    chosen_by = _find_strategy(strategy, **options, metric=metric)
    for name, value, least in (("budget", budget, 1), ("depth", depth, 1), ("seed", seed, 0), ("limit", limit, 1)):
        if value is not None:
            check_whole(name, value, least)
    if sides != ("image", "caption"):
        if strategy != "cxc":
            raise InvalidOption(f"strategy {strategy} cannot choose pairs of two {sides[0]}s; give --strategy cxc")
        return propose_alike(
            runs, library, split, limit, sides[0], budget, depth or chosen_by.depth or NEAR, seed, asked
        )
    if limit is not None and metric is not None:
        raise InvalidOption(f"{metric} is a number of the whole split; leave limit (--limit) out")
    pairs = Pairs(library.karpathy(split).first(limit))
    rows = _choose_queries(queries, pairs, chosen_by, seed, runs.values())
    _check_models(chosen_by, runs, rows)
    known = _find_known(library, split, pairs, sources)
    if chosen_by.draws and asked is not None:
        raise InvalidOption(
            f"strategy {strategy} draws from all pairs, so it is a project's first round: start another"
        )
    whole, earlier = Pairs(library.karpathy(split)), CANDIDATES.empty_table() if asked is None else asked
    asked_ids = whole.ids(_read_pairs(earlier, whole, "pairs asked before"))
    within = pairs.holds(*asked_ids)
    before = find_distinct(pairs.of_ids(asked_ids[0][within], asked_ids[1][within], "pairs asked before"))
    judged = known.judged[~known.flag(known.judged).any(axis=1)] if ask_known else known.judged
    closed = before if chosen_by.draws else np.append(judged, before)
    pool = Pool(
        library=library,
        split=split,
        pairs=pairs,
        runs=runs,
        depth=depth or chosen_by.depth or NEAR,
        queries=rows,
        closed=find_distinct(closed),
        sources=tuple(known.positive),
        budget=budget,
        random=np.random.default_rng([seed, len(rows), before.size]),
        classifier=classifier,
        probabilities=None if probabilities is None else _read_probabilities(probabilities, pairs),
        metric=metric or "",
        given_sources=sources,
    )
    chosen, facts = chosen_by.choose(pool), _describe(pool, chosen_by, seed)
    facts["options"] |= {} if limit is None else {"limit": limit}
    facts["options"] |= chosen.facts
    if ask_known:
        facts["options"]["ask_known"] = True
    return _make_proposal(chosen, pool, known, before, facts)


def _make_proposal(chosen: Chosen, pool: Pool, known: _Known, before: IntArray, facts: dict[str, Any]) -> Proposal:
    """Cut the chosen pairs to the budget, and tabulate them with the known positives."""
    every = find_distinct(np.append(chosen.pairs, chosen.entries.pairs))
    candidates, priority = _cut(chosen, pool)
    apart = every[known.flag(every).any(axis=1) & ~np.isin(every, candidates)]
    counts = _count(every, chosen.entries, known, before, pool) | {"candidates": candidates.size}
    strategy = facts["strategy"]
    # Of all images and captions, not only of the queries.
    tops = [lists[:, :NEAR].ravel() for of_model in pool.lists.values() for lists in of_model.values()]
    near = find_distinct(np.concatenate([NONE.pairs, *tops]))
    return Proposal(
        candidates=_tabulate(candidates, priority, chosen.entries, pool, strategy, known),
        known=_tabulate(apart, None, chosen.entries, pool, strategy, known),
        facts=facts | {"counts": counts},
        is_near=lambda image_ids, caption_ids: np.isin(pool.pairs.of_ids(image_ids, caption_ids, "is_near"), near),
    )


def _find_strategy(name: str, **options: object) -> Strategy:
    """The strategy of this name; InvalidOption if it does not take a given option."""
    known = strategies()
    if name not in known:
        raise UnknownName("strategy", name, known)
    strategy = known[name]
    for option, value in options.items():
        if value is not None and option not in (*strategy.takes, "depth" if strategy.depth else ""):
            able = [other.name for other in known.values() if option in other.takes]
            advice = f"; {' and '.join(able)} take{'s' * (len(able) == 1)} it" if 1 <= len(able) <= 2 else ""
            raise InvalidOption(f"strategy {name} does not take {option}{advice}")
    return strategy


def _choose_queries(
    queries: Queries | None, pairs: Pairs, strategy: Strategy, seed: int, runs: Iterable[Run]
) -> tuple[IntArray, IntArray]:
    """Ascending rows of the images and of the captions that are queries."""
    sides = tuple(zip(SIDES, (pairs.image_ids, pairs.caption_ids), strict=True))
    if queries is None:
        able = [way for way in strategy.directions if any(run.why_not(way) is None for run in runs)]
        i2t, t2i = (None if not able or way in able else 0 for way in CROSS_MODAL)
        queries = i2t, t2i
    if not isinstance(queries, tuple | list) or len(queries) != len(sides):
        raise InvalidOption(f"queries {queries!r:.60}: give images and captions, such as (1261, 1333)")
    chosen = []
    for side, (given, (name, ids)) in enumerate(zip(queries, sides, strict=True)):
        if given is None:
            chosen.append(np.arange(ids.size))
        elif isinstance(given, int):
            check_whole(f"queries: number of {name}", given, least=0)
            if given > ids.size:
                raise InvalidOption(f"queries: the split has {ids.size:,} {name}, fewer than {given:,}; draw fewer")
            random = np.random.default_rng([seed, side])
            chosen.append(np.sort(random.choice(ids.size, given, replace=False)))
        else:
            wanted = whole_ids(given, f"queries: {name}").astype(np.int64)
            rows, there = find_positions(wanted, ids)
            if not there.all():
                raise InvalidOption(f"queries: {wanted[~there][0]} is not among the {name} of the split")
            chosen.append(np.unique(rows))
    if strategy.directions == ("i2t",) and chosen[1].size:
        raise InvalidOption(
            f"strategy {strategy.name} takes only images as queries; give no captions: queries=(500, 0), "
            "--queries 500,0"
        )
    if not chosen[0].size + chosen[1].size:
        raise InvalidOption("queries: give at least one image or caption")
    return chosen[0], chosen[1]


def _check_models(strategy: Strategy, runs: Mapping[str, Run], queries: tuple[IntArray, IntArray]) -> None:
    fewest, most = strategy.models
    if len(runs) < fewest or (most is not None and len(runs) > most):
        wanted = f"at least {fewest}" if len(runs) < fewest else f"at most {most}"
        raise InvalidOption(f"strategy {strategy.name} takes {wanted} models; there are {len(runs)}")
    wanted_ways = {way for way, rows in zip(CROSS_MODAL, queries, strict=True) if rows.size}
    for (name, run), direction in product(runs.items(), strategy.directions):
        reason = run.why_not(direction)
        if direction in wanted_ways and reason is not None:
            raise InvalidOption(
                f"{name} does not rank {direction}: {reason}. Leave it out, or use queries of the other side only: "
                "queries=(500, 0), --queries 500,0 for images"
            )


def _read_pairs(table: pa.Table, pairs: Pairs, what: str) -> IntArray:
    images, captions = (np.asarray(table[name]).astype(np.int64) for name in ("image_id", "caption_id"))
    return pairs.of_ids(images, captions, what)


def _read_probabilities(table: pa.Table, pairs: Pairs) -> tuple[IntArray, FloatArray]:
    """Numbers of the pairs of a table, and their probabilities."""
    PairValues(table, "probability", "probabilities")  # checks columns, types, values and repeated pairs
    return _read_pairs(table, pairs, "probabilities"), np.asarray(table["probability"], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Known:
    """The judgments of sources."""

    judged: IntArray  # ascending pairs that any source judged
    positive: Mapping[str, IntArray]  # name of each source to the ascending pairs that it calls positive

    def flag(self, pairs: IntArray) -> NDArray[np.bool_]:
        """(P, S) whether each source calls a pair positive."""
        return np.stack([np.isin(pairs, positive) for positive in self.positive.values()], axis=1)


def _find_known(library: Library, split: str, pairs: Pairs, sources: Sequence[str] | None) -> _Known:
    """The judgments of sources in both directions."""
    names = readable_official(library, split) if sources is None else list(sources)
    judged, positive = [], {name: [np.empty(0, np.int64)] for name in names}
    for direction in CROSS_MODAL:
        merged = merge(library, split, direction, sources=names)
        ids = (merged.query_ids[merged.queries], merged.gallery_ids[merged.items])[:: 1 if direction == "i2t" else -1]
        within = pairs.holds(*ids)
        numbers = pairs.of_ids(ids[0][within], ids[1][within], "judged pairs")
        judged.append(numbers)
        for column, name in enumerate(merged.sources):
            positive[name].append(numbers[merged.said_positive[within, column]])
    return _Known(
        find_distinct(np.concatenate(judged)),
        {name: find_distinct(np.concatenate(parts)) for name, parts in positive.items()},
    )


def _count(every: IntArray, entries: Entries, known: _Known, before: IntArray, pool: Pool) -> dict[str, int]:
    """Counts of the chosen pairs; each distinct pair is in one of the last four."""
    judged = np.isin(every, known.judged)
    n_positive = int(known.flag(every).any(axis=1).sum())
    return {
        "proposed": entries.pairs.size + every.size - find_distinct(entries.pairs).size,
        "distinct": every.size,
        "known_positive": n_positive,
        "judged_negative": int(judged.sum()) - n_positive,
        "asked_before": int((np.isin(every, before) & ~judged).sum()),
        "open": int(pool.is_open(every).sum()),
    }


def _cut(chosen: Chosen, pool: Pool) -> tuple[IntArray, FloatArray | None]:
    """The open pairs within the budget, in the order of asking, and their priorities."""
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
    flags = known.flag(pairs)
    named = pa.array(list(known.positive), pa.string()).take(pa.array(np.nonzero(flags)[1]))
    image_ids, caption_ids = pool.pairs.ids(pairs)
    columns = [
        pa.array(image_ids),
        pa.array(caption_ids),
        _make_lists(np.bincount(rows, minlength=pairs.size), proposals),
        pa.array([strategy] * pairs.size, pa.string()),
        pa.nulls(pairs.size, pa.float64()) if priority is None else pa.array(priority),
        _make_lists(flags.sum(axis=1), named),
    ]
    return pa.table(columns, schema=CANDIDATES)


def _make_lists(lengths: IntArray, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), values)


def _describe(pool: Pool, strategy: Strategy, seed: int) -> dict[str, Any]:
    """The facts of a proposal; hashes of the lists identify a model, whatever its file."""
    options: dict[str, Any] = {"budget": pool.budget, "depth": pool.depth if strategy.depth else None, "seed": seed}
    options["sources"] = list(pool.sources)
    used = pool.library.files_used()
    labels = {file.name: used[key] for key, file in pool.library.label_files.items() if key in used}
    if any(name in pool.sources for name in labels):
        options["labels"] = {name: sha for name, sha in labels.items() if name in pool.sources}
    if "queries" in strategy.takes:
        options["queries"] = dict(zip(SIDES, (rows.size for rows in pool.queries), strict=True))
    if "metric" in strategy.takes:
        options["metric"] = pool.metric
    if pool.classifier is not None:
        options["classifier"] = dict(pool.classifier.facts)
    if pool.probabilities is not None:
        options["probabilities"] = {"pairs": pool.probabilities[0].size, "sha256": _digest(*pool.probabilities)}
    return {
        "strategy": strategy.name,
        "split": pool.split,
        "options": options,
        "searched": _find_searched(pool, strategy),
        "models": {
            name: {
                "run": dict(run.facts()),
                "similarity": ranked(run).scoring["similarity"],
                "lists": {direction: _digest(lists[:, :NEAR]) for direction, lists in pool.lists[name].items()},
            }
            for name, run in pool.runs.items()
        },
        "near": NEAR,
    }


def _find_searched(pool: Pool, strategy: Strategy) -> dict[str, list[int]]:
    """Direction to the ids of the queries whose lists the strategy reads, whether or not it finds open pairs there."""
    if not strategy.depth:
        return {}
    directions = {direction for lists in pool.lists.values() for direction in lists} & set(strategy.directions)
    every = zip(CROSS_MODAL, (pool.pairs.image_ids, pool.pairs.caption_ids), pool.queries, strict=True)
    return {direction: np.sort(ids[rows]).tolist() for direction, ids, rows in every if direction in directions}


def _digest(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)).hexdigest()
