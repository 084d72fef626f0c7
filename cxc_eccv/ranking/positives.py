"""Ranks of all positives of one or several sets of judgments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from cxc_eccv.errors import InvalidOption
from cxc_eccv.ranking.assembly import ranks_of_part
from cxc_eccv.ranking.blocks import Options
from cxc_eccv.ranking.column_readers import can_read_columns
from cxc_eccv.ranking.counting import Counts
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.device_pass import count_on_device
from cxc_eccv.ranking.half_pass import count_within
from cxc_eccv.ranking.passes import count_both, count_one
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.ranking.vectors import similarity_of
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.types import Judgments, PositiveRanks

__all__ = ["Readers", "positive_ranks", "positive_ranks_many"]

CROSS_MODAL = ("i2t", "t2i")

Readers = Mapping[str, Sequence[RowReader]]
"""Direction to what else reads the rows of its scores, one reader or more."""


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
    judgments: Mapping[str, tuple[str, Judgments]],
    *,
    similarity: str | None = None,
    block_size: int | None = None,
    progress: bool = False,
    device: str | None = None,
    readers: Readers = MappingProxyType({}),
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
    similarity = similarity_of(run, similarity)
    if block_size is not None and block_size < 1:
        raise InvalidOption(f"block_size {block_size} is not at least 1")
    counted = _counted(run, _demands(judgments, readers), Options(similarity, block_size, progress, device), readers)
    ranks = {
        name: ranks_of_part(demand, part, counts) for demand, counts in counted for name, part in demand.parts.items()
    }
    return {name: ranks[name] for name in judgments}


def _demands(judgments: Mapping[str, tuple[str, Judgments]], readers: Readers) -> dict[str, Demand]:
    grouped: dict[str, dict[str, Judgments]] = {direction: {} for direction in readers}
    for name, (direction, one) in judgments.items():
        grouped.setdefault(direction, {})[name] = one
    return {direction: Demand.of(group, readers.get(direction, ())) for direction, group in grouped.items()}


def _counted(
    run: EmbeddingsRun, demands: dict[str, Demand], options: Options, readers: Readers
) -> Iterator[tuple[Demand, Counts]]:
    if options.device is not None:
        for direction, demand in demands.items():
            yield demand, count_on_device(run, direction, demand, options, options.device, readers.get(direction, ()))
        return
    shared = _rows_first({name: demands[name] for name in CROSS_MODAL if name in demands}, readers)
    if shared:
        counts = count_both(run, shared, options, readers)
        yield from ((demands[direction], counts[direction]) for direction in shared)
    for direction, demand in demands.items():
        if direction not in shared:
            count = count_one if direction in CROSS_MODAL else count_within
            yield demand, count(run, direction, demand, options, readers.get(direction, ()))


def _rows_first(demands: dict[str, Demand], readers: Readers) -> dict[str, Demand]:
    """The cross-modal directions that share a product, the one whose queries are rows first.

    A reader that looks deep into its rankings needs them as rows, so that two directions with such readers cannot
    share one. Else the more queries are rows: the blocks of few columns are the quickest to multiply.
    """
    deep = [direction for direction in demands if not all(map(can_read_columns, readers.get(direction, ())))]
    if len(demands) < len(CROSS_MODAL) or len(deep) == len(CROSS_MODAL):
        return {}
    first = deep[0] if deep else max(demands, key=lambda direction: demands[direction].query_ids.size)
    return dict(sorted(demands.items(), key=lambda item: item[0] != first))
