"""Cards: what a reader of a dataset repository sees, computed from the data."""

from cxc_eccv.builders.cards.folder_card import folder_card
from cxc_eccv.builders.cards.statistics import split_statistics

__all__ = ["folder_card", "split_statistics"]
