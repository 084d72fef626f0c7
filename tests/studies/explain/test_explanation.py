"""Failures in concepts: plain loops find the same numbers, sums and modes; and the sums that the paper prints.

Lymperaiou et al., Towards Explainable Evaluation of Language Models on the Semantic Similarity of Visual Concepts,
2022, section 6.3 and Table 3.
"""

import json
from collections import Counter

import numpy as np
import oracles
import pandas as pd
import pytest
from shown_concepts import IMAGES, alike, concepts_of, failed_rows, failures_of

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.studies.explain.concepts import load_concepts
from cxc_eccv.studies.explain.explanation import (
    SECTIONS,
    Explanation,
    compare_failures,
    explain_run,
    make_tables,
    ratios_of_sums,
    summarize,
)
from cxc_eccv.studies.explain.failed_queries import (
    COUNTS,
    MEASURES,
    NUMBERS,
    OF_INSTANCES,
    TASKS,
    Failures,
    check_run,
    explain_failures,
    find_failures,
    keep_mentioned,
    measure_failures,
    subtract_best,
)
from cxc_eccv.studies.explain.failure_report import FailureReport, join_tables
from cxc_eccv.tables import tables_to_markdown
from cxc_eccv.types.concept_pairs import ConceptPairs
from cxc_eccv.types.provenance import Provenance


def test_worked_by_hand():
    failures = failures_of((1, 2), (3, 1), (1, 4), (1, 5), rivals=[[4], [2], [-1], [2]])
    explained = explain_failures(failures, concepts_of(IMAGES), None, similarity=alike)
    expected = {
        "concept_agreement": [1 / 3, None, 1, 0],
        "concept_enumeration": [1, None, 1, 0],
        "size_disagreement": [0, None, 2 / 3, None],
        # Of its own size each right instance differs by 100% or more in one match of three, that of the large dog.
        "size_disagreement_truth": [0, None, 1 / 3, None],
        # 0.1 beside 0.1; then 0.2 beside 0.4, 0.05 beside 0.01 and trees of one size.
        "size_disagreement_real": [0, None, 1 + 4, None],
        "concept_agreement_over_rival": [-2 / 3, None, None, -1 / 3],
        "rival_id": [4, 2, None, 2],
        "common_concepts": [1, None, 3, 0],
        "truth_only_concepts": [2, None, 0, 3],
        "retrieved_only_concepts": [1, None, 0, 1],
        "differing_concepts": [1, None, 1, 0],
    }
    for name, values in expected.items():
        assert explained.table[name].to_pylist() == pytest.approx(values), name
    summary = summarize(explained)
    expected = {
        "without_concepts": 1,
        "concept_agreement": (1 / 3 + 1 + 0) / 3,
        "object_hits": 4,
        "object_misses": 5,
        "non_common_concepts": 7,
        "matchings": 2,
        "matched_synsets": 2 / 7,
        "same_multiplicity": 2,
        "different_multiplicity": 2,
        "enumeration_disagreement": 2 / 4,
        "differing_per_failure": 2 / 3,
        "concept_enumeration_mode": 1,
        "failure_rate": 1,
    }
    assert {name: summary.scores[name] for name in expected} == pytest.approx(expected)
    assert "not_annotated" not in summary.scores
    assert summary.counts["concept_agreement"] == 3


def test_categories_alone_give_no_number_of_instances():
    sets = concepts_of(
        {image: {name: [] for name in own} for image, own in IMAGES.items()}, "COCO categories", counted=False
    )
    explained = explain_failures(failures_of((1, 2), (1, 4)), sets, None, similarity=alike)
    summary = summarize(explained)
    lacking = [*OF_INSTANCES, "size_disagreement_real", "same_multiplicity", "different_multiplicity"]
    lacking += ["differing_per_failure", "enumeration_disagreement", "concept_enumeration_over_rival"]
    for name in lacking:
        assert name not in summary.scores
        assert "instances_val2014.json" in summary.not_computed[name]
    assert not any(name.startswith(OF_INSTANCES) for name in summary.scores)
    assert summary.scores["concept_agreement"] == pytest.approx((1 / 3 + 1) / 2)
    for name in (*(name for name in NUMBERS if name.startswith(OF_INSTANCES)), "differing_concepts"):
        assert explained.table[name].null_count == 2


