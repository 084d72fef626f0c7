"""Cards: what a reader of a dataset repository sees, computed from the data."""

from cxc_eccv.builders.cards.readme import folder_card
from cxc_eccv.builders.cards.statistics import split_statistics

__all__ = ["folder_card", "split_statistics"]
