"""The ``evaluate`` modules of the metrics that explain failures: equal to plain loops, and what they refuse."""

from collections import Counter

import metric_inputs
import numpy as np
import oracles
import pytest

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, UnknownName


def rows_of(columns, with_areas=False):
    """Truth and retrieved image of each row, as dicts of areas."""
    for row in range(len(columns["references"])):
        both = []
        for side in ("reference", "prediction"):
            shown = {}
            areas = columns[f"{side}_areas"][row] if with_areas else [1.0] * len(columns[f"{side}s"][row])
            for name, area in zip(columns[f"{side}s"][row], areas, strict=True):
                shown.setdefault(name, []).append(area)
            both.append(shown)
        yield both


def mean_and_number(values):
    known = [value for value in values if value is not None]
    return pytest.approx(sum(known) / len(known), abs=1e-12), len(known)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["concept_agreement", "concept_enumeration"])
def test_modules_of_concepts_equal_a_plain_loop(load_metric, name, seed):
    columns = metric_inputs.shown_concepts(seed)
    expected = [getattr(oracles, name)(*both) for both in rows_of(columns)]
    results = load_metric(name).compute(**columns, per_query=True)
    assert results == {name: pytest.approx(np.mean(expected), abs=1e-12), f"{name}_per_query": expected}


@pytest.mark.parametrize("seed", range(3))
def test_similarity_equals_a_loop_and_skips_undefined_rows(load_metric, seed):
    columns = metric_inputs.shown_concepts(seed)
    table = metric_inputs.similarities(seed)

    def similarity(one, other):
        return table[min(one, other)][max(one, other)]

    expected = [oracles.non_common_similarity(*both, similarity) for both in rows_of(columns)]
    assert None in expected
    results = load_metric("non_common_similarity").compute(**columns, similarities=table, per_query=True)
    assert results["non_common_similarity_per_query"] == [
        one if one is None else pytest.approx(one) for one in expected
    ]
    assert (results["non_common_similarity"], results["non_common_similarity_defined"]) == mean_and_number(expected)


@pytest.mark.parametrize(("relative_to", "threshold"), [("smaller", 1.0), ("truth", 0.5), ("image", None)])
def test_sizes_equal_a_plain_loop(load_metric, relative_to, threshold):
    columns = metric_inputs.shown_concepts(4, sized=True)
    options = {"relative_to": relative_to, "threshold": threshold}
    expected = [oracles.size_disagreement(*both, **options) for both in rows_of(columns, with_areas=True)]
    results = load_metric("size_disagreement").compute(**columns, **options)
    assert (results.pop("size_disagreement"), results.pop("size_disagreement_defined")) == mean_and_number(expected)
    assert results == options


def test_wordnet_is_the_similarity_where_none_is_given(load_metric, wordnet):
    given = {"predictions": [["grassland.n.01", "grass.n.01"]], "references": [["hill.n.01", "tree.n.01"]]}
    value = load_metric("non_common_similarity").compute(**given)["non_common_similarity"]
    assert value == pytest.approx((1 / 9 + 1 / 6) / 2)
    with pytest.raises(DataError, match=r"no synset 'hill\.n\.99'"):
        load_metric("non_common_similarity").compute(predictions=[["grass.n.01"]], references=[["hill.n.99"]])


GOOD = {"predictions": [["dog", "cat"]], "references": [["dog", "dog", "ball"]]}
AREAS = {"prediction_areas": [[0.5, 0.1]], "reference_areas": [[0.1, 0.2, 0.3]]}
TABLE = {"ball": {"cat": 0.2}}
REFUSED = {
    "no list": ({"predictions": ["dog"]}, MalformedRun, "predictions, row 0 is 'dog'; need a list of concepts"),
    "a mapping": ({"predictions": [{"dog": 2}]}, MalformedRun, "predictions, row 0"),
    "ids": ({"references": [[1, 18]]}, MalformedRun, r"references, row 0 is \[1, 18\]"),
    "an empty name": ({"references": [["dog", ""]]}, MalformedRun, "references, row 0"),
    "empty truth": ({"references": [[]]}, DataError, "ground truth of query 0 shows no concept"),
}
BAD_AREAS = {
    "negative": ({"prediction_areas": [[-0.5, 0.1]]}, DataError, "query 0: dog has an instance of area -0.5"),
    "pixels": ({"reference_areas": [[0.1, 0.2, 512.0]]}, DataError, "query 0: ball has an instance of area 512"),
    "not a number": (
        {"reference_areas": [[0.1, float("nan"), 0.2]]},
        MalformedRun,
        "reference_areas, row 0, row 1 is nan",
    ),
    "too few": ({"prediction_areas": [[0.5]]}, DataError, "row 0 has 1 prediction_areas for 2 predictions"),
    "way": ({"relative_to": "larger"}, UnknownName, "way to compare areas 'larger'"),
    "threshold": ({"threshold": 0}, InvalidOption, "threshold is 0; give a number above 0"),
}
BAD_SIMILARITIES = {
    "lacking": ({"similarities": {"ball": {"dog": 0.1}}}, DataError, "needs the similarity of ball and cat"),
    "above 1": ({"similarities": {"ball": {"cat": 1.5}}}, DataError, r"not all in \[0, 1\]"),
    "twice": (
        {"similarities": {"ball": {"cat": 0.1}, "cat": {"ball": 0.2}}},
        InvalidOption,
        "two values for the pair 'cat' and",
    ),
    "flat": ({"similarities": {"ball": 0.1}}, InvalidOption, "give a dict of concept to a dict"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ["concept_agreement", "concept_enumeration", "non_common_similarity"])
def test_bad_concepts_are_refused(load_metric, name, case):
    changed, error, words = REFUSED[case]
    options = {"similarities": TABLE} if name == "non_common_similarity" else {}
    with pytest.raises(error, match=words):
        load_metric(name).compute(**{**GOOD, **options, **changed})


@pytest.mark.parametrize("case", BAD_AREAS)
def test_bad_areas_are_refused(load_metric, case):
    changed, error, words = BAD_AREAS[case]
    metric = load_metric("size_disagreement")
    with pytest.raises(error, match=words):
        metric.compute(**{**GOOD, **AREAS, **changed})
    assert metric.compute(**GOOD, **AREAS)["size_disagreement"] == 1.0


@pytest.mark.parametrize("case", BAD_SIMILARITIES)
def test_bad_similarities_are_refused(load_metric, case):
    changed, error, words = BAD_SIMILARITIES[case]
    with pytest.raises(error, match=words):
        load_metric("non_common_similarity").compute(**{**GOOD, **changed})


def test_a_mean_over_nothing_is_refused(load_metric):
    apart = {"predictions": [["cat"]], "references": [["dog"]]}
    with pytest.raises(DataError, match="size_disagreement is undefined for all 1 rows"):
        load_metric("size_disagreement").compute(**apart, prediction_areas=[[0.1]], reference_areas=[[0.1]])


def test_repeated_concept_counts_each_time(load_metric):
    truth = Counter(dog=10, disc=1)
    shown = Counter(dog=1, disc=1)
    listed = {"predictions": [list(shown.elements())], "references": [list(truth.elements())]}
    assert load_metric("concept_enumeration").compute(**listed) == {"concept_enumeration": 9.0}