def test_every_number_is_there_or_says_why_not():
    none = failures_of((1, 2))
    empty = Failures("t2i", none.asked, none.rows.iloc[:0], none.rival_ids[:0])
    for failures in (none, failures_of((3, 1)), failures_of((1, 1)), empty):
        summary = summarize(explain_failures(failures, concepts_of(IMAGES), None, similarity=alike))
        assert not summary.scores.keys() & summary.not_computed.keys()
        for name in (*NUMBERS, "matched_synsets", "enumeration_disagreement", "differing_per_failure"):
            assert (name in summary.scores) != (name in summary.not_computed), name
        assert all(np.isfinite(value) for value in summary.scores.values())
    assert (summary.scores["queries"], summary.scores["failures"], summary.scores["failure_rate"]) == (1, 0, 0.0)
    assert summary.not_computed["non_common_similarity"] == "no query failed"


def test_an_image_that_nobody_annotated():
    failures = failures_of((1, 9), (1, 2), rivals=[[2], [9]])
    with pytest.raises(DataError, match="image 9"):
        explain_failures(failures, concepts_of(IMAGES), None, similarity=alike)
    explained = explain_failures(failures, concepts_of(IMAGES, "Visual Genome"), None, similarity=alike)
    assert explained.table["annotated"].to_pylist() == [False, True]
    assert explained.table["concept_agreement"].to_pylist() == [None, pytest.approx(1 / 3)]
    assert explained.table["concept_agreement_over_rival"].null_count == 2
    summary = summarize(explained)
    assert (summary.scores["not_annotated"], summary.scores["without_concepts"]) == (1, 0)
    assert summary.counts["concept_agreement"] == 1


def explain_by_loops(failures, concepts):
    """Name to one value per failure, None where it is not defined; of what needs no WordNet."""
    columns = {name: [] for name in ("concept_agreement", "concept_enumeration", *COUNTS)}
    for truth, top in zip(failures.rows["truth_id"].tolist(), failures.rows["retrieved_id"].tolist(), strict=True):
        right, shown = (Counter(box.concept for box in concepts.boxes[image]) for image in (truth, top))
        common = [name for name in right if name in shown]
        values = [
            len(common) / len(right) if right else None,
            sum(abs(right[name] - shown[name]) for name in common),
            len(common),
            len(right) - len(common),
            len(shown) - len(common),
            sum(right[name] != shown[name] for name in common),
        ]
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value if right else None)
    return columns


@pytest.mark.parametrize("direction", TASKS)
def test_a_plain_loop_over_the_sample_agrees(sample_library, make_run, direction):
    concepts = load_concepts(sample_library.split())
    failures = find_failures(make_run(sample_library), sample_library.split(), direction)
    explained = explain_failures(failures, concepts, None, similarity=alike)
    expected = explain_by_loops(failures, concepts)
    for name, values in expected.items():
        assert explained.table[name].to_pylist() == values, name


@pytest.mark.parametrize("threshold", [0.25, 1.0, 3.0])
def test_size_threshold_counts_as_the_slow_one(sample_library, make_run, threshold):
    concepts = load_concepts(sample_library.split())
    failures = find_failures(make_run(sample_library), sample_library.split(), "t2i")
    explained = explain_failures(failures, concepts, None, similarity=alike, size_threshold=threshold)
    pairs = zip(failures.rows["truth_id"].tolist(), failures.rows["retrieved_id"].tolist(), strict=True)
    shown = [(concepts.images[truth], concepts.images[top]) for truth, top in pairs]
    for name, way in (("size_disagreement", "smaller"), ("size_disagreement_truth", "truth")):
        expected = [oracles.size_disagreement(*pair, way, threshold) if pair[0] else None for pair in shown]
        assert explained.table[name].to_pylist() == pytest.approx(expected), name


def test_words_of_the_query_and_wordnet(sample_library, make_run, wordnet):
    explanation = explain_run(make_run(sample_library), sample_library.split(), load_concepts(sample_library.split()))
    assert list(explanation.directions) == list(TASKS)
    assert explanation.provenance.others["wordnet"] == "3.0"
    assert explanation.provenance.others["concepts"]["source"] == "COCO instances"
    for direction, explained in explanation.directions.items():
        informed = [explained.table[f"{name}_informed"].null_count < len(explained.failures) for name in MEASURES]
        assert informed[0] == (direction != "i2t")
        if direction == "i2t":
            assert summarize(explained).not_computed["concept_agreement_informed"].startswith("the queries are images")


