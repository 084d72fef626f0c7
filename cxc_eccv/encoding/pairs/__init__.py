"""Cross-encoders: pairs to scores, and ranked lists ranked anew."""

from cxc_eccv.encoding.pairs.cross_encoding import rerank, score_pairs

__all__ = ["rerank", "score_pairs"]
