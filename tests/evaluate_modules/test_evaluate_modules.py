"""The ``evaluate`` modules of the package: loaded as users load them, equal to the metrics they stand for."""

import re
from pathlib import Path

import metric_inputs
import numpy as np
import oracles
import pytest

from cxc_eccv import registry
from cxc_eccv.errors import CxcEccvError
from cxc_eccv.evaluate_modules import MODULES_FOLDER
from cxc_eccv.metrics.bootstrap_spearman import bootstrap_spearman
from cxc_eccv.metrics.kinds import RankMetric
from cxc_eccv.metrics.spearman_all_pairs import spearman_all_pairs
from cxc_eccv.types import PositiveRanks, RatedPairs

SPECS = registry.metric_functions()
RANKED = [name for name, spec in SPECS.items() if isinstance(spec, RankMetric)]


def ranks_by_hand(predictions, references):
    rows = [oracles.positive_ranks(row, set(own)) for row, own in zip(predictions, references, strict=True)]
    return PositiveRanks.of(rows, [len(own) for own in references], n_gallery=metric_inputs.GALLERY)


def test_every_metric_has_a_module():
    assert sorted(path.name for path in MODULES_FOLDER.iterdir()) == list(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_a_module_describes_itself(load_metric, name):
    info = load_metric(name).info
    assert info.description.strip() in SPECS[name].description
    assert info.citation.startswith(("@", SPECS[name].citation[:10]))
    assert all(f"    {column}: " in info.inputs_description for column in info.features)
    assert list(info.features)[:2] == ["predictions", "references"]


@pytest.mark.parametrize("name", SPECS)
def test_card_example_prints_what_it_says(load_metric, spaces, name, monkeypatch, capsys):
    card = (spaces / name / "README.md").read_text(encoding="utf-8")
    code, output = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", card, re.DOTALL).groups()
    monkeypatch.setattr("evaluate.load", lambda path: load_metric(Path(path).name))
    exec(code, {})
    assert capsys.readouterr().out == output


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RANKED)
def test_a_module_of_ranks_equals_the_metric(load_metric, name, seed):
    spec, (columns, options) = SPECS[name], metric_inputs.inputs_of(SPECS[name], seed)
    ranks = ranks_by_hand(**columns)
    variants = list(spec.variants())
    options |= {key: [variant[key] for variant in variants] for key in spec.parameters}
    results = load_metric(name).compute(**columns, **options, per_query=True)
    assert len(results) == 2 * len(variants)
    for variant in variants:
        values = spec.function(ranks, **variant)
        label = spec.label(**variant)
        assert results[f"{label}_per_query"] == values.tolist()
        assert results[label] == pytest.approx(
            {"mean": np.mean, "median": np.median}[spec.aggregate](values), abs=1e-15
        )


def test_known_values_by_hand(load_metric):
    """FACTS of the papers: R = 8, all but the top item right 66.0, only the fifth right 2.5 (mAP@R x 100)."""
    positives = list(range(8))
    ranked = [[99, *range(7)], [91, 92, 93, 94, 0, 95, 96, 97]]
    results = load_metric("map_at_r").compute(predictions=ranked, references=[positives] * 2, per_query=True)
    assert [round(100 * value, 1) for value in results["map_at_r_per_query"]] == [66.0, 2.5]
    assert load_metric("recall_at_k").compute(predictions=ranked, references=[positives] * 2, k=[1, 2]) == {
        "recall_at_1": 0.0,
        "recall_at_2": 0.5,
    }


def test_rsum_adds_both_directions(load_metric):
    columns = metric_inputs.both_directions(5)
    predictions, references, directions = columns.values()
    expected = 0.0
    for direction in ("i2t", "t2i"):
        places = [place for place, one in enumerate(directions) if one == direction]
        for k in (1, 5, 10):
            recalls = [oracles.recall_at_k(predictions[place], set(references[place]), k) for place in places]
            expected += 100 * sum(recalls) / len(recalls)
    assert load_metric("rsum").compute(**columns) == {"rsum": pytest.approx(expected, abs=1e-9)}


