"""Slow and plain versions of what the package computes fast: Python loops over dictionaries and lists."""

from itertools import pairwise, permutations

import numpy as np


def score_of(query, item, similarity="cosine"):
    """Similarity of two vectors, from Python floats."""
    query, item = ([float(value) for value in vector] for vector in (query, item))
    product = sum(a * b for a, b in zip(query, item, strict=True))
    if similarity == "dot":
        return product
    lengths = [sum(value * value for value in vector) ** 0.5 for vector in (query, item)]
    return product / (lengths[0] * lengths[1]) if all(lengths) else 0.0


def gallery_of(judgments, query):
    """Ids that a query ranks: its fold, without itself where the judgments say so."""
    gallery = judgments.gallery_ids.tolist()
    if judgments.gallery_folds is not None:
        fold = judgments.query_folds[judgments.query_ids.tolist().index(query)]
        gallery = [item for item, own in zip(gallery, judgments.gallery_folds, strict=True) if own == fold]
    return [item for item in gallery if not (judgments.without_self and item == query)]


def positives_of(judgments):
    """Query id to the set of ids of its positives inside the gallery."""
    return {
        int(query): {int(judgments.gallery_ids[place]) for place in judgments.indices[start:stop]}
        for query, start, stop in zip(judgments.query_ids, judgments.indptr[:-1], judgments.indptr[1:], strict=True)
    }


def gains_of(judgments):
    """For each query, judged item id to gain."""
    rows = [slice(*ends) for ends in pairwise(judgments.indptr)]
    return [
        dict(zip(judgments.gallery_ids[judgments.indices[row]].tolist(), judgments.gains[row].tolist(), strict=True))
        for row in rows
    ]


def ranking(scores, positives):
    """Item ids best first; at equal scores those that are not positive come first.

    Args:
        scores: item id to score, the query's gallery.
        positives: ids.
    """
    return sorted(scores, key=lambda item: (-scores[item], item in positives))


def positive_ranks(ranked, positives):
    """1-based ranks of the positives in a ranked list."""
    return [rank for rank, item in enumerate(ranked, 1) if item in positives]


def ties(scores, positives):
    """Items other than positives whose score equals that of a positive."""
    reached = {scores[item] for item in positives if item in scores}
    return sum(score in reached for item, score in scores.items() if item not in positives)


def recall_at_k(ranked, positives, k):
    return float(any(item in positives for item in ranked[:k]))


def reciprocal_rank(ranked, positives):
    for rank, item in enumerate(ranked, 1):
        if item in positives:
            return 1 / rank
    return 0.0


def best_rank(ranked, positives):
    for rank, item in enumerate(ranked, 1):
        if item in positives:
            return rank
    return len(ranked) + 1


def r_precision(ranked, positives, n_positives):
    return sum(item in positives for item in ranked[:n_positives]) / n_positives


def map_at_r(ranked, positives, n_positives):
    total = 0.0
    for cut in range(1, n_positives + 1):
        if cut <= len(ranked) and ranked[cut - 1] in positives:
            total += sum(item in positives for item in ranked[:cut]) / cut
    return total / n_positives


def values_of(ranked, positives, n_positives):
    """Metric to the value of one query, from its whole ranking."""
    return {
        **{f"recall_at_{k}": recall_at_k(ranked, positives, k) for k in (1, 5, 10)},
        "mean_rank": best_rank(ranked, positives),
        "mrr": reciprocal_rank(ranked, positives),
        "r_precision": r_precision(ranked, positives, n_positives),
        "map_at_r": map_at_r(ranked, positives, n_positives),
    }


def bootstrap_statistics(values, clusters, weights, statistic):
    """The statistic over queries repeated as often as their cluster was drawn, one per row of weights."""
    names = sorted(set(clusters))
    drawn = []
    for row in weights:
        times = dict(zip(names, row, strict=True))
        repeated = [value for value, cluster in zip(values, clusters, strict=True) for _ in range(int(times[cluster]))]
        drawn.append(statistic(repeated))
    return np.array(drawn)


