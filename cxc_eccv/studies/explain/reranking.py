"""Adversarial re-ranking: the change of the rank of a query's image when a word of the query is altered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MalformedRun, UnknownIds, UnknownName
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.scores import refuse_zero_vectors, to_unit_length
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.embeddings import read_side
from cxc_eccv.sources.library import Split
from cxc_eccv.statistics import ClusterBootstrap, draw_batches, enough_samples, holm, interval, two_sided_p_value
from cxc_eccv.studies.explain.altering import all_kinds
from cxc_eccv.studies.explain.caption_corpus import (
    CONFIDENCE,
    METRICS,
    TITLES,
    choose_positions,
    mean_corpus,
    pair_up,
    score_ranks,
    take_rows,
)
from cxc_eccv.tables import Cell, Table
from cxc_eccv.types import Embeddings, FloatArray, IntArray, Judgments, PositiveRanks, RatedPairs, find_positions
from cxc_eccv.types.ids import find_distinct
from cxc_eccv.types.json_records import to_json

TEXT_QUERIES = ("t2i", "t2t")
"""Captions that search images, and captions that search images represented by the mean of their other captions."""

PREFIX = "adversarial_"
ENDS = ("_ids", "_embeddings")

ROUNDING = 1e-5
"""Unit vectors within this distance count as equal: batches differ in the last digits."""

LEVEL = 0.05
TESTS = 3
"""Tests of a kind in one direction: ranks moved, the cosine to the right image, R@1 over all queries."""


@dataclass(frozen=True, slots=True)
class Change:
    """A number with the original and with the altered queries, and the interval of its change.

    The p-value is of a two-sided paired test of no change; ``p_holm`` is corrected, or None if there is no test.
    """

    before: float
    after: float
    change: float
    low: float
    high: float
    p_value: float
    p_holm: float | None = None


@dataclass(frozen=True, slots=True)
class KindMoves:
    """The effect of one kind of alteration in one direction.

    ``unchanged`` queries have a vector of the original's direction and count for nothing else here; the right images of
    ``lower`` ones are ranked lower (worse) than before. ``shares`` has their shares with both bounds; ``moved`` is the
    share of lower minus that of higher ones; ``whole`` are metrics over all queries, ``altered`` over changed ones.
    """

    direction: str
    kind: str
    queries: int
    unchanged: int
    lower: int
    higher: int
    same: int
    shares: Mapping[str, tuple[float, float, float]]
    moved: Change
    cosine: Change
    whole: Mapping[str, Change]
    altered: Mapping[str, Change]

    @property
    def scores(self) -> dict[str, float]:
        """Key, such as ``t2i/adversarial/colour_in/lower_share``, to number."""
        scores: dict[str, float] = {name: getattr(self, name) for name in ("queries", "unchanged", *self.shares)}
        scores |= {f"{name}_share": share for name, (share, _, _) in self.shares.items()}
        scores["cosine_change"] = self.cosine.change
        for scope, changes in (("", self.whole), ("altered/", self.altered)):
            for label, change in changes.items():
                scores[f"{scope}{label}"], scores[f"{scope}{label}_original"] = change.after, change.before
                scores[f"{scope}{label}_change"] = change.change
        return {f"{self.direction}/adversarial/{self.kind}/{name}": value for name, value in scores.items()}


@dataclass(frozen=True, slots=True)
class Reranking:
    """All kinds and directions of one model; ``facts`` has the file of altered queries and the tests' settings."""

    rows: tuple[KindMoves, ...]
    facts: Mapping[str, Any]

    @property
    def scores(self) -> dict[str, float]:
        """All keys of :attr:`KindMoves.scores`."""
        return {key: value for row in self.rows for key, value in row.scores.items()}