def test_correlations_equal_the_metrics(load_metric):
    columns = metric_inputs.rated_pairs(1)
    pairs = RatedPairs(*(np.array(columns[name]) for name in ("query_ids", "item_ids", "references")))
    scores = np.array(columns["predictions"])
    samples = bootstrap_spearman(pairs, scores, 50, seed=3)
    assert load_metric("bootstrap_spearman").compute(**columns, n_samples=50, seed=3, per_sample=True) == {
        "bootstrap_spearman": pytest.approx(samples.mean(), abs=1e-15),
        "bootstrap_spearman_std": pytest.approx(samples.std(), abs=1e-15),
        "bootstrap_spearman_samples": samples.tolist(),
    }
    assert load_metric("spearman_all_pairs").compute(**columns) == {
        "spearman_all_pairs": pytest.approx(float(spearman_all_pairs(pairs, scores)), abs=1e-15)
    }


@pytest.mark.reference
@pytest.mark.filterwarnings("ignore:failed to import")
@pytest.mark.parametrize("seed", range(3))
def test_modules_equal_the_eccv_caption_package(load_metric, seed):
    package = pytest.importorskip("eccv_caption._metrics")
    given = metric_inputs.rankings(seed)
    ranked, positives = (dict(enumerate(given[name])) for name in ("predictions", "references"))
    peer = package.compute_eccv_metrics(ranked, positives)
    assert load_metric("map_at_r").compute(**given)["map_at_r"] == pytest.approx(peer["eccv_map_at_r"], abs=1e-12)
    assert load_metric("r_precision").compute(**given)["r_precision"] == pytest.approx(
        peer["eccv_rprecision"], abs=1e-12
    )
    recalls = load_metric("recall_at_k").compute(**given, k=[1, 5, 10])
    assert recalls["recall_at_1"] == pytest.approx(peer["eccv_r1"], abs=1e-12)
    for k in (5, 10):
        expected = package.compute_r_at_k(ranked, positives, K=k)
        assert recalls[f"recall_at_{k}"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", SPECS)
def test_batches_and_single_rows_add_up_to_compute(load_metric, name):
    (columns, options), metric = metric_inputs.inputs_of(SPECS[name], 7), load_metric(name)
    expected = metric.compute(**columns, **options)
    for start in range(0, len(columns["predictions"]) - 1, 13):
        metric.add_batch(**{column: values[start : start + 13] for column, values in columns.items()})
    last = {column: values[-1] for column, values in columns.items()}
    if len(columns["predictions"]) % 13 == 1:
        metric.add(prediction=last.pop("predictions"), reference=last.pop("references"), **last)
    assert metric.compute(**options) == expected


def test_modules_combine_and_accept_options_and_arrays(load_metric):
    from evaluate import combine

    columns = metric_inputs.rankings(2)
    together = combine([load_metric("recall_at_k", k=[1, 10]), load_metric("mrr"), load_metric("map_at_r")])
    results = together.compute(**columns)
    assert list(results) == ["recall_at_1", "recall_at_10", "mrr", "map_at_r"]
    for start in (0, 20):
        together.add_batch(**{name: values[start : start + 20] for name, values in columns.items()})
    assert together.compute() == results
    arrays = {"predictions": np.array(columns["predictions"]), "references": list(map(np.array, columns["references"]))}
    assert load_metric("mrr").compute(**arrays) == {"mrr": results["mrr"]}


def test_rankings_may_be_as_short_as_galleries(load_metric):
    """Where few items match, a ranking may be as short as the number of matches."""
    columns = {"predictions": [[1, 2], [3, 4, 5]], "references": [[2], [3]], "gains": [[1], [1]]}
    results = load_metric("entail_at_k").compute(**columns, k=3, gallery_size=[2, 9], per_query=True)
    assert results["entail_at_3_per_query"] == [1 / 2, 1 / 3]
    assert results["entail_at_3_coverage"] == 2 / 5
    metric = load_metric("pmrp_at_50", categories={1: [5], 2: [5], 3: [5, 6, 7, 8], 4: []})
    assert metric.compute(predictions=[[4, 3, 1]], references=[[2]]) == {"pmrp_at_50": 0.5}


def gains_of(columns, query, k):
    judged = dict(zip(columns["references"][query], columns["gains"][query], strict=True))
    return [judged.get(item) for item in columns["predictions"][query][:k]]


@pytest.mark.parametrize("k", [1, 10, 50])
def test_graded_modules_equal_a_plain_loop(load_metric, k):
    columns = metric_inputs.graded(4, highest=5)
    results = load_metric("ndcg_at_k").compute(**columns, k=k, gallery_size=metric_inputs.GALLERY, per_query=True)
    expected = []
    covered = 0
    looked = 0
    for query, own in enumerate(columns["gains"]):
        found = gains_of(columns, query, k)
        gain = sum((one or 0) / np.log2(place + 2) for place, one in enumerate(found))
        ideal = sum(one / np.log2(place + 2) for place, one in enumerate(sorted(own, reverse=True)[:k]))
        expected.append(gain / ideal)
        covered = covered + sum(one is not None for one in found)
        looked = looked + len(found)
    assert results[f"ndcg_at_{k}_per_query"] == pytest.approx(expected, abs=1e-12)
    assert results[f"ndcg_at_{k}"] == pytest.approx(np.mean(expected), abs=1e-12)
    assert results[f"ndcg_at_{k}_coverage"] == covered / looked


@pytest.mark.parametrize(
    ("name", "at_2", "at_4"),
    [
        ("judged_at", 2 / 2, 3 / 4),
        ("false_negatives_at", 0, 1 / 4),
    ],
)
def test_modules_of_judged_items_take_k(load_metric, name, at_2, at_4):
    columns = {"predictions": [[1, 2, 3, 4]], "references": [[2, 1, 4]], "verdicts": [[0, 0, 2]]}
    assert load_metric(f"{name}_k").compute(**columns, k=[2, 4]) == {f"{name}_2": at_2, f"{name}_4": at_4}


@pytest.mark.parametrize("k", [1, 5, 30])
def test_modules_of_degrees_equal_a_plain_loop(load_metric, k):
    columns = metric_inputs.graded(5, highest=2)
    columns["gains"] = [[gain / 2 for gain in own] for own in columns["gains"]]
    results = load_metric("graded_recall_at_k").compute(**columns, k=k, per_query=True)
    expected = [max(gain or 0 for gain in gains_of(columns, query, k)) for query in range(metric_inputs.QUERIES)]
    assert results[f"graded_recall_at_{k}_per_query"] == expected
    cut = {**columns, "predictions": [ranked[:6] for ranked in columns["predictions"]]}  # the largest R is 6
    results = load_metric("graded_r_precision").compute(**cut, per_query=True)
    expected = []
    covered = 0
    looked = 0
    for query, own in enumerate(columns["gains"]):
        found = gains_of(columns, query, sum(gain > 0 for gain in own))
        expected.append(sum(gain or 0 for gain in found) / len(found))
        covered = covered + sum(gain is not None for gain in found)
        looked = looked + len(found)
    assert results["graded_r_precision_per_query"] == pytest.approx(expected)
    assert results["graded_r_precision_coverage"] == covered / looked


def test_degrees_of_one_are_recall_and_r_precision(load_metric):
    """Rankings of the whole gallery that lack some positives, in one case all of them."""
    columns = {
        "predictions": [[1, 2, 3], [4, 5], [6, 7, 8], [9, 1, 2]],
        "references": [[3, 2], [5, 7, 8], [1, 2, 3, 4], [2]],
    }
    options = {"gallery_size": [3, 2, 3, 9], "per_query": True}
    plain = load_metric("r_precision").compute(**columns, **options)
    gains = [[1] * len(own) for own in columns["references"]]
    graded = load_metric("graded_r_precision").compute(**columns, gains=gains, **options)
    assert graded["graded_r_precision_per_query"] == plain["r_precision_per_query"] == [1 / 2, 1 / 3, 0, 0]
    assert graded["graded_r_precision_coverage"] == 2 / 8
    recall = load_metric("recall_at_k").compute(**columns, k=2, per_query=True)
    graded = load_metric("graded_recall_at_k").compute(**columns, gains=gains, k=2, per_query=True)
    assert graded["graded_recall_at_2_per_query"] == recall["recall_at_2_per_query"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"predictions": [[1, 2], [4]]},
            "graded_r_precision of query 1 looks at the top 2, but its ranking ends at rank 1",
        ),
        ({"gains": [[2], [1, 1]]}, "a judged item has gain 2.0, expected a degree from 0 to 1"),
        ({"gains": [[0], [1, 1]]}, "query 0 has no item of gain above 0"),
    ],
)
def test_what_gives_no_graded_r_precision(load_metric, changed, message):
    columns = {"predictions": [[1, 2], [4, 5]], "references": [[1], [4, 5]], "gains": [[1], [1, 0.5]]}
    with pytest.raises(CxcEccvError, match=message):
        load_metric("graded_r_precision").compute(**columns | changed)


