"""The global table's formulas against the sums that the paper prints, and two models side by side.

Lymperaiou et al., Towards Explainable Evaluation of Language Models on the Semantic Similarity of Visual Concepts,
2022, section 6.3 and Table 3.
"""

import json
import re

import numpy as np
import pytest
from rich.console import Console
from shown_concepts import IMAGES, alike, concepts_of, failures_of

from cxc_eccv.errors import InvalidOption
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.studies.explain.commands.explain import explanations_to_json, join_tables
from cxc_eccv.studies.explain.explanation import (
    SECTIONS,
    Explanation,
    compare_failures,
    find_mode,
    make_tables,
    ratios_of_sums,
    summarize,
)
from cxc_eccv.studies.explain.failures import Failures, explain_failures
from cxc_eccv.tables import tables_to_console, tables_to_markdown


def test_ratios_of_sums_are_those_that_table_3_prints():
    """29.43 and, under a percentage, 2.42."""
    sums = {"matchings": 184_747, "non_common_concepts": 627_833, "different_multiplicity": 69_595}
    ratios = ratios_of_sums(sums, 28_817)
    assert round(100 * ratios["matched_synsets"], 2) == 29.43
    assert round(ratios["differing_per_failure"], 2) == 2.42
    assert ratios_of_sums({"matchings": 0, "non_common_concepts": 0}, 0) == {}


def test_mode_is_the_smallest_of_the_most_frequent():
    assert find_mode(np.array([3.0, 1.0, 3.0, 1.0, 2.0])) == 1.0
    assert find_mode(np.array([0.7 + 0.1, 0.8, 0.5])) == 0.8


def explanation_of(model, failures, concepts_from="COCO"):
    """An explanation of text-to-image failures, without WordNet."""
    concepts = concepts_of(IMAGES)
    explained = explain_failures(failures, concepts, None, similarity=alike)
    return Explanation(model, "test", concepts, {"t2i": explained}, {"i2t": "no rankings"}, {"concepts": concepts_from})


def among(asked, images, rows):
    """Failures of some of the queries: place among all to the image retrieved."""
    places = np.array(sorted(rows))
    tops = np.array([rows[place] for place in places.tolist()])
    of_all = failures_of(*zip(images[places].tolist(), tops.tolist(), strict=True))
    return Failures(
        "t2i", asked, images, asked[places], images[places], tops, tops, of_all.rival_ids, of_all.truth_ranks
    )


@pytest.fixture
def pair():
    asked, images = np.arange(50, 58), np.array([1, 1, 2, 2, 4, 4, 5, 3])
    one = among(asked, images, {0: 2, 1: 5, 2: 1, 4: 1, 7: 1})
    other = among(asked, images, {0: 4, 2: 4, 3: 5, 4: 2, 5: 1, 7: 2})
    return explanation_of("one", one), explanation_of("other", other)


def test_two_models_over_the_queries_that_both_fail(pair):
    found = {row.key: row for row in compare_failures(*pair, seed=3)}
    alone, both = found["t2i/failed_alone"], found["t2i/concept_agreement"]
    assert (found["t2i/failure_rate"].value, found["t2i/failure_rate"].n_queries) == (pytest.approx(1 / 8), 8)
    assert (alone.value, found["t2i/baseline_failed_alone"].value) == (2 / 8, 1 / 8)
    assert (alone.is_share, both.is_share) == (True, False)
    # Both fail the queries 50, 52, 54 and 57; the image of 57 shows no concept.
    tables = (model.directions["t2i"].table.to_pylist() for model in pair)
    one, other = ({row["query_id"]: row["concept_agreement"] for row in rows} for rows in tables)
    differences = np.array([other[query] - one[query] for query in (50, 52, 54)])
    assert both.value == pytest.approx(differences.mean())
    assert (both.n_queries, both.n_images) == (3, 3)
    drawn = ClusterBootstrap(np.array([1, 2, 4]), Draws(3)).means(differences[:, None])[0]
    assert (both.low, both.high) == interval(drawn, 0.95)


def test_captions_of_one_image_are_drawn_together(pair):
    """As a bootstrap over images has it: queries of two images, however many they are, give few means."""
    asked, images = np.arange(40), np.repeat([1, 4], 20)
    one = explanation_of("one", among(asked, images, dict.fromkeys(range(40), 2)))
    other = explanation_of("other", among(asked, images, dict.fromkeys(range(20), 2)))
    rate = {row.key: row for row in compare_failures(one, other)}["t2i/failure_rate"]
    assert (rate.value, rate.low, rate.high, rate.n_images) == (-0.5, -1.0, 0.0, 2)


def test_models_that_were_asked_otherwise_do_not_compare(pair):
    one, other = pair
    fewer = failures_of((1, 2), (1, 5))
    with pytest.raises(InvalidOption, match="have different t2i queries, 8 and 2"):
        compare_failures(one, explanation_of("fewer", fewer))
    with pytest.raises(InvalidOption, match="different splits or concepts"):
        compare_failures(one, explanation_of("else", other.directions["t2i"].failures, "Visual Genome"))


def test_the_file_of_one_model_and_of_several(pair):
    one = pair[0]
    alone = json.loads(explanations_to_json([one]))
    both = json.loads(explanations_to_json(pair, compare_failures(*pair)))
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
    assert {row.key.removeprefix("t2i/") for row in compare_failures(*pair)} <= shown


def test_tables(pair):
    alone = tables_to_markdown(make_tables(pair[:1]))
    both = tables_to_markdown(make_tables(pair, compare_failures(*pair)))
    assert "| failures | 5 |" in alone
    assert "i2t: no rankings." in alone
    assert "CA, NCS, CE, SD, SD relative to truth (mentioned concepts): the queries are images" in alone
    assert "|  | one | other | other minus one |" in both
    assert "| of the queries | 62.50% | 75.00% | +12.50% [" in both
    assert "| failed only by it | \u2014 | \u2014 | 25.00% [" in both
    one, other = pair
    lacking = Explanation("other", "test", other.concepts, {}, {"t2i": "the run has no images"}, other.provenance)
    text = tables_to_markdown(make_tables([one, lacking]))
    assert "### Failures of one, t2i" in text
    assert "other: the run has no images." in text


def test_a_narrow_terminal_loses_no_number(pair):
    """In 80 columns every line fits, and every number of the wide table is there."""
    tables = tables_to_console(make_tables(pair, compare_failures(*pair)))
    texts = []
    for width in (80, 300):
        console = Console(width=width)
        with console.capture() as captured:
            console.print(tables)
        texts.append(captured.get())
    narrow, wide = texts
    assert max(len(line.rstrip()) for line in narrow.splitlines()) <= 80 < max(map(len, wide.splitlines()))
    numbers = [set(re.findall(r"[+-]?\d[\d,.]*%?", text)) for text in texts]
    assert numbers[0] == numbers[1]