def read_altered(altered: EmbeddingsRun, content_ids: IntArray, width: int) -> dict[str, Embeddings]:
    """Kind to the vectors of its altered queries, by the ids of their original captions."""
    where = altered.path or "the altered queries"
    names = [name.removeprefix(PREFIX) for name in altered.further if name.startswith(PREFIX)]
    queries = {}
    for kind in dict.fromkeys(name.removesuffix(ENDS[0]).removesuffix(ENDS[1]) for name in names):
        if kind not in all_kinds():
            raise UnknownName(f"kind of altered queries ({where})", kind, all_kinds())
        side = read_side(where, altered.further, *(f"{PREFIX}{kind}{end}" for end in ENDS))
        assert side is not None  # noqa: S101 - one of its two arrays exists
        unknown = side.ids[~find_positions(side.ids, content_ids)[1]]
        if unknown.size:
            raise UnknownIds(
                f"{where}, {PREFIX}{kind}{ENDS[0]}: {unknown.size} of {side.ids.size} captions are not in the split, "
                f"the first: {unknown[0]}. Give the split that they were made from, with --split."
            )
        if side.vectors.shape[1] != width:
            raise MalformedRun(
                f"{where}, {PREFIX}{kind}{ENDS[1]}: vectors have {side.vectors.shape[1]} dimensions, the model's have "
                f"{width}. Encode both with one model."
            )
        nowhere = side.ids[~side.vectors.any(axis=1)]
        refuse_zero_vectors(nowhere, side.ids.size, f"altered queries ({kind})", where, by_dot=False)
        queries[kind] = side
    if not queries:
        raise MalformedRun(
            f"{where} has no altered queries (adversarial_<kind>_ids with adversarial_<kind>_embeddings); encode "
            "the rows of the config adversarial with the same model"
        )
    return queries


def rerank(
    run: Run,
    altered: EmbeddingsRun,
    split: Split,
    *,
    directions: Sequence[str] | None = None,
    similarity: str | None = None,
    seed: int = 0,
) -> Reranking:
    """Rank a model's altered queries in place of the originals, and measure the change.

    In ``t2i`` a caption searches the images of the split. In ``t2t``, for models of texts, it searches images that are
    represented by the mean of their other captions, as in ``query_corpus``, each position by itself. Only queries
    whose vector differs from their original's count as altered, as in the paper (Lymperaiou et al., COLING 2022,
    sections 5 and 6.4, Tables 4 and 5). ``similarity`` is used in ``t2i``; ``t2t`` uses the cosine.
    """
    captions = split.captions
    run, originals, queries, wanted = check_altered(run, altered, captions, directions)
    samples = enough_samples(TESTS * len(queries) * len(wanted), LEVEL)
    tests = PairedBootstrap(seed, samples)
    rows = []
    for direction in wanted:
        search = _Search(list(_galleries(direction, run, captions, originals.vectors, similarity)), originals)
        rows += [_move(direction, kind, search, of_kind, tests) for kind, of_kind in queries.items()]
    facts = {"run": to_json(altered.facts()), "confidence": CONFIDENCE, "seed": seed, "samples": samples}
    return Reranking(_correct(rows), facts)


def check_altered(
    run: Run, altered: EmbeddingsRun, captions: pa.Table, directions: Sequence[str] | None = None
) -> tuple[EmbeddingsRun, Embeddings, dict[str, Embeddings], list[str]]:
    """Check the arguments of ``rerank``; return the run, the vectors of captions and altered ones, and directions."""
    vectors = run.as_embeddings()
    if vectors is None or vectors.captions is None:
        raise InvalidOption("altered queries need vectors: give a file with embeddings of the captions")
    if vectors.roles:
        raise InvalidOption(
            f"{run.path or 'the run'} has {' and '.join(f'{name}_embeddings' for name in sorted(vectors.roles))}: the "
            "role of altered queries is not known. Encode captions and altered queries with one prompt "
            "(--caption-prompt, or {} for none)"
        )
    for what in ("model", "similarity"):
        expected = getattr(vectors, what)
        actual = getattr(altered, what)
        if expected and actual and expected != actual:
            raise InvalidOption(
                f"{altered.path or 'the altered queries'}: their {what} is {actual}, but that of "
                f"{run.path or 'the run'} is {expected}. Encode both with one model."
            )
    ids = np.asarray(captions["caption_id"], dtype=np.int64)
    originals = Embeddings(ids, take_rows(vectors.captions, ids, run.path or "the run"))
    queries = read_altered(altered, ids, originals.vectors.shape[1])
    for kind, of_kind in queries.items():
        if not _differ(of_kind, originals).any():
            raise InvalidOption(
                f"adversarial {kind}: all {of_kind.ids.size} altered queries have the vectors of their originals; "
                "encode the altered sentences"
            )
    return vectors, originals, queries, _choose(directions, vectors)