@pytest.mark.parametrize("policy", ["not_entailed", "leave_out", "classifier"])
def test_entailment_equals_a_plain_loop_under_each_policy(load_metric, policy):
    # Under leave_out every query needs a label among its top K.
    columns = metric_inputs.graded(6)
    k = metric_inputs.GALLERY if policy == "leave_out" else 20
    chosen = (lambda queries, items: (queries + items) % 2) if policy == "classifier" else policy
    results = load_metric("entail_at_k").compute(**columns, k=k, unjudged=chosen, per_query=True)
    expected = []
    for query, ranked in enumerate(columns["predictions"]):
        labels = gains_of(columns, query, k)
        if policy == "classifier":
            asked = zip(labels, ranked, strict=False)
            labels = [(query + item) % 2 if label is None else label for label, item in asked]
        known = [label for label in labels if label is not None]
        expected.append(sum(known) / (len(known) if policy == "leave_out" else k))
    assert results[f"entail_at_{k}_per_query"] == pytest.approx(expected, abs=1e-12)
    assert results["unjudged"] == policy


def precision_at_matches(columns, categories, query, zeta, cut):
    """R-Precision of plausible matches, by sets; items without categories take no part."""
    shown = {item: set(own) for item, own in categories.items() if own}
    wanted = shown[columns["references"][query][0]]
    matches = {item for item, own in shown.items() if len(own ^ wanted) <= zeta}
    depth = min(len(matches), cut)
    ranked = [item for item in columns["predictions"][query] if item in shown][:depth]
    return sum(item in matches for item in ranked) / depth


@pytest.mark.parametrize("seed", range(3))
def test_plausible_matches_equal_a_plain_loop(load_metric, seed):
    columns, categories = metric_inputs.own_items(seed)
    queries = range(len(columns["predictions"]))
    strict = [precision_at_matches(columns, categories, query, 0, 50) for query in queries]
    loose = [
        np.mean([precision_at_matches(columns, categories, query, zeta, 999) for zeta in range(3)]) for query in queries
    ]
    given = {**columns, "categories": categories, "per_query": True}
    assert load_metric("pmrp_at_50").compute(**given)["pmrp_at_50_per_query"] == pytest.approx(strict, abs=1e-12)
    assert load_metric("pmrp").compute(**given)["pmrp_per_query"] == pytest.approx(loose, abs=1e-12)
