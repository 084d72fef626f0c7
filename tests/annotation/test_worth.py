"""The worth of labels: the paper's counts from its files, hand-made cases, and what is refused."""

import pytest

from cxc_eccv.annotation.worth.labels import count_positives, measure_labels
from cxc_eccv.errors import DataError


def positives(library, name, direction):
    table, found = library.eccv(name, direction), {}
    for query, item in zip(table["query_id"].to_pylist(), table["item_id"].to_pylist(), strict=True):
        found.setdefault(query, []).append(item)
    return found


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "images", "captions"), [("original", 1332, 6305), ("cxc", 1895, 8906), ("eccv", 11279, 22550)]
)
def test_table_3_for_the_queries_of_eccv_caption(real_library, name, images, captions):
    for direction, expected in (("t2i", images), ("i2t", captions)):
        queries = positives(real_library, "eccv", direction)
        assert count_positives(positives(real_library, name, direction), queries).n_positives == expected


def test_precision_and_recall_are_means_over_queries_with_both():
    labels = {1: [10, 11], 2: [20, 21, 29], 3: [39], 4: [40]}
    verified = {1: [10], 2: [20, 22, 23], 3: [31]}
    seen = {1: [10, 11], 2: [20, 21, 22, 23], 3: [30, 31], 4: [40, 41]}
    found = measure_labels(labels, verified, seen)
    assert (found.precision, found.recall) == (pytest.approx((1 / 2 + 1 / 2) / 2), pytest.approx((1 + 1 / 3) / 2))
    assert (found.n_queries, found.n_unseen, found.n_unverified) == (2, 1, 1)


def test_what_nobody_saw_is_neither_right_nor_wrong():
    one = measure_labels({1: [10, 99]}, {1: [10]}, {1: [10, 11]})
    assert (one.precision, one.recall) == (1, 1)


def test_a_verified_pair_that_nobody_saw_is_refused():
    with pytest.raises(DataError, match="item 12 is verified"):
        measure_labels({1: [10]}, {1: [10, 12]}, {1: [10]})


def test_nothing_to_measure_is_refused():
    with pytest.raises(DataError, match="nothing can be measured"):
        measure_labels({1: [99]}, {1: [10]}, {1: [10]})
    with pytest.raises(DataError, match="none of 1 queries"):
        count_positives({2: [3]}, [1])