def _differ(queries: Embeddings, originals: Embeddings) -> NDArray[np.bool_]:
    """(Q,) whether altered queries differ in direction from their originals; lengths are ignored."""
    before = originals.vectors[find_positions(queries.ids, originals.ids)[0]]
    apart = np.linalg.norm(to_unit_length(queries.vectors) - to_unit_length(before), axis=1)
    return np.asarray(apart > ROUNDING)


def _choose(directions: Sequence[str] | None, run: EmbeddingsRun) -> list[str]:
    """The directions to rank in, among those with captions as queries."""
    why = run.why_not("t2i")
    if directions is None:
        return [name for name in TEXT_QUERIES if why is None or name != "t2i"]
    wanted = [name for name in TEXT_QUERIES if name in directions]
    if "t2i" in wanted and why is not None:
        raise InvalidOption(f"altered queries cannot be ranked in t2i: {why}")
    if not wanted:
        raise InvalidOption(f"altered queries are captions: choose among the directions {' and '.join(TEXT_QUERIES)}")
    return wanted


class _Gallery(NamedTuple):
    """Queries, the image of each, and the items they search."""

    query_ids: IntArray
    truth_ids: IntArray
    items: Embeddings
    similarity: str


def _galleries(
    direction: str, run: EmbeddingsRun, captions: pa.Table, vectors: NDArray[np.float32], similarity: str | None
) -> Iterator[_Gallery]:
    """Yield what captions search: all images, or for each position of a query the means of the other captions."""
    ids, owners = (np.asarray(captions[name], dtype=np.int64) for name in ("caption_id", "image_id"))
    if direction == "t2i" and run.images is not None:
        images = find_distinct(owners)
        items = Embeddings(images, take_rows(run.images, images, run.path or "the run", "images"))
        yield _Gallery(ids, owners, items, run.choose_similarity(similarity))
        return
    corpus = mean_corpus(vectors)
    for position in choose_positions("all", owners):
        pairing = pair_up(owners, position)
        yield _Gallery(ids[pairing.queries], pairing.image_ids, corpus(pairing), "cosine")


class _Search:
    """All original queries of one direction with their ids, images, and the ranks and cosines of these."""

    def __init__(self, galleries: Sequence[_Gallery], originals: Embeddings) -> None:
        self.galleries = galleries
        self.ids = np.concatenate([gallery.query_ids for gallery in galleries])
        self.images = np.concatenate([gallery.truth_ids for gallery in galleries])
        counts = [gallery.query_ids.size for gallery in galleries]
        self.numbers = np.repeat(np.arange(len(galleries)), counts)
        self.sizes = np.repeat([gallery.items.ids.size for gallery in galleries], counts)
        self.originals = Embeddings(self.ids, originals.vectors[find_positions(self.ids, originals.ids)[0]])
        self.ranks, self.cosines = self.measure(self.originals)

    def measure(self, queries: Embeddings) -> tuple[IntArray, FloatArray]:
        """(Q,) ranks of the right images of some queries with the given vectors, and their cosines."""
        ranks = np.zeros(queries.ids.size, dtype=np.int64)
        cosines = np.zeros(queries.ids.size)
        for gallery in self.galleries:
            places, here = find_positions(queries.ids, gallery.query_ids)
            if here.any():
                part = Embeddings(queries.ids[here], queries.vectors[here])
                truths = gallery.truth_ids[places[here]]
                run = EmbeddingsRun(gallery.items, part)
                items = gallery.items.ids
                judgments = Judgments.from_pairs(part.ids, items, part.ids, truths)
                ranks[here] = ranked(run, Options(gallery.similarity)).rank(judgments, "t2i").best
                rated = RatedPairs(part.ids, truths, np.zeros(truths.size))
                cosines[here] = ranked(run, Options("cosine")).compare(rated, "t2i")
        return ranks, cosines


