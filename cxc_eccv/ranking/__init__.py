"""From a run and judgments to the ranks of all positives: exact, blocked, with one tie rule.

One idea carries the folder: **scores come in blocks of rows, and readers look at each block while it is there.** The
score matrix of a real test split, 25,000 captions by 5,000 images, is never whole in memory; a block is::

              columns: gallery items, sorted by segment, padded to words of eight
              segment 0          | segment 1       | padding
    start  -> 0.31  0.12  0.70 .. | 0.05  0.44 ..   | -inf
    row       0.58  -inf  0.33 .. | 0.20  0.13 ..   | -inf     -inf: the query itself, padding
    stop   -> 0.02  0.66  0.41 .. | 0.39  0.08 ..   | -inf

A *segment* is a largest set of gallery items that all tasks treat alike, so that one pass counts for all of them.
Nothing is sorted: the rank of a positive follows from how many scores of its row are at least as high, and how many are
higher, by the tie rule: an item that ties with a positive counts as ranked above it. All this is
:mod:`~cxc_eccv.ranking.counts`.

- :mod:`~cxc_eccv.ranking.rank` is the front door; it merges the judgments of a direction and chooses how to count it.
- :mod:`~cxc_eccv.ranking.scores` are the sources, each something that fills rows ``start`` to ``stop``, and the only
  loop: fill a block, let it be read by the thread that filled it, go on.
- ``readers`` learn from blocks, beside the counts of positives whose query is a row: counts of those whose query is a
  column (a *bracket* holds a pair's score until it is known); the best of rows and of columns; plausible matches.
- :mod:`~cxc_eccv.ranking.shared_product` counts what one product can serve twice. Where too many scores are alike for
  its brackets (:class:`~cxc_eccv.ranking.counts.ScoresTooAlike`), the direction is counted by row.

A new source is a class with ``height``, ``width``, ``room`` and ``fill``; a new reader has ``attach`` and ``read``.
"""

from cxc_eccv.ranking.large_gallery import LargeGallery
from cxc_eccv.ranking.rank import positive_ranks, positive_ranks_many, ranks_of_run

__all__ = ["LargeGallery", "positive_ranks", "positive_ranks_many", "ranks_of_run"]
