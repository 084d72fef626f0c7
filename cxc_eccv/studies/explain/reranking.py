"""Adversarial re-ranking: the change of the rank of a query's image when a word of the query is altered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
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
    METRIC_TITLES,
    METRICS,
    choose_positions,
    mean_corpus,
    pair_up,
    score_ranks,
    take_rows,
)
from cxc_eccv.tables import Cell, Table, interval_cell
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


MOVES = ("lower", "higher", "same")
"""Whether right images are ranked lower (worse) than before, higher, or at the same rank."""

OF_MOVES = "moves"
WHOLE = "whole"
ALTERED = "altered"
"""Scopes of changes: ranks and cosines of changed queries, metrics over all queries, and metrics over changed ones."""

TESTED = {(OF_MOVES, "moved"), (OF_MOVES, "cosine"), (WHOLE, "recall_at_1")}
"""Scope and name of the tests of a kind in one direction, whose p-values are corrected."""


@dataclass(frozen=True, slots=True, eq=False)
class Reranking:
    """What altered queries of one model change, by direction and kind of alteration.

    Attributes:
        moves: a row per direction and kind: the number of ``queries``; of ``unchanged`` ones, which have a vector of
            the original's direction and count for nothing else; and how many of the others moved :data:`MOVES`.
        changes: a row per direction, kind, scope and name: ``before``, ``after`` and their ``change``, with ``low`` and
            ``high`` of its interval; ``p_value`` of a two-sided paired test of no change, and ``p_holm``, corrected, of
            those that are tested. The scope ``moves`` has the shares of :data:`MOVES`, the share of lower minus that of
            higher ones (``moved``), and ``cosine``; ``whole`` and ``altered`` have the metrics.
        facts: the file of altered queries and the tests' settings.
    """

    moves: pd.DataFrame
    changes: pd.DataFrame
    facts: Mapping[str, Any]

    def find_changes(self, direction: str, kind: str, scope: str) -> pd.DataFrame:
        """The changes of a direction, a kind and a scope, by name."""
        return self.changes.loc[direction].loc[kind].loc[scope]

    @property
    def scores(self) -> dict[str, float]:
        """Key, such as ``t2i/adversarial/colour_in/lower_share``, to number."""
        scores: dict[str, float] = {}
        for (direction, kind), counts in self.moves.iterrows():
            key = f"{direction}/adversarial/{kind}"
            scores |= {f"{key}/{name}": number for name, number in counts.to_dict().items()}
            of_moves = self.find_changes(direction, kind, OF_MOVES)
            scores |= {f"{key}/{name}_share": float(of_moves.at[name, "after"]) for name in MOVES}
            scores[f"{key}/cosine_change"] = float(of_moves.at["cosine", "change"])
            for scope, prefix in ((WHOLE, ""), (ALTERED, "altered/")):
                for label, change in self.find_changes(direction, kind, scope).to_dict("index").items():
                    scores[f"{key}/{prefix}{label}"] = change["after"]
                    scores[f"{key}/{prefix}{label}_original"] = change["before"]
                    scores[f"{key}/{prefix}{label}_change"] = change["change"]
        return scores

    def list_rows(self) -> list[dict[str, Any]]:
        """The rows of ``explain.json``."""
        rows = []
        for (direction, kind), counts in self.moves.iterrows():
            moves, whole, altered = (
                _drop_untested(self.find_changes(direction, kind, scope)) for scope in (OF_MOVES, WHOLE, ALTERED)
            )
            rows.append(
                {
                    "direction": direction,
                    "kind": kind,
                    **counts.to_dict(),
                    "shares": {name: [moves[name]["after"], moves[name]["low"], moves[name]["high"]] for name in MOVES},
                    "moved": moves["moved"],
                    "cosine": moves["cosine"],
                    "whole": whole,
                    "altered": altered,
                }
            )
        return rows


def _drop_untested(changes: pd.DataFrame) -> dict[str, dict[str, float | None]]:
    """Name to its change, with None as the corrected p-value of what is not tested."""
    rows: dict[str, dict[str, float | None]] = changes.to_dict("index")
    for row in rows.values():
        row["p_holm"] = None if pd.isna(row["p_holm"]) else row["p_holm"]
    return rows


def read_altered(altered: EmbeddingsRun, content_ids: IntArray, width: int) -> dict[str, Embeddings]:
    """Kind to the vectors of its altered queries, by the ids of their original captions."""
    where = altered.path or "the altered queries"
    names = [name.removeprefix(PREFIX) for name in altered.further if name.startswith(PREFIX)]
    queries = {}
    kinds = [name.removesuffix(ENDS[0]).removesuffix(ENDS[1]) for name in names]
    for kind in dict.fromkeys(kinds):
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
    samples = enough_samples(len(TESTED) * len(queries) * len(wanted), LEVEL)
    tests = PairedBootstrap(seed, samples)
    moves = {}
    changes = {}
    for direction in wanted:
        search = _Search(list(_galleries(direction, run, captions, originals.vectors, similarity)), originals)
        for kind, of_kind in queries.items():
            moves[direction, kind], changes[direction, kind] = _move(direction, kind, search, of_kind, tests)
    facts = {"run": to_json(altered.facts()), "confidence": CONFIDENCE, "seed": seed, "samples": samples}
    names = ["direction", "kind"]
    counts = pd.DataFrame(list(moves.values()), index=pd.MultiIndex.from_tuples(moves, names=names))
    return Reranking(counts, _correct(pd.concat(changes, names=names)), facts)


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


def _move(
    direction: str, kind: str, search: _Search, queries: Embeddings, tests: PairedBootstrap
) -> tuple[dict[str, int], pd.DataFrame]:
    """Rank the altered queries of one kind: the counts of moves, and the changes by scope and name."""
    queries, places = _keep_searched(queries, search)
    apart = _differ(queries, search.originals)
    if not apart.any():
        raise InvalidOption(
            f"adversarial {kind}: no altered query has an image to search for in {direction}; choose other directions "
            "with --direction"
        )
    rows = places[apart]  # of the changed queries among all original ones
    ranks, cosines = search.measure(Embeddings(queries.ids[apart], queries.vectors[apart]))
    before = search.ranks[rows]
    images = search.images[rows]
    after = search.ranks.copy()
    after[rows] = ranks
    lower = ranks > before
    higher = ranks < before
    same = ranks == before
    of_moves = tests.compare(
        {
            "lower": _from_zero(lower),
            "higher": _from_zero(higher),
            "same": _from_zero(same),
            "moved": _from_zero(lower.astype(np.float64) - higher),
            "cosine": (search.cosines[rows], cosines),
        },
        images,
    )
    changes = {
        OF_MOVES: of_moves,
        WHOLE: tests.compare_ranks(search.ranks, after, search.sizes, search.images),
        ALTERED: tests.compare_ranks(before, ranks, search.sizes[rows], images),
    }
    counts = {
        "queries": places.size,
        "unchanged": int((~apart).sum()),
        "lower": int(lower.sum()),
        "higher": int(higher.sum()),
        "same": int(same.sum()),
    }
    return counts, pd.concat(changes, names=["scope", "name"])


def _keep_searched(queries: Embeddings, search: _Search) -> tuple[Embeddings, IntArray]:
    """The altered queries whose originals search, gallery by gallery, and the rows of their originals."""
    places, is_searched = find_positions(queries.ids, search.ids)
    rows = np.flatnonzero(is_searched)
    rows = rows[np.argsort(search.numbers[places[rows]], kind="stable")]
    return Embeddings(queries.ids[rows], queries.vectors[rows]), places[rows]


def _from_zero(values: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Values that were 0 before."""
    return np.zeros(values.size), values.astype(np.float64)


