"""Failures in concepts: a plain loop over instances finds the same numbers, sums and modes."""

from collections import Counter

import numpy as np
import pytest
from shown_concepts import IMAGES, alike, concepts_of, failures_of

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.studies.explain.concepts import load_concepts
from cxc_eccv.studies.explain.explanation import explain_run, summarize
from cxc_eccv.studies.explain.failures import (
    COUNTS,
    MEASURES,
    NUMBERS,
    OF_INSTANCES,
    TASKS,
    Failures,
    check_run,
    explain_failures,
    find_failures,
)


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
        "enumeration_disagreement": (1 / 1 + 1 / 3) / 2,
        "differing_per_failure": 2 / 3,
        "concept_enumeration_mode": 1,
        "failure_rate": 1,
    }
    assert {name: summary.scores[name] for name in expected} == pytest.approx(expected)
    assert "not_annotated" not in summary.scores
    assert summary.counts["concept_agreement"] == 3


def test_categories_alone_give_no_number_of_instances():
    """What needs boxes is absent, with its reason, and nowhere a zero."""
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
    empty = Failures(
        "t2i", none.asked_ids, none.asked_images, *[none.query_ids[:0]] * 4, none.rival_ids[:0], none.truth_ranks[:0]
    )
    for failures in (none, failures_of((3, 1)), failures_of((1, 1)), empty):
        summary = summarize(explain_failures(failures, concepts_of(IMAGES), None, similarity=alike))
        assert not summary.scores.keys() & summary.not_computed.keys()
        for name in (*NUMBERS, "matched_synsets", "enumeration_disagreement", "differing_per_failure"):
            assert (name in summary.scores) != (name in summary.not_computed), name
        assert all(np.isfinite(value) for value in summary.scores.values())
    assert (summary.scores["queries"], summary.scores["failures"], summary.scores["failure_rate"]) == (1, 0, 0.0)
    assert summary.not_computed["non_common_similarity"] == "no query failed"


def test_an_image_that_nobody_annotated():
    """An error that names it; of a source that covers a part of the split, a count."""
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
    for truth, top in zip(failures.truth_ids.tolist(), failures.retrieved_ids.tolist(), strict=True):
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
    concepts = load_concepts(sample_library, "test")
    failures = find_failures(make_run(sample_library), sample_library, "test", direction)
    explained = explain_failures(failures, concepts, None, similarity=alike)
    expected = explain_by_loops(failures, concepts)
    for name, values in expected.items():
        assert explained.table[name].to_pylist() == values, name


def test_words_of_the_query_and_wordnet(sample_library, make_run, wordnet):
    explanation = explain_run(make_run(sample_library), sample_library, load_concepts(sample_library, "test"))
    assert list(explanation.directions) == list(TASKS)
    assert explanation.provenance["wordnet"] == "3.0"
    assert explanation.provenance["concepts"]["source"] == "COCO instances"
    for direction, explained in explanation.directions.items():
        informed = [explained.table[f"{name}_informed"].null_count < len(explained.failures) for name in MEASURES]
        assert informed[0] == (direction != "i2t")
        if direction == "i2t":
            assert summarize(explained).not_computed["concept_agreement_informed"].startswith("the queries are images")


def test_directions_that_a_run_does_not_have(sample_library, make_run, wordnet):
    run = make_run(sample_library)
    texts, images = EmbeddingsRun(None, run.captions), EmbeddingsRun(run.images, None)
    explanation = explain_run(texts, sample_library, load_concepts(sample_library, "test"))
    assert list(explanation.directions) == ["t2t"]
    assert explanation.skipped == dict.fromkeys(("t2i", "i2t"), "the run has no images")
    for run, directions, error, message in (
        (texts, ["t2i"], InvalidOption, "the run has no images"),
        (texts, ["i2i"], UnknownName, "i2i"),
        (images, None, InvalidOption, "t2t cannot be explained"),
    ):
        with pytest.raises(error, match=message):
            check_run(run, sample_library, "test", directions)
