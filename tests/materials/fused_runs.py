"""Seeded runs to fuse, cut at different depths: query to item to score, without equal scores."""

import random

WEIGHTS = (0.5, 0.2, 0.3)


def make_runs():
    """Three runs of six queries over 15 items."""
    source = random.Random(0)
    runs = []
    for depth in (4, 7, 15):
        run = {}
        for query in range(100, 106):
            items = source.sample(range(15), depth)
            scores = sorted((source.uniform(-2, 3) for _ in items), reverse=True)
            run[query] = {str(item): score for item, score in zip(items, scores, strict=True)}
        runs.append(run)
    return runs