@dataclass(frozen=True, slots=True)
class PairedBootstrap:
    """Tests changes by a paired bootstrap over images, with all their queries."""

    seed: int
    samples: int

    def compare(
        self, columns: Mapping[str, tuple[FloatArray, FloatArray]], images: IntArray, *, median: bool = False
    ) -> pd.DataFrame:
        """The change of a mean, or of a median, from the values before and after of queries with these images.

        Returns:
            A row per name, with the columns of :attr:`Reranking.changes`.
        """
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
            low, high = interval(samples, CONFIDENCE)
            changes[name] = {
                "before": before,
                "after": after,
                "change": after - before,
                "low": low,
                "high": high,
                "p_value": two_sided_p_value(samples),
                "p_holm": np.nan,
            }
        return pd.DataFrame.from_dict(changes, orient="index")

    def compare_ranks(self, before: IntArray, after: IntArray, sizes: IntArray, images: IntArray) -> pd.DataFrame:
        """The change of every metric of the paper."""
        rows = np.arange(before.size)
        ones = np.ones_like(before)
        none = np.zeros_like(before)
        originals, altered = (
            score_ranks(
                PositiveRanks(
                    query_ids=rows,
                    indptr=np.arange(rows.size + 1),
                    ranks=best,
                    n_positives=ones,
                    n_gallery=sizes,
                    ties=none,
                )
            )
            for best in (before, after)
        )
        values = {label: (originals[label], altered[label]) for label in METRICS}
        median = {"median_rank": values.pop("median_rank")}
        changes = pd.concat([self.compare(values, images), self.compare(median, images, median=True)])
        changes = changes.loc[list(METRICS)]
        first = changes.loc["recall_at_1"]
        changes.loc["fails"] = {
            "before": 1 - first["before"],
            "after": 1 - first["after"],
            "change": -first["change"],
            "low": -first["high"],
            "high": -first["low"],
            "p_value": first["p_value"],
            "p_holm": np.nan,
        }
        return changes


