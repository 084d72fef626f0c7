"""The numbers of many failures: what the query mentions, and the best other candidate."""

import numpy as np
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.studies.explain.failures import keep_mentioned, measure_failures, subtract_best
from cxc_eccv.types.seen import ConceptPairs

AREA = np.array([0.1])
PAIRS = ConceptPairs(
    np.array([1, 2, 3]),
    [{"dog": AREA, "ball": AREA}, {"sky": AREA}, {"dog": np.array([0.1, 0.3]), "sky": AREA}],
    [{"ball": AREA, "cat": AREA}, {"sky": AREA}, {"dog": np.array([0.25])}],
)


def identity(names):
    return np.eye(len(names))


def test_all_numbers_and_without_counts_two():
    values = measure_failures(PAIRS, identity)
    assert {name: own.round(3).tolist() for name, own in values.items() if not np.isnan(own).any()} == {
        "concept_agreement": [0.5, 1.0, 0.5],
        "concept_enumeration": [0.0, 0.0, 1.0],
        "size_disagreement": [0.0, 0.0, 0.0],
        "size_disagreement_truth": [0.0, 0.0, 0.0],
    }
    assert np.isnan(values["non_common_similarity"]).tolist() == [False, True, True]
    uncounted = ConceptPairs(np.array([1]), [{"dog": np.empty(0)}], [{"dog": np.empty(0)}])
    assert list(measure_failures(uncounted, identity, counted=False)) == ["concept_agreement", "non_common_similarity"]
    with pytest.raises(DataError, match="dog has no instances"):
        measure_failures(uncounted, identity)


def test_the_informed_variant_sees_what_the_query_mentions():
    cut, kept = keep_mentioned(PAIRS, [{"dog", "cat"}, {"dog"}, {"dog"}])
    assert kept.tolist() == [True, False, True]
    assert cut.query_ids.tolist() == [1, 3]
    assert [list(shown) for shown in (*cut.truths, *cut.retrieved)] == [["dog"], ["dog"], ["cat"], ["dog"]]
    values = measure_failures(cut, identity)
    assert values["concept_agreement"].tolist() == [0.0, 1.0]
    assert values["concept_enumeration"].tolist() == [0.0, 1.0]
    with pytest.raises(DataError, match="2 sets of mentions for 3 failures"):
        keep_mentioned(PAIRS, [{"dog"}, {"dog"}])


def test_what_is_mentioned_and_missing_is_matched_with_all_that_stands_in_its_place():
    """The query says nothing of the cat and the park that are there in the place of its dog."""
    alike = {("cat", "dog"): 0.9, ("dog", "park"): 0.2}

    def similarity(names):
        return np.array([[alike.get(tuple(sorted((one, other))), 0.0) for other in names] for one in names])

    truth = {"dog": AREA, "ball": AREA, "sky": AREA, "tree": AREA}
    pairs = ConceptPairs(np.array([1]), [truth], [{"cat": AREA, "park": AREA, "sky": AREA, "ball": AREA}])
    cut, _ = keep_mentioned(pairs, [{"dog", "ball"}])
    values = measure_failures(cut, similarity)
    assert values["non_common_similarity"].tolist() == [0.9]
    assert values["concept_agreement"].tolist() == [0.5]


def test_a_query_that_mentions_all_changes_nothing_and_one_that_mentions_nothing_has_no_number():
    everything = {"dog", "ball", "sky", "cat"}
    cut, kept = keep_mentioned(PAIRS, [everything] * 3)
    assert kept.all()
    for name, values in measure_failures(cut, identity).items():
        np.testing.assert_array_equal(values, measure_failures(PAIRS, identity)[name])
    cut, kept = keep_mentioned(PAIRS, [set()] * 3)
    assert (len(cut), kept.any()) == (0, False)
    assert [values.size for values in measure_failures(cut, identity).values()] == [0] * 5


def plain_difference(values, others, higher):
    """By hand: NaN where nothing is left to compare."""
    known = [one for one in others if one == one]
    return values - (max(known) if higher else min(known)) if known else float("nan")


def test_the_best_of_the_others_is_each_metrics_own():
    random = np.random.default_rng(0)
    top = {"concept_agreement": random.uniform(0.1, 1, 20), "non_common_similarity": random.uniform(size=20)}
    others = {name: random.uniform(0.1, 1, (20, 4)) for name in top}
    top["concept_enumeration"], others["concept_enumeration"] = random.uniform(size=20), random.uniform(size=(20, 4))
    others["non_common_similarity"][0] = np.nan
    others["non_common_similarity"][1, :3] = np.nan
    top["non_common_similarity"][2] = np.nan
    for name, differences in subtract_best(top, others).items():
        rows = zip(top[name], others[name], strict=True)
        expected = [plain_difference(*row, name != "concept_enumeration") for row in rows]
        np.testing.assert_array_equal(differences, expected)


def test_an_image_that_shares_nothing_is_not_the_best_at_counting():
    top = {"concept_agreement": np.array([0.5, 0.0, 0.5]), "concept_enumeration": np.array([3.0, 0.0, 3.0])}
    others = {
        "concept_agreement": np.array([[0.0, 0.2], [0.5, 0.5], [0.0, np.nan]]),
        "concept_enumeration": np.array([[0.0, 2.0], [1.0, 1.0], [0.0, np.nan]]),
    }
    np.testing.assert_array_equal(subtract_best(top, others)["concept_enumeration"], [1.0, np.nan, np.nan])
    nobody = {"concept_agreement": np.empty((3, 0))}
    differences = subtract_best({"concept_agreement": top["concept_agreement"]}, nobody)
    assert np.isnan(differences["concept_agreement"]).all()
