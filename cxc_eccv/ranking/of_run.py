"""Ranks of all positives, whichever form the run has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, singledispatch
from types import MappingProxyType
from typing import Any

from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.ranking.alignment import places_of, sides_of
from cxc_eccv.ranking.from_rankings import ranks_from_rankings
from cxc_eccv.ranking.from_scores import ranks_from_scores
from cxc_eccv.ranking.given import GivenRanks
from cxc_eccv.ranking.positives import Readers, positive_ranks_many
from cxc_eccv.ranking.ranked_rows import read_rankings
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, Run, ScoresRun
from cxc_eccv.types import IntArray, Judgments, PositiveRanks

__all__ = ["ranks_of_run", "refuse_embedding_options"]

Requests = Mapping[str, tuple[str, Judgments]]
NO_READERS: Readers = MappingProxyType({})


@singledispatch
def ranks_of_run(run: object, judgments: Requests, **options: Any) -> Mapping[str, PositiveRanks | GivenRanks]:  # noqa: ANN401
    """Ranks for several sets of judgments.

    Args:
        run: embeddings, scores or rankings.
        judgments: name to direction and judgments.
        **options: of :func:`cxc_eccv.ranking.positives.positive_ranks_many`; scores and rankings take ``readers`` and
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


def refuse_embedding_options(run: Run, **options: Any) -> None:  # noqa: ANN401
    """Refuse options that only embeddings heed.

    Args:
        run: scores or rankings.
        **options: name to value; None is none.

    Raises:
        InvalidOption: names the first.

    Example:
        >>> run = RankingsRun.from_dicts(i2t={1: [7]})
        >>> refuse_embedding_options(run, similarity=None, device="cuda")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: device='cuda' is for embeddings, and this run has rankings; leave it out
    """
    for name, value in options.items():
        if value is not None:
            raise InvalidOption(f"{name}={value!r} is for embeddings, and this run has {run.kind}; leave it out")


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