def _correct(changes: pd.DataFrame) -> pd.DataFrame:
    """Holm's correction over the tests of all directions and kinds: ranks moved, the cosine, R@1 over all queries."""
    is_tested = changes.index.droplevel(["direction", "kind"]).isin(TESTED)
    changes.loc[is_tested, "p_holm"] = holm(changes.loc[is_tested, "p_value"].tolist())
    return changes


def reranking_tables(reranking: Reranking) -> list[Table]:
    """For each direction the paper's Tables 4 and 5, and the tested changes."""
    tables = []
    for direction in reranking.moves.index.unique("direction"):
        tables += _direction_tables(reranking, direction)
    note = (
        f"Brackets: {100 * CONFIDENCE:g}% intervals from a bootstrap over images. Bold: significant at "
        f"{100 * LEVEL:g}% in a paired test, corrected for all {len(TESTED) * len(reranking.moves)} tests (Holm)."
    )
    return [*tables[:-1], replace(tables[-1], notes=[note])]


def _direction_tables(reranking: Reranking, direction: str) -> list[Table]:
    moves = reranking.moves.loc[direction]
    first = reranking.find_changes(direction, moves.index[0], WHOLE)
    ranks: list[list[str | Cell]] = []
    metrics = [["original", *_show_metrics(first["before"])]]
    tested: list[list[str | Cell]] = []
    for kind, counts in moves.iterrows():
        of_moves, whole, altered = (
            reranking.find_changes(direction, kind, scope) for scope in (OF_MOVES, WHOLE, ALTERED)
        )
        title = f"{kind.replace('_', ' ')}{' (control)' if all_kinds()[kind].same_meaning else ''}"
        n_changed = counts["queries"] - counts["unchanged"]
        ranks.append([title, f"{n_changed:,}", f"{counts['unchanged']:,}", *_share_cells(of_moves)])
        metrics.append([title, *_show_metrics(whole["after"])])
        tested.append(
            [
                title,
                _change_cell(whole.loc["recall_at_1"], 100, 2),
                _change_cell(altered.loc["recall_at_1"], 100, 2),
                _change_cell(of_moves.loc["cosine"], 1, 4),
            ]
        )
    titles = [title.replace("median rank", "median") for title in METRIC_TITLES.values()]
    return [
        Table(
            [("kind",), ("queries",), ("unchanged",), ("lower %",), ("higher %",), ("same %",)],
            ranks,
            f"Ranks of altered queries, {direction}",
            "unchanged: queries with the vector of the original",
        ),
        Table(
            [("all queries",), *((title,) for title in titles)],
            metrics,
            f"Metrics with altered queries, {direction}",
            "percent",
        ),
        Table([("change",), ("R@1, all",), ("R@1, altered",), ("cosine",)], tested),
    ]


def _show_metrics(values: pd.Series) -> list[str]:
    return [f"{value:g}" if label == "median_rank" else f"{100 * value:.2f}" for label, value in values.items()]


def _share_cells(changes: pd.DataFrame) -> list[Cell]:
    has_moved = _holds(changes.loc["moved"])
    cells = []
    for name in MOVES:
        share = changes.loc[name]
        bounds = f"[{100 * share['low']:.1f}, {100 * share['high']:.1f}]"
        cells.append(Cell(f"{100 * share['after']:.2f}", interval=bounds, strong=name != "same" and has_moved))
    return cells


def _holds(change: pd.Series) -> bool:
    """Whether a change is significant; one without a corrected p-value is not tested."""
    return bool(change["p_holm"] < LEVEL)


def _change_cell(change: pd.Series, scale: float, digits: int) -> Cell:
    form = f"{{:+.{digits}f}}"
    return interval_cell(change["change"], change["low"], change["high"], form, scale=scale, strong=_holds(change))
