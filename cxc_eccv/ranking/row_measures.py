"""What is measured on whole rows of scores: the best items, and plausible matches among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.judgments.plausible_hits import Look, PlausibleHits
from cxc_eccv.ranking.rank import ranks_of_run
from cxc_eccv.ranking.readers.plausible_rows import PlausibleRows
from cxc_eccv.ranking.readers.top_rows import TopRows
from cxc_eccv.runs import Run
from cxc_eccv.types import Judgments, TopK

__all__ = ["plausible_hits", "top_k"]


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


def plausible_hits(
    run: Run,
    matches: CategoryMatches,
    direction: str,
    looks: Sequence[Look],
    **options: Any,  # noqa: ANN401
) -> PlausibleHits:
    """Plausible matches among the top of every ranking, exact, without sorting or listing them.

    Args:
        run: embeddings, scores or rankings.
        matches: plausible matches of the queries.
        direction: ``i2t`` or ``t2i``.
        looks: zeta and largest depth, or None, of each look.
        **options: ``similarity``, ``block_size`` and ``progress``, as in :func:`positive_ranks_many`.

    Raises:
        MissingIds: the run lacks queries or gallery items.
        RunTooShallow: a given ranking is cut before its query's number of matches.

    Example:
        >>> import numpy as np
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(Embeddings([1], [[1, 0]]), Embeddings([7, 8, 9], [[3, 4], [4, 3], [4, 4]]))
        >>> sets = np.array([[True], [False], [True]])
        >>> matches = CategoryMatches.of(np.array([1]), sets[:1], np.array([7, 8, 9]), sets)
        >>> hits = plausible_hits(run, matches, "i2t", [(0, None), (1, 2)])
        >>> hits.n_matches.tolist(), hits.hits.tolist()
        ([[2, 3]], [[1, 2]])
    """
    reader = PlausibleRows(matches, looks)
    ranks_of_run(run, {}, readers={direction: [reader]}, **options)
    return reader.result
