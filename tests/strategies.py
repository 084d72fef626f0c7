"""Hypothesis strategies: small runs with many ties, and judgments over them."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

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


@st.composite
def judgments_of(draw, run, direction):
    """Judgments over a run's items; with folds, a smaller gallery and unreachable positives at times."""
    sides = {"i": run.images.ids, "t": run.captions.ids}
    queries, gallery = sides[direction[0]], sides[direction[-1]]
    own = direction[0] == direction[-1]
    if draw(st.booleans()):
        gallery = gallery[: draw(st.integers(1, gallery.size))]
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
    """Ranks of the positives of a few queries."""
    rank = st.integers(1, n_gallery)
    rows = draw(st.lists(st.lists(rank, min_size=1, max_size=8, unique=True), min_size=1, max_size=6))
    extra = draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    sizes = [len(row) + more for row, more in zip(rows, extra, strict=True)]
    return PositiveRanks.of([sorted(row) for row in rows], n_positives=sizes, n_gallery=n_gallery)
