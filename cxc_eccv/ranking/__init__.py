"""From a run and judgments to the ranks of all positives: exact, blocked, with one tie rule."""

from cxc_eccv.ranking.rank import positive_ranks, positive_ranks_many, ranks_of_run
from cxc_eccv.ranking.sharded.large_gallery import LargeGallery

__all__ = ["LargeGallery", "positive_ranks", "positive_ranks_many", "ranks_of_run"]