def graded_ranking(scores, gains):
    """Item ids best first; at equal scores items judged without gain, then those not judged, then by gain, then by id.

    Args:
        scores: item id to score, the query's gallery.
        gains: judged item id to gain.
    """

    def level(item):
        return 0 if item not in gains else gains[item] if gains[item] > 0 else -1

    return sorted(scores, key=lambda item: (-scores[item], level(item), item))


def ndcg_at_k(ranked, gains, k):
    def dcg(values):
        return sum(gain / np.log2(rank + 1) for rank, gain in enumerate(values, 1))

    found = [gains.get(item, 0.0) for item in ranked[:k]]
    return dcg(found) / dcg(sorted(gains.values(), reverse=True)[:k])


def graded_recall_at_k(ranked, gains, k):
    return max(gains.get(item, 0.0) for item in ranked[:k])


def graded_r_precision(ranked, gains, unreachable=0):
    n_positives = sum(gain > 0 for gain in gains.values()) + unreachable
    return sum(gains.get(item, 0.0) for item in ranked[:n_positives]) / n_positives


def entail_at_k(ranked, labels, k, unjudged):
    """None where no value is defined."""
    top = ranked[:k]
    if unjudged == "leave_out":
        top = [item for item in top if item in labels]
    if callable(unjudged):
        labels = {item: labels.get(item, unjudged(item)) for item in top}
    return sum(labels.get(item, 0) for item in top) / len(top) if top else None


def plausible_precision(scores, distances, zeta, cut=None):
    """Fraction of matches among the top min(R, cut), by a sort.

    Args:
        scores: item id to score.
        distances: item id to the number of categories in which it differs from the query.
    """
    matches = {item for item in scores if distances[item] <= zeta}
    depth = len(matches) if cut is None else min(len(matches), cut)
    return sum(item in matches for item in ranking(scores, matches)[:depth]) / depth


def matchings(left, right):
    """Every way to give each member of the smaller side a partner of its own, as lists of (left, right)."""
    if len(left) <= len(right):
        return [list(zip(left, chosen, strict=True)) for chosen in permutations(right, len(left))]
    return [[(one, other) for other, one in pairs] for pairs in matchings(right, left)]


def concept_agreement(truth, shown):
    return sum(concept in shown for concept in truth) / len(truth)


def non_common_similarity(truth, shown, similarity):
    """Mean over the best of all matchings; None where one side has nothing of its own."""
    left = [concept for concept in truth if concept not in shown]
    right = [concept for concept in shown if concept not in truth]
    if not left or not right:
        return None
    sums = [sum(similarity(*pair) for pair in pairs) for pairs in matchings(left, right)]
    return max(sums) / min(len(left), len(right))


def concept_enumeration(truth, shown):
    return float(sum(abs(len(truth[concept]) - len(shown[concept])) for concept in truth if concept in shown))


def area_difference(truth, retrieved, relative_to):
    difference = abs(truth - retrieved)
    return difference / {"truth": truth, "smaller": min(truth, retrieved), "image": 1}[relative_to]


def size_disagreement(truth, shown, relative_to="smaller", threshold=1.0):
    """Of all matchings the one of the smallest sum and then of the fewest large differences; None without any."""
    share = 0
    total = 0.0
    matched = 0
    for concept in truth:
        if concept not in shown:
            continue
        found = []
        for pairs in matchings(list(truth[concept]), list(shown[concept])):
            differences = [area_difference(*pair, relative_to) for pair in pairs]
            large = 0 if threshold is None else sum(one >= threshold for one in differences)
            found.append((round(sum(differences), 9), large, len(pairs)))
        smallest, large, size = min(found)
        share = share + large
        total = total + smallest / size
        matched = matched + size
    if not matched:
        return None
    return total if threshold is None else share / matched
