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
that are higher. Under the tie rule, items that tie with a positive rank above it (:mod:`~cxc_eccv.ranking.counts`).

- :mod:`~cxc_eccv.ranking.rank` is the entry point: it merges the judgments of a direction and chooses how to count it.
- :mod:`~cxc_eccv.ranking.scores` has the sources of blocks, and the loop: fill a block, read it in the same thread.
- ``readers`` read blocks: counts of positives whose query is a column (a *bracket* bounds a pair's score until it is
  known), the best items of rows and columns, and plausible matches.
- :mod:`~cxc_eccv.ranking.shared_product` uses one product twice. If too many scores are too close for its brackets
  (:class:`~cxc_eccv.ranking.counts.ScoresTooAlike`), the direction is counted row by row.

A new source is a class with ``height``, ``width``, ``room`` and ``fill``; a new reader has ``attach`` and ``read``.
"""

from cxc_eccv.ranking.large_gallery import LargeGallery
from cxc_eccv.ranking.rank import positive_ranks, ranks_of_run

__all__ = ["LargeGallery", "positive_ranks", "ranks_of_run"]