def _move(direction: str, kind: str, search: _Search, queries: Embeddings, tests: PairedBootstrap) -> KindMoves:
    """Rank the altered queries of one kind, and compare them with their originals."""
    places, known = find_positions(queries.ids, search.ids)
    ranked = np.flatnonzero(known)
    ranked = ranked[np.argsort(search.numbers[places[ranked]], kind="stable")]
    queries = Embeddings(queries.ids[ranked], queries.vectors[ranked])
    places = places[ranked]
    apart = _differ(queries, search.originals)
    if not apart.any():
        raise InvalidOption(
            f"adversarial {kind}: no altered query has an image to search for in {direction}; choose other directions "
            "with --direction"
        )
    places = places[apart]
    ranks, cosines = search.measure(Embeddings(queries.ids[apart], queries.vectors[apart]))
    before = search.ranks[places]
    images = search.images[places]
    after = search.ranks.copy()
    after[places] = ranks
    nothing = np.zeros(ranks.size)
    moves = {"lower": ranks > before, "higher": ranks < before, "same": ranks == before}
    columns = {name: (nothing, moved.astype(np.float64)) for name, moved in moves.items()}
    columns |= {
        "moved": (nothing, columns["lower"][1] - columns["higher"][1]),
        "cosine": (search.cosines[places], cosines),
    }
    changes = tests.compare(columns, images)
    return KindMoves(
        direction,
        kind,
        ranked.size,
        int((~apart).sum()),
        **{name: int(moved.sum()) for name, moved in moves.items()},
        shares={name: (changes[name].after, changes[name].low, changes[name].high) for name in moves},
        moved=changes["moved"],
        cosine=changes["cosine"],
        whole=tests.compare_ranks(search.ranks, after, search.sizes, search.images),
        altered=tests.compare_ranks(before, ranks, search.sizes[places], images),
    )


@dataclass(frozen=True, slots=True)
class PairedBootstrap:
    """Tests changes by a paired bootstrap over images, with all their queries."""

    seed: int
    samples: int

    def compare(
        self, columns: Mapping[str, tuple[FloatArray, FloatArray]], images: IntArray, *, median: bool = False
    ) -> dict[str, Change]:
        """The change of a mean, or of a median, from the values before and after of queries with these images."""
        batches = []
        for draws in draw_batches(self.seed, self.samples):
            bootstrap = ClusterBootstrap(images, draws)
            if median:
                drawn = [bootstrap.medians(after) - bootstrap.medians(before) for before, after in columns.values()]
            else:
                drawn = [*bootstrap.means(np.stack([after - before for before, after in columns.values()], axis=1))]
            batches.append(np.stack(drawn))
        changes = {}
        for (name, both), samples in zip(columns.items(), np.concatenate(batches, axis=1), strict=True):
            before, after = (float(np.median(values) if median else values.mean()) for values in both)
            bounds = interval(samples, CONFIDENCE)
            changes[name] = Change(before, after, after - before, *bounds, two_sided_p_value(samples))
        return changes

    def compare_ranks(self, before: IntArray, after: IntArray, sizes: IntArray, images: IntArray) -> dict[str, Change]:
        """The change of every metric of the paper."""
        rows = np.arange(before.size)
        ones = np.ones_like(before)
        none = np.zeros_like(before)
        originals, altered = (
            score_ranks(PositiveRanks(rows, np.arange(rows.size + 1), best, ones, sizes, none))
            for best in (before, after)
        )
        values = {label: (originals[label], altered[label]) for label in METRICS}
        median = {"median_rank": values.pop("median_rank")}
        changes = self.compare(values, images) | self.compare(median, images, median=True)
        first = changes["recall_at_1"]
        fails = Change(1 - first.before, 1 - first.after, -first.change, -first.high, -first.low, first.p_value)
        return {**{label: changes[label] for label in METRICS}, "fails": fails}


