"""Ranks by cosine and the metrics of Lymperaiou et al., 2022, in plain Python."""

import numpy as np


def slow_rank(query, items, place):
    """Rank of the item at a place, one that ties above it."""
    scores = [float(query @ item / np.sqrt((query @ query) * (item @ item))) for item in items]
    return 1 + sum(score >= scores[place] - 1e-9 for other, score in enumerate(scores) if other != place)


def slow_scores(ranks):
    ranks = sorted(ranks)
    half = len(ranks) // 2
    return {
        **{f"recall_at_{k}": sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 5, 10)},
        **{f"mrr_at_{k}": sum(1 / rank for rank in ranks if rank <= k) / len(ranks) for k in (5, 10)},
        "mrr": sum(1 / rank for rank in ranks) / len(ranks),
        "median_rank": ranks[half] if len(ranks) % 2 else (ranks[half - 1] + ranks[half]) / 2,
        "fails": sum(rank > 1 for rank in ranks) / len(ranks),
    }
