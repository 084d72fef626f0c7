"""Random inputs for the ``evaluate`` modules, by the kind of their metric."""

import numpy as np

from cxc_eccv.metrics.kinds import (
    FailureMetric,
    JudgedMetric,
    PlausibleMetric,
    RankMetric,
    RatedMetric,
    TopMetric,
    WholeMetric,
)

GALLERY = 30
QUERIES = 40


def rankings(seed):
    """Whole rankings and positives."""
    random = np.random.default_rng(seed)
    predictions = [random.permutation(GALLERY).tolist() for _ in range(QUERIES)]
    references = [random.choice(GALLERY, random.integers(1, 7), replace=False).tolist() for _ in range(QUERIES)]
    return {"predictions": predictions, "references": references}


def both_directions(seed):
    """Rankings of which every fourth one is of a caption."""
    return {**rankings(seed), "directions": ["i2t", "i2t", "i2t", "t2i"] * (QUERIES // 4)}


def graded(seed, highest=1):
    """Rankings with judged items and whole-number gains, of each query one above 0 at least."""
    random = np.random.default_rng(seed)
    given = rankings(seed)
    gains = [[highest, *random.integers(0, highest + 1, len(own) - 1).tolist()] for own in given["references"]]
    return {**given, "gains": gains}


def judged(seed):
    """Rankings with judged items and verdicts, of each query a positive at least."""
    given = graded(seed, highest=2)
    verdicts = given.pop("gains")
    return given | {"verdicts": verdicts}


def own_items(seed):
    """Rankings, each query's own items, and the categories of all items; a tenth of the gallery shows none."""
    random = np.random.default_rng(seed)
    images = [random.choice(5, random.integers(1, 4), replace=False).tolist() for _ in range(GALLERY // 3)]
    categories = {item: images[item // 3] if item < GALLERY - 3 else [] for item in range(GALLERY)}
    own = random.integers(0, GALLERY // 3 - 1, QUERIES)
    references = [[3 * image, 3 * image + 2, 3 * image + 1] for image in own.tolist()]
    return {"predictions": rankings(seed)["predictions"], "references": references}, categories


def rated_pairs(seed, n_rows=120):
    """Rated pairs and similarities that follow the ratings."""
    random = np.random.default_rng(seed)
    ratings = random.integers(0, 6, n_rows).astype(float)
    return {
        "predictions": (ratings + random.normal(size=n_rows)).round(1).tolist(),
        "references": ratings.tolist(),
        "query_ids": random.integers(0, 40, n_rows).tolist(),
        "item_ids": list(range(n_rows)),
    }


def shown_concepts(seed, sized=False):
    """What two images show in each row: up to five instances of five concepts, of the ground truth one at least."""
    random = np.random.default_rng(seed)
    columns = {}
    for name, least in (("prediction", 0), ("reference", 1)):
        sizes = random.integers(least, 6, QUERIES).tolist()
        columns[f"{name}s"] = [random.choice(list("abcde"), size).tolist() for size in sizes]
        if sized:
            columns[f"{name}_areas"] = [random.uniform(0.01, 1, size).round(3).tolist() for size in sizes]
    return columns


def similarities(seed):
    """A table of all pairs of these concepts, one order each."""
    values = iter(np.random.default_rng(seed).uniform(size=10).round(3).tolist())
    return {one: {other: next(values) for other in "abcde" if other > one} for one in "abcd"}


def inputs_of(spec, seed):
    """Columns and options of a module."""
    columns, categories = own_items(seed)
    if isinstance(spec, FailureMetric):
        options = {"similarities": similarities(seed)} if spec.of_similarities else {}
        return shown_concepts(seed, sized=spec.of_areas), options
    return {
        RankMetric: (rankings(seed), {"gallery_size": GALLERY}),
        WholeMetric: (both_directions(seed), {}),
        JudgedMetric: (judged(seed), {}),
        TopMetric: (graded(seed), {"gallery_size": GALLERY}),
        PlausibleMetric: (columns, {"categories": categories}),
        RatedMetric: (rated_pairs(seed), {}),
    }[type(spec)]
