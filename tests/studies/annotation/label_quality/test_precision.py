"""Precision and recall of labels: the paper's counts from its files, loops over pairs by hand, and what is refused."""

import numpy as np
import pytest

from cxc_eccv.errors import UnknownName
from cxc_eccv.judgments.merging import merged_qrels
from cxc_eccv.judgments.plausible import with_categories
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.annotation.label_quality.sets import (
    count_positives,
    find_positives,
    find_verified,
    measure_labels,
)


@pytest.fixture(scope="module")
def library():
    return Library("sample")


def by_loop(pairs):
    """Precision and recall from (query, labelled, verified, asked), as the definition reads."""
    precisions = []
    recalls = []
    for query in sorted({pair[0] for pair in pairs}):
        own = [pair[1:] for pair in pairs if pair[0] == query]
        labelled = [pair for pair in own if pair[0]]
        judged = [pair for pair in labelled if pair[2]]
        verified = [pair for pair in own if pair[1]]
        if judged:
            precisions.append(sum(pair[1] for pair in judged) / len(judged))
        if labelled and verified:
            recalls.append(sum(pair[0] for pair in verified) / len(verified))
    return precisions, recalls


def test_precision_and_recall_are_shares_of_each_query():
    random = np.random.default_rng(0)
    queries = random.integers(0, 60, 300)
    labelled = random.random(300) < 0.3
    verified = random.random(300) < 0.4
    asked = random.random(300) < 0.8
    asked |= ~verified  # what nobody was asked about is taken for positive, never for negative
    found = measure_labels(queries, labelled, verified, asked)
    precision, recall = by_loop(list(zip(queries.tolist(), labelled, verified, asked, strict=True)))
    assert found.precision.tolist() == pytest.approx(precision)
    assert found.recall.tolist() == pytest.approx(recall)
    of_labels = {query for query, own in zip(queries.tolist(), labelled, strict=True) if own}
    assert found.n_unlabelled == len(set(queries.tolist()) - of_labels) > 0
    assert found.n_unverified == len(of_labels) - len(recall) > 0


def test_counts_of_positives():
    found = count_positives([0, 3, 1, 8, 0])
    assert (found.n_queries, found.n_without, found.n_positives, found.largest) == (3, 2, 12, 8)
    assert found.quartiles == tuple(np.percentile([3, 1, 8], [25, 50, 75]))


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize(
    "names", [["coco"], ["cxc", "eccv"], ["plausible_0"], ["plausible_2"], ["coco", "plausible_1"]]
)
def test_sets_hold_what_their_parts_hold(library, direction, names):
    """Pair by pair, against the judgments of the sources and the categories of the images."""
    found = find_positives(library.split("test"), direction, names)
    content = library.split("test")
    image_of = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    image_of |= {image: image for image in content.image_ids.tolist()}
    sources = [name for name in names if not name.startswith("plausible")]
    listed = set()
    if sources:
        judged = merged_qrels(library.split("test"), direction, sources=sources)
        queries = judged.query_ids[judged.rows]
        items = judged.gallery_ids[judged.indices]
        listed = set(zip(queries.tolist(), items.tolist(), strict=True))
    images, present = with_categories(library.split("test"))
    categories = {image: frozenset(np.flatnonzero(own)) for image, own in zip(images.tolist(), present, strict=True)}
    zeta = max([int(name[-1]) for name in names if name.startswith("plausible")], default=-1)

    def is_positive(query, item):
        one = categories.get(image_of[query])
        other = categories.get(image_of[item])
        alike = one is not None and other is not None and len(one ^ other) <= zeta
        return (query, item) in listed or alike

    expected = [[is_positive(query, item) for item in found.gallery_ids.tolist()] for query in found.query_ids.tolist()]
    queries = np.repeat(found.query_ids, found.gallery_ids.size)
    holds = found.holds(queries, np.tile(found.gallery_ids, found.query_ids.size))
    assert holds.reshape(len(expected), -1).tolist() == expected
    assert (found.sizes() - found.outside).tolist() == [sum(row) for row in expected]
    assert found.outside.sum() == (direction == "i2t" and "eccv" in names)  # the sample has one such caption


def test_items_splits_and_sets_that_are_nowhere(library):
    found = find_positives(library.split("test"), "t2i", ["coco"])
    own = library.split("test")
    assert not found.holds(own.caption_ids[:1], np.array([-5])).any()
    assert not found.holds(np.array([-5]), own.image_ids[:1]).any()
    assert find_positives(library.split("validation"), "t2i", ["eccv"]) is None
    assert find_verified(library.split("validation"), "t2i", "eccv") is None
    for name in ("nobody", "plausible_", "plausible_01", "plausible_-1"):
        with pytest.raises(UnknownName, match="plausible_0"):
            find_positives(library.split("test"), "t2i", [name])


def test_what_people_were_asked_about(library):
    """CxC publishes what it turned down; ECCV Caption lists positives alone."""
    rated = library.split("test").ratings("sits")
    found = find_verified(library.split("test"), "i2t", "cxc")
    assert len(found) == rated.num_rows
    assert found["asked"].all()
    assert found["positive"].tolist() == (np.asarray(rated["rating"]) >= 3).tolist()
    listed = find_verified(library.split("test"), "i2t", "eccv")
    assert listed["positive"].all()
    assert not listed["asked"].any()