def _correct(rows: Sequence[KindMoves]) -> tuple[KindMoves, ...]:
    """Holm's correction over the tests of all rows: ranks moved, the cosine, R@1 over all queries."""
    tested = [(row.moved, row.cosine, row.whole["recall_at_1"]) for row in rows]
    p_values = iter(holm([change.p_value for changes in tested for change in changes]))
    corrected = []
    for row, changes in zip(rows, tested, strict=True):
        moved, cosine, recall = (replace(change, p_holm=next(p_values)) for change in changes)
        corrected.append(replace(row, moved=moved, cosine=cosine, whole={**row.whole, "recall_at_1": recall}))
    return tuple(corrected)


def reranking_tables(reranking: Reranking) -> list[Table]:
    """For each direction the paper's Tables 4 and 5, and the tested changes."""
    directions = dict.fromkeys(row.direction for row in reranking.rows)
    rows = [[row for row in reranking.rows if row.direction == direction] for direction in directions]
    tables = [table for of_direction in rows for table in _direction_tables(of_direction)]
    note = (
        f"Brackets: {100 * CONFIDENCE:g}% intervals from a bootstrap over images. Bold: significant at "
        f"{100 * LEVEL:g}% in a paired test, corrected for all {TESTS * len(reranking.rows)} tests (Holm)."
    )
    return [*tables[:-1], replace(tables[-1], notes=[note])]


def _direction_tables(rows: Sequence[KindMoves]) -> list[Table]:
    direction = rows[0].direction
    titles = [title.replace("median rank", "median") for title in TITLES.values()]
    original = ["original", *(_show(label, change.before) for label, change in rows[0].whole.items())]
    altered = [[_title(row), *(_show(label, change.after) for label, change in row.whole.items())] for row in rows]
    changes: list[list[str | Cell]] = [
        [
            _title(row),
            _change_cell(row.whole["recall_at_1"], 100, 2),
            _change_cell(row.altered["recall_at_1"], 100, 2),
            _change_cell(row.cosine, 1, 4),
        ]
        for row in rows
    ]
    return [
        Table(
            [("kind",), ("queries",), ("unchanged",), ("lower %",), ("higher %",), ("same %",)],
            [
                [_title(row), f"{row.queries - row.unchanged:,}", f"{row.unchanged:,}", *_share_cells(row)]
                for row in rows
            ],
            f"Ranks of altered queries, {direction}",
            "unchanged: queries with the vector of the original",
        ),
        Table(
            [("all queries",), *((title,) for title in titles)],
            [original, *altered],
            f"Metrics with altered queries, {direction}",
            "percent",
        ),
        Table([("change",), ("R@1, all",), ("R@1, altered",), ("cosine",)], changes),
    ]


def _title(row: KindMoves) -> str:
    return f"{row.kind.replace('_', ' ')}{' (control)' if all_kinds()[row.kind].same_meaning else ''}"


def _share_cells(row: KindMoves) -> list[Cell]:
    cells = []
    for name, (share, low, high) in row.shares.items():
        strong = name != "same" and _holds(row.moved)
        cells.append(Cell(f"{100 * share:.2f}", interval=f"[{100 * low:.1f}, {100 * high:.1f}]", strong=strong))
    return cells


def _holds(change: Change) -> bool:
    return change.p_holm is not None and change.p_holm < LEVEL


def _show(label: str, value: float) -> str:
    return f"{value:g}" if label == "median_rank" else f"{100 * value:.2f}"


def _change_cell(change: Change, scale: float, digits: int) -> Cell:
    text, low, high = (f"{scale * value:+.{digits}f}" for value in (change.change, change.low, change.high))
    return Cell(text, interval=f"[{low}, {high}]", strong=_holds(change))
