"""Computes the exact ranks of all positives from a run and judgments, in blocks, under one tie rule.

**Scores come in blocks of rows, and readers read each block while it is in memory.** The score matrix of a real test
split, 25,000 captions by 5,000 images, is never in memory as a whole. A block is::

              columns: gallery items, sorted by segment, padded to words of eight
              segment 0          | segment 1       | padding
    start  -> 0.31  0.12  0.70 .. | 0.05  0.44 ..   | -inf
    row       0.58  -inf  0.33 .. | 0.20  0.13 ..   | -inf     -inf: the query itself, padding
    stop   -> 0.02  0.66  0.41 .. | 0.39  0.08 ..   | -inf

A *segment* is a maximal set of gallery items that all tasks treat alike, so that one pass counts for all tasks. Nothing
is sorted: the rank of a positive follows from the number of scores in its row that are at least as high, and the number
that are higher. Under the tie rule, items that tie with a positive rank above it (:mod:`~cxc_eccv.ranking.ties`).

- :func:`ranked` chooses an adapter for the kind of run, which answers all that an evaluation asks: from vectors
  (:mod:`~cxc_eccv.ranking.by_vectors`), scores (``by_scores``), or lists that may end early (``by_lists``).
- :mod:`~cxc_eccv.ranking.scores` has the sources of blocks, and the loop: fill a block, read it in the same thread.
- ``readers`` read blocks: counts of positives whose query is a column (a *bracket* bounds a pair's score until it is
  known), the best items of rows and columns, and plausible matches.
- :mod:`~cxc_eccv.ranking.by_vectors` uses one product twice. If too many scores are too close for its brackets
  (:class:`~cxc_eccv.ranking.counts.ScoresTooAlike`), the direction is counted row by row.
- :mod:`~cxc_eccv.ranking.ties` decides every tie.

A new source of blocks is a class of ``Scores``; a new reader has ``attach`` and ``read``.
"""

from cxc_eccv.errors import MalformedRun
from cxc_eccv.ranking.by_lists import ByLists
from cxc_eccv.ranking.by_scores import ByScores
from cxc_eccv.ranking.by_vectors import ByVectors
from cxc_eccv.ranking.large_gallery import LargeGallery, ShardCounts
from cxc_eccv.ranking.ranked import Ranked
from cxc_eccv.ranking.scores import Options
from cxc_eccv.runs import EmbeddingsRun, MatrixRun, Run

__all__ = ["LargeGallery", "Options", "Ranked", "ShardCounts", "ranked"]


def ranked(run: Run, options: Options = Options()) -> Ranked:  # noqa: B008 - frozen
    """What an evaluation asks of a run, whatever its kind.

    Raises:
        MalformedRun: it is not a run.
        InvalidOption: an option is for vectors, and the run has none.

    Example:
        >>> import numpy as np
        >>> from cxc_eccv.runs import ScoresRun
        >>> from cxc_eccv.types import Judgments
        >>> run = ScoresRun(np.array([1]), np.array([7, 8]), np.array([[0.5, 0.25]]))
        >>> ranked(run).rank(Judgments.from_pairs([1], [7, 8], [1], [8]), "i2t").ranks.tolist()
        [2]
    """
    if not isinstance(run, Run):
        raise MalformedRun(
            f"{run!r:.60} is not a run; read a file with load_run, or give dicts or arrays with their ids to evaluate"
        )
    if isinstance(run, EmbeddingsRun):
        return ByVectors(run, options)
    return ByScores(run, options) if isinstance(run, MatrixRun) else ByLists(run, options)