def test_directions_that_a_run_does_not_have(sample_library, make_run, wordnet):
    run = make_run(sample_library)
    texts = EmbeddingsRun(None, run.captions)
    images = EmbeddingsRun(run.images, None)
    explanation = explain_run(texts, sample_library.split(), load_concepts(sample_library.split()))
    assert list(explanation.directions) == ["t2t"]
    assert explanation.skipped == dict.fromkeys(("t2i", "i2t"), "the run has no images")
    assert check_run(texts, sample_library.split(), ["t2t"]).skipped == {}
    for run, directions, error, message in (
        (texts, ["t2i"], InvalidOption, "the run has no images"),
        (texts, ["i2i"], UnknownName, "i2i"),
        (images, None, InvalidOption, "t2t cannot be explained"),
    ):
        with pytest.raises(error, match=message):
            check_run(run, sample_library.split(), directions)


AREA = np.array([0.1])
PAIRS = ConceptPairs(
    np.array([1, 2, 3]),
    [{"dog": AREA, "ball": AREA}, {"sky": AREA}, {"dog": np.array([0.1, 0.3]), "sky": AREA}],
    [{"ball": AREA, "cat": AREA}, {"sky": AREA}, {"dog": np.array([0.25])}],
)


def identity(names):
    return np.eye(len(names))


def test_without_counts_there_are_two_numbers():
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


def test_missing_mentioned_concept_is_matched_with_all_others():
    alike = {("cat", "dog"): 0.9, ("dog", "park"): 0.2}

    def similarity(names):
        return np.array([[alike.get(tuple(sorted((one, other))), 0.0) for other in names] for one in names])

    truth = {"dog": AREA, "ball": AREA, "sky": AREA, "tree": AREA}
    pairs = ConceptPairs(np.array([1]), [truth], [{"cat": AREA, "park": AREA, "sky": AREA, "ball": AREA}])
    cut, _ = keep_mentioned(pairs, [{"dog", "ball"}])
    values = measure_failures(cut, similarity)
    assert values["non_common_similarity"].tolist() == [0.9]
    assert values["concept_agreement"].tolist() == [0.5]


def plain_difference(values, others, higher):
    known = [one for one in others if one == one]
    return values - (max(known) if higher else min(known)) if known else float("nan")


def test_best_alternative_is_chosen_per_metric():
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


def test_image_sharing_nothing_is_not_best_at_counting():
    top = {"concept_agreement": np.array([0.5, 0.0, 0.5]), "concept_enumeration": np.array([3.0, 0.0, 3.0])}
    others = {
        "concept_agreement": np.array([[0.0, 0.2], [0.5, 0.5], [0.0, np.nan]]),
        "concept_enumeration": np.array([[0.0, 2.0], [1.0, 1.0], [0.0, np.nan]]),
    }
    np.testing.assert_array_equal(subtract_best(top, others)["concept_enumeration"], [1.0, np.nan, np.nan])
    nobody = {"concept_agreement": np.empty((3, 0))}
    differences = subtract_best({"concept_agreement": top["concept_agreement"]}, nobody)
    assert np.isnan(differences["concept_agreement"]).all()


def test_ratios_of_sums_are_those_of_table_3():
    sums = {
        "matchings": 184_747,
        "non_common_concepts": 627_833,
        "same_multiplicity": 41_244,
        "different_multiplicity": 69_595,
    }
    ratios = ratios_of_sums(sums, 28_817)
    assert round(100 * ratios["matched_synsets"], 2) == 29.43
    assert round(ratios["differing_per_failure"], 2) == 2.42
    assert round(100 * ratios["enumeration_disagreement"], 2) == 62.79
    assert ratios_of_sums({"matchings": 0, "non_common_concepts": 0}, 0) == {}


def explanation_of(model, failures, concepts_from="COCO"):
    concepts = concepts_of(IMAGES)
    explained = explain_failures(failures, concepts, None, similarity=alike)
    return Explanation(
        model,
        Library("sample").split(),
        concepts,
        {"t2i": explained},
        {"i2t": "no rankings"},
        Provenance(others={"concepts": concepts_from}),
    )


def among(asked, images, rows):
    """Failures of some of the queries: place among all to the image retrieved."""
    places = np.array(sorted(rows))
    tops = np.array([rows[place] for place in places.tolist()])
    everything = pd.DataFrame({"query_id": asked, "truth_id": images})
    rivals = np.full((places.size, 1), -1)
    return Failures("t2i", everything, failed_rows(asked[places], images[places], tops), rivals)


