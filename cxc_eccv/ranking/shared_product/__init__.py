"""One product that serves twice: both cross-modal directions, or both orders within one modality."""

from cxc_eccv.ranking.shared_product.cross_modal import count_both
from cxc_eccv.ranking.shared_product.within import count_within

__all__ = ["count_both", "count_within"]
