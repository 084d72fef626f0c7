"""From a run and judgments to the ranks of all positives: exact, blocked, with one tie rule."""

from cxc_eccv.ranking.alignment import missing_modality, sides_of
from cxc_eccv.ranking.positives import positive_ranks, positive_ranks_many

__all__ = ["missing_modality", "positive_ranks", "positive_ranks_many", "sides_of"]
