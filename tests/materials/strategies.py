"""Hypothesis strategies: small runs with many ties, and judgments over them."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from plain_ranks import sides_of_run

from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, Judgments, PositiveRanks

UNREACHABLE = 999_999
COORDINATES = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 2.0])


@st.composite
def embeddings(draw, first_id=0, largest=12, width=3):
    """Vectors whose products are exact in float32, so that ties do not hang on rounding."""
    count = draw(st.integers(1, largest))
    ids = draw(st.lists(st.integers(first_id, first_id + 10_000), min_size=count, max_size=count, unique=True))
    return Embeddings(ids, draw(arrays.arrays(np.float32, (count, width), elements=COORDINATES)))


@st.composite
def judged_runs(draw, direction="i2t"):
    """A run, and judgments over its items in one direction."""
    run = EmbeddingsRun(draw(embeddings()), draw(embeddings(first_id=50_000)))
    return run, draw(judgments_of(run, direction))


def draw_gallery(draw, run, direction):
    """Ids of the queries, and of the items: all of the run's, or the first ones at times."""
    queries, gallery = (side.ids for side in sides_of_run(run, direction))
    return queries, gallery[: draw(st.integers(1, gallery.size))] if draw(st.booleans()) else gallery


@st.composite
def judgments_of(draw, run, direction):
    """Judgments over a run's items; with folds, a smaller gallery and unreachable positives at times."""
    (queries, gallery), own = draw_gallery(draw, run, direction), direction[0] == direction[-1]
    pairs = [
        (int(query), item)
        for query in queries
        for item in draw(st.lists(st.sampled_from([*gallery.tolist(), UNREACHABLE]), unique=True, max_size=5))
        if not (own and item == query)
    ] or [(int(queries[0]), UNREACHABLE)]
    asked = np.array(sorted({query for query, _ in pairs}))
    folds = {}
    if draw(st.booleans()):
        fold = st.integers(0, 2)
        folds = {
            "query_folds": draw(arrays.arrays(np.int64, asked.size, elements=fold)),
            "gallery_folds": draw(arrays.arrays(np.int64, gallery.size, elements=fold)),
        }
    rows, items = np.array(pairs).T
    return Judgments.from_pairs(asked, gallery, rows, items, without_self=own, **folds)


@st.composite
def ranks(draw, n_gallery=40):
    """Ranks of the positives of a few queries, of which some have none within reach."""
    rank = st.integers(1, n_gallery)
    rows = draw(st.lists(st.lists(rank, max_size=8, unique=True), min_size=1, max_size=6))
    extra = draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    sizes = [max(1, len(row) + more) for row, more in zip(rows, extra, strict=True)]
    return PositiveRanks.of([sorted(row) for row in rows], n_positives=sizes, n_gallery=n_gallery)


@st.composite
def graded_judgments_of(draw, run, direction, gains=(0.0, 0.5, 1.0, 3.5)):
    """Judged items with gains over a run's items; every query has one of positive gain. A smaller gallery at times."""
    (queries, gallery), own = draw_gallery(draw, run, direction), direction[0] == direction[-1]
    rows = []
    for query in queries.tolist():
        items = [item for item in gallery.tolist() if not (own and item == query)]
        judged = draw(st.dictionaries(st.sampled_from(items), st.sampled_from(gains), max_size=5)) if items else {}
        if any(judged.values()):
            rows.append((query, judged))
    assume(rows)
    places = {item: place for place, item in enumerate(gallery.tolist())}
    entries = [sorted((places[item], gain) for item, gain in judged.items()) for _, judged in rows]
    return Judgments(
        np.array([query for query, _ in rows]),
        gallery,
        np.cumsum([0, *map(len, entries)]),
        np.array([place for row in entries for place, _ in row]),
        np.zeros(len(rows)),
        without_self=own,
        gains=np.array([gain for row in entries for _, gain in row]),
    )


@st.composite
def category_matches_of(draw, run, direction):
    """Category sets of a run's items, some of which take no part; every query has a match at zeta 0."""
    queries, gallery = draw_gallery(draw, run, direction)
    sets = draw(arrays.arrays(np.bool_, (gallery.size, 3)))
    own = sets[draw(arrays.arrays(np.int64, queries.size, elements=st.integers(0, gallery.size - 1)))]
    return CategoryMatches.of(queries, own, gallery, sets)