@pytest.fixture
def pair():
    asked = np.arange(50, 58)
    images = np.array([1, 1, 2, 2, 4, 4, 5, 3])
    one = among(asked, images, {0: 2, 1: 5, 2: 1, 4: 1, 7: 1})
    other = among(asked, images, {0: 4, 2: 4, 3: 5, 4: 2, 5: 1, 7: 2})
    return explanation_of("one", one), explanation_of("other", other)


def compare(one, other, seed=0):
    """Key to the row of a number of two models."""
    return {row.key: row for row in compare_failures(one, [other], seed=seed).itertuples()}


def test_two_models_over_the_queries_that_both_fail(pair):
    found = compare(*pair, seed=3)
    alone = found["t2i/failed_alone"]
    both = found["t2i/concept_agreement"]
    assert (found["t2i/failure_rate"].value, found["t2i/failure_rate"].n_queries) == (pytest.approx(1 / 8), 8)
    assert (alone.value, found["t2i/baseline_failed_alone"].value) == (2 / 8, 1 / 8)
    # Both fail the queries 50, 52, 54 and 57; the image of 57 shows no concept.
    tables = (model.directions["t2i"].table.to_pylist() for model in pair)
    one, other = ({row["query_id"]: row["concept_agreement"] for row in rows} for rows in tables)
    differences = np.array([other[query] - one[query] for query in (50, 52, 54)])
    assert both.value == pytest.approx(differences.mean())
    assert (both.n_queries, both.n_images) == (3, 3)
    drawn = ClusterBootstrap(np.array([1, 2, 4]), Draws(3)).means(differences[:, None])[0]
    assert (both.low, both.high) == interval(drawn, 0.95)


def test_captions_of_one_image_are_drawn_together(pair):
    asked = np.arange(40)
    images = np.repeat([1, 4], 20)
    one = explanation_of("one", among(asked, images, dict.fromkeys(range(40), 2)))
    other = explanation_of("other", among(asked, images, dict.fromkeys(range(20), 2)))
    rate = compare(one, other)["t2i/failure_rate"]
    assert (rate.value, rate.low, rate.high, rate.n_images) == (-0.5, -1.0, 0.0, 2)


def test_the_file_of_one_model_and_of_several(pair):
    one = pair[0]
    alone = json.loads(FailureReport([one]).to_json())
    both = json.loads(FailureReport(pair, compare_failures(pair[0], pair[1:])).to_json())
    assert list(alone) == ["schema", "model", "scores", "counts", "not_computed", "provenance"]
    assert (alone["schema"], alone["model"]) == (1, "one")
    assert {name: both[name] for name in alone} == alone
    assert [entry["model"] for entry in both["others"]] == ["other"]
    assert alone["scores"] == {f"t2i/{name}": value for name, value in summarize(one.directions["t2i"]).scores.items()}
    assert all(isinstance(value, int | float) and not isinstance(value, bool) for value in alone["scores"].values())
    assert alone["not_computed"]["i2t"] == "no rankings"
    assert {row["key"] for row in both["paired"]} >= {"t2i/failure_rate", "t2i/concept_agreement"}
    table = join_tables(pair)
    assert table["model"].to_pylist() == ["one"] * 5 + ["other"] * 6
    assert set(table["direction"].to_pylist()) == {"t2i"}
    assert set(json.loads(table.schema.metadata[b"explained"])) == {"one", "other"}


def test_every_number_has_a_row(pair):
    shown = {name for lines in SECTIONS.values() for _, name, _ in lines}
    assert set(summarize(pair[0].directions["t2i"]).scores) <= shown
    assert {key.removeprefix("t2i/") for key in compare(*pair)} <= shown


def test_tables(pair):
    alone = tables_to_markdown(make_tables(pair[:1]))
    both = tables_to_markdown(make_tables(pair, compare_failures(pair[0], pair[1:])))
    assert "| failures | 5 |" in alone
    assert "i2t: no rankings." in alone
    assert "CA, NCS, CE, SD, SD relative to truth (mentioned concepts): the queries are images" in alone
    assert "|  | one | other | other minus one |" in both
    assert "| of the queries | 62.50% | 75.00% | +12.50% [" in both
    assert "| failed only by it | \u2014 | \u2014 | 25.00% [" in both
    one, other = pair
    lacking = Explanation("other", other.split, other.concepts, {}, {"t2i": "the run has no images"}, other.provenance)
    text = tables_to_markdown(make_tables([one, lacking]))
    assert "### Failures of one, t2i" in text
    assert "other: the run has no images." in text
