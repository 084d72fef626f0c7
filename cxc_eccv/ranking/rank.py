"""Ranks of all positives, whichever form the run has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, singledispatch
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.ranking.by_row import count_by_row, ranks_from_scores
from cxc_eccv.ranking.counts import Counts
from cxc_eccv.ranking.lists import GivenRanks, ranks_from_rankings, read_rankings
from cxc_eccv.ranking.merged_judgments import MergedJudgments
from cxc_eccv.ranking.readers import RowReader, TopRows, can_read_columns
from cxc_eccv.ranking.scan import Options
from cxc_eccv.ranking.scores import places_of, refuse_embedding_options, similarity_of
from cxc_eccv.ranking.shared_product import count_both, count_within
from cxc_eccv.ranking.tie_rule import rank_positives
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, Run, ScoresRun
from cxc_eccv.runs.run import sides_of
from cxc_eccv.types import IntArray, Judgments, PositiveRanks, TopK

__all__ = ["Readers", "positive_ranks", "positive_ranks_many", "ranks_of_run", "top_k"]

CROSS_MODAL = ("i2t", "t2i")

Requests = Mapping[str, tuple[str, Judgments]]
"""Name to direction and judgments."""

Readers = Mapping[str, Sequence[RowReader]]
"""Direction to what else reads the rows of its scores, one reader or more."""

NO_READERS: Readers = MappingProxyType({})


@singledispatch
def ranks_of_run(run: object, judgments: Requests, **options: Any) -> Mapping[str, PositiveRanks | GivenRanks]:  # noqa: ANN401
    """Ranks for several sets of judgments.

    Args:
        run: embeddings, scores or rankings.
        judgments: name to direction and judgments.
        **options: of :func:`cxc_eccv.ranking.rank.positive_ranks_many`; scores and rankings take ``readers`` and
            ``progress`` alone.

    Returns:
        Ranks by name; of a rankings run as far as its rankings tell them.

    Raises:
        MissingIds: the run lacks queries or gallery items.
        InvalidOption: an option of embeddings, and the run has scores or rankings.
        MalformedRun: no run at all.

    Example:
        >>> import numpy as np
        >>> run = ScoresRun(np.array([1]), np.array([7, 8, 9]), np.array([[0.9, 0.1, 0.9]]))
        >>> qrels = Judgments.from_pairs([1], [7, 8, 9], [1], [7])
        >>> ranks_of_run(run, {"task": ("i2t", qrels)})["task"].ranks.tolist()
        [2]
    """
    raise MalformedRun(f"{type(run).__name__} is no run; read a file with load_run, or make a run from arrays or dicts")


@ranks_of_run.register
def _(run: EmbeddingsRun, judgments: Requests, **options: Any) -> Mapping[str, PositiveRanks]:  # noqa: ANN401
    return positive_ranks_many(run, judgments, **options)


@ranks_of_run.register
def _(
    run: ScoresRun,
    judgments: Requests,
    *,
    readers: Readers = NO_READERS,
    progress: bool = False,
    **options: Any,  # noqa: ANN401
) -> Mapping[str, PositiveRanks]:
    refuse_embedding_options(run, **options)
    ranks: dict[str, PositiveRanks] = {}
    for direction in dict.fromkeys([*(direction for direction, _ in judgments.values()), *readers]):
        own = {name: one for name, (other, one) in judgments.items() if other == direction}
        own_readers = readers.get(direction, ())
        query_side, gallery_side = sides_of(direction)
        asking: list[Judgments | RowReader] = [*own.values(), *own_readers]
        for one in asking:
            places_of(one.query_ids, run, query_side)
            places_of(one.gallery_ids, run, gallery_side)
        rows = partial(_score_rows, run.scores if direction == "i2t" else run.scores.T)
        ranks |= ranks_from_scores(rows, run.ids(query_side), run.ids(gallery_side), own, own_readers)
    return {name: ranks[name] for name in judgments}


@ranks_of_run.register
def _(
    run: RankingsRun,
    judgments: Requests,
    *,
    readers: Readers = NO_READERS,
    progress: bool = False,
    **options: Any,  # noqa: ANN401
) -> Mapping[str, GivenRanks]:
    refuse_embedding_options(run, **options)
    for direction, own in readers.items():
        read_rankings(run, direction, own)
    return {name: ranks_from_rankings(run, direction, one) for name, (direction, one) in judgments.items()}


def _score_rows(scores: NDArray[Any], rows: IntArray) -> NDArray[Any]:
    chosen = scores[rows]
    return chosen.astype("float32") if chosen.dtype.itemsize < 4 else chosen


def positive_ranks(
    run: EmbeddingsRun,
    judgments: Judgments,
    direction: str,
    *,
    similarity: str | None = None,
    block_size: int | None = None,
) -> PositiveRanks:
    """Ranks of all positives of every query, exact.

    Args:
        run: vectors of the queries and the gallery; further items are ignored.
        judgments: positives of every query.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        similarity: ``cosine`` or ``dot``; None for what the run is meant for, else cosine.
        block_size: queries that one thread scores at once; None for about 100 MB of scores in all.

    Raises:
        MissingIds: the run lacks queries or gallery items.
        InvalidOption: an option out of range.

    Example:
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(Embeddings([1], [[1, 0]]), Embeddings([7, 8, 9], [[3, 4], [4, 3], [3, 4]]))
        >>> qrels = Judgments.from_pairs([1], [7, 8, 9], [1], [7])
        >>> ranks = positive_ranks(run, qrels, "i2t")
        >>> ranks.ranks.tolist(), ranks.ties.tolist()
        ([3], [1])
    """
    return positive_ranks_many(run, {"": (direction, judgments)}, similarity=similarity, block_size=block_size)[""]


def positive_ranks_many(
    run: EmbeddingsRun,
    judgments: Requests,
    *,
    similarity: str | None = None,
    block_size: int | None = None,
    progress: bool = False,
    device: str | None = None,
    readers: Readers = NO_READERS,
) -> dict[str, PositiveRanks]:
    """Ranks for several sets of judgments; those over the same modalities share one product.

    Args:
        run: vectors of the queries and the gallery; further items are ignored.
        judgments: name to direction and judgments.
        similarity: ``cosine`` or ``dot``; None for what the run is meant for, else cosine.
        block_size: queries that one thread scores at once; None for about 100 MB of scores in all.
        progress: show a bar when standard error is a terminal.
        device: a torch device to score on, for example ``cuda``; None for NumPy on the processor.
        readers: direction to what else reads the rows of its scores.

    Returns:
        Ranks by name, in the given order.

    Raises:
        MissingIds: the run lacks queries or gallery items.
        InvalidOption: an option out of range.
    """
    if block_size is not None and block_size < 1:
        raise InvalidOption(f"block_size {block_size} is not at least 1")
    options = Options(similarity_of(run, similarity), block_size, progress, device)
    merged = _merge(judgments, readers)
    counts = _count(run, merged, options, readers)
    ranks = {
        name: rank_positives(merged[direction], share, counts[direction])
        for direction in merged
        for name, share in merged[direction].shares.items()
    }
    return {name: ranks[name] for name in judgments}


def _merge(judgments: Requests, readers: Readers) -> dict[str, MergedJudgments]:
    grouped: dict[str, dict[str, Judgments]] = {direction: {} for direction in readers}
    for name, (direction, judged) in judgments.items():
        grouped.setdefault(direction, {})[name] = judged
    return {direction: MergedJudgments.of(group, readers.get(direction, ())) for direction, group in grouped.items()}


def _count(
    run: EmbeddingsRun, merged: dict[str, MergedJudgments], options: Options, readers: Readers
) -> dict[str, Counts]:
    counts: dict[str, Counts] = {}
    if options.device is None:
        shared = _rows_first({name: merged[name] for name in CROSS_MODAL if name in merged}, readers)
        if shared:
            counts |= count_both(run, shared, options, readers)
    for direction, judged in merged.items():
        if direction not in counts:
            whole = direction in CROSS_MODAL or options.device is not None
            count = count_by_row if whole else count_within
            counts[direction] = count(run, direction, judged, options, readers.get(direction, ()))
    return counts


def _rows_first(merged: dict[str, MergedJudgments], readers: Readers) -> dict[str, MergedJudgments]:
    """The cross-modal directions that share a product, the one whose queries are rows first.

    A reader that looks too deep into its rankings for columns needs them as rows, so that two directions with such
    readers cannot share one. Else the more queries are rows: the blocks of few columns are the quickest to multiply.
    """
    deep = [direction for direction in merged if not all(map(can_read_columns, readers.get(direction, ())))]
    if len(merged) < len(CROSS_MODAL) or len(deep) == len(CROSS_MODAL):
        return {}
    first = deep[0] if deep else max(merged, key=lambda direction: merged[direction].query_ids.size)
    return dict(sorted(merged.items(), key=lambda item: item[0] != first))


def top_k(run: Run, judgments: Judgments, direction: str, k: int, **options: Any) -> TopK:  # noqa: ANN401
    """The best items of every query, exact, under the pessimistic order.

    Scores go down. Of items with equal scores judged ones without gain stand first, then those that were not judged,
    then the others from the lowest gain; equal ones among these by id.

    Args:
        run: embeddings, scores or rankings.
        judgments: the queries, the gallery, and the gains that order ties; without gains the positives stand last.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``.
        k: depth, at least 1; at most the gallery is returned.
        **options: ``similarity``, ``block_size`` and ``progress``, as in :func:`positive_ranks_many`.

    Raises:
        MissingIds: the run lacks queries or gallery items.
        RunTooShallow: a given ranking holds fewer items.
        InvalidOption: k is not a whole number of at least 1.

    Example:
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(Embeddings([1], [[1, 0]]), Embeddings([7, 8, 9], [[3, 4], [4, 3], [3, 4]]))
        >>> top_k(run, Judgments.from_pairs([1], [7, 8, 9], [1], [7]), "i2t", 3).ids.tolist()
        [[8, 9, 7]]
    """
    reader = TopRows(judgments, k)
    ranks_of_run(run, {}, readers={direction: [reader]}, **options)
    return reader.result
