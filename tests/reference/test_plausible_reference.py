"""PMRP on the real categories: equal to a slow loop at every zeta, and to the eccv_caption package's R-Precision.

Vectors of whole numbers make every score exact. The package breaks ties by the order it is given: tied matches are
handed to it last, as our rule has them. Its own builder of plausible matches (zeta 2, own image left out) is another
metric, so it gets our matches.
"""

from functools import cache

import numpy as np
import pytest
from row_measures import plausible_hits

from cxc_eccv.judgments.plausible import category_matches
from cxc_eccv.metrics.pmrp import pmrp
from cxc_eccv.metrics.pmrp_at_50 import pmrp_at_50
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.reference

ZETAS = (0, 1, 2)
LOOKS = (*((zeta, None) for zeta in ZETAS), (0, 50))
SIDES = {"i2t": ("images", "captions"), "t2i": ("captions", "images")}


@cache
def whole_number_run(library, split):
    random = np.random.default_rng(0)
    ids = library.split(split).images["image_id"].to_numpy(), library.split(split).captions["caption_id"].to_numpy()
    return EmbeddingsRun(*(Embeddings(one, random.integers(-20, 21, (one.size, 12)).astype(float)) for one in ids))


@cache
def matches_and_hits(library, split, direction):
    """Once for all tests of this file: the hits take most of its time."""
    matches = category_matches(library.split(split), direction)
    return matches, plausible_hits(whole_number_run(library, split), matches, direction, LOOKS, similarity="dot")


def category_sets(library, split):
    """Image or caption id to the set of categories, of those that show any."""
    table = library.split(split).categories()
    content = library.split(split)
    of_image = {
        image: frozenset(np.flatnonzero(row).tolist())
        for image, row in zip(table.image_ids.tolist(), table.present, strict=True)
        if row.any()
    }
    pairs = zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True)
    return of_image, {caption: of_image[image] for caption, image in pairs if image in of_image}


def slow_precision(scores, matching, depth):
    """Matches among the top: by score from the highest, of equal ones those that are no matches first."""
    order = np.lexsort((matching, -scores))
    return np.count_nonzero(matching[order[:depth]]) / depth


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_pmrp_equals_a_slow_loop_over_category_sets(real_library, direction, split):
    run = whole_number_run(real_library, split)
    sides = [getattr(run, side) for side in SIDES[direction]]
    sets = category_sets(real_library, split)[:: 1 if direction == "i2t" else -1]
    _, hits = matches_and_hits(real_library, split, direction)
    assert hits.query_ids.tolist() == [one for one in sides[0].ids.tolist() if one in sets[0]]
    assert hits.query_ids.size == {"i2t": 1, "t2i": 5}[direction] * {"test": 4952, "validation": 4948}[split]
    gallery = np.array([place for place, one in enumerate(sides[1].ids.tolist()) if one in sets[1]])
    rows = {query: row for row, query in enumerate(sides[0].ids.tolist())}
    asked = np.random.default_rng(1).choice(hits.query_ids.size, 40, replace=False)
    for place in asked.tolist():
        query = int(hits.query_ids[place])
        scores = sides[1].vectors[gallery].astype(float) @ sides[0].vectors[rows[query]]
        apart = np.array([len(sets[0][query] ^ sets[1][item]) for item in sides[1].ids[gallery].tolist()])
        for look, (zeta, cut) in enumerate(LOOKS):
            matching = apart <= zeta
            assert hits.n_matches[place, look] == matching.sum()
            depth = matching.sum() if cut is None else min(matching.sum(), cut)
            slow = slow_precision(scores, matching, depth)
            assert hits.precision(zeta, cut)[place] == pytest.approx(slow, abs=1e-15)
    np.testing.assert_allclose(pmrp(hits), np.mean([hits.precision(zeta) for zeta in ZETAS], axis=0), rtol=1e-15)
    np.testing.assert_array_equal(pmrp_at_50(hits), hits.precision(0, 50))


@pytest.mark.filterwarnings("ignore:failed to import `ujson`")
@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_r_precision_equals_the_eccv_caption_package(real_library, direction):
    peer = pytest.importorskip("eccv_caption._metrics", reason="the eccv_caption package is not installed")
    run = whole_number_run(real_library, "test")
    sides = [getattr(run, side) for side in SIDES[direction]]
    matches, hits = matches_and_hits(real_library, "test", direction)
    places = {item: place for place, item in enumerate(sides[1].ids.tolist())}
    gallery = np.array([places[item] for item in matches.gallery_ids.tolist()])
    rows = {query: row for row, query in enumerate(sides[0].ids.tolist())}
    for zeta in ZETAS:
        for place in range(0, hits.query_ids.size, hits.query_ids.size // 20):
            matching = matches.distances[matches.query_classes[place]][matches.gallery_classes] <= zeta
            scores = sides[1].vectors[gallery].astype(float) @ sides[0].vectors[rows[int(hits.query_ids[place])]]
            ranked = matches.gallery_ids[np.lexsort((matching, -scores))].tolist()
            theirs = peer.rprecision(ranked, set(matches.gallery_ids[matching].tolist()))
            assert hits.precision(zeta)[place] == pytest.approx(theirs, abs=1e-12)
