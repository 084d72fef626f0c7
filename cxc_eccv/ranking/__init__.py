"""From a run and judgments to the ranks of all positives: exact, blocked, with one tie rule."""

from cxc_eccv.ranking.large_gallery import LargeGallery
from cxc_eccv.ranking.of_run import ranks_of_run
from cxc_eccv.ranking.positives import positive_ranks, positive_ranks_many

__all__ = ["LargeGallery", "positive_ranks", "positive_ranks_many", "ranks_of_run"]
