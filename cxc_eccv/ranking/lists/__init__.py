"""Given rankings, which have no scores: what is known from positions alone."""

from cxc_eccv.ranking.lists.depth import FAR, GivenRanks, needed_depth, values_at_known_depth
from cxc_eccv.ranking.lists.rank_lists import depths_alone, ranks_from_rankings, read_rankings, rows_of

__all__ = [
    "FAR",
    "GivenRanks",
    "depths_alone",
    "needed_depth",
    "ranks_from_rankings",
    "read_rankings",
    "rows_of",
    "values_at_known_depth",
]
