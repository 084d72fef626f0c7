"""Comparing models: equal to a slow loop over repeated queries, calibrated, corrected, and refused where unsound."""

import itertools
import shutil
from functools import partial

import numpy as np
import oracles
import pyarrow as pa
import pytest
from rich.console import Console
from scipy.stats import kendalltau
from scored_reports import DATA, rows, scored

from cxc_eccv.comparison import ScoredReport, load_reports, metric_agreement
from cxc_eccv.comparison import compare as compare_main
from cxc_eccv.comparison.pairing import query_values
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation import evaluate
from cxc_eccv.report import Report
from cxc_eccv.statistics import Draws, holm
from cxc_eccv.types import Result
from cxc_eccv.types.provenance import Provenance

compare = partial(compare_main, metrics="all")
RECALLS = ("recall_at_1", "recall_at_5", "recall_at_10")


def two_models(seed=0, n_images=30, key="cxc/t2t/mrr", gain=0.0):
    random = np.random.default_rng(seed)
    images = np.repeat(random.permutation(900)[:n_images], random.integers(1, 6, n_images))
    queries = random.permutation(10_000)[: images.size]
    old = random.random(images.size)
    new = np.clip(old + random.normal(gain, 0.2, images.size), 0, 1)
    if key.endswith("median_rank"):
        old = np.ceil(10 * old) + 1
        new = np.ceil(10 * new) + 1
    shuffled = random.permutation(images.size)
    return (
        scored("old", {key: (queries, old, images)}),
        scored("new", {key: (queries[shuffled], new[shuffled], images[shuffled])}),
        (queries, old, new, images),
    )


def slow_differences(old, new, images, statistic, seed, samples, n_drawn=None):
    """Resampled differences from repeating the queries of the drawn images, of ``n_drawn`` in all, for both models."""
    drawn = []
    sizes = [1000] * (samples // 1000) + [samples % 1000] * bool(samples % 1000)
    for batch_seed, size in zip(np.random.SeedSequence(seed).generate_state(len(sizes)), sizes, strict=True):
        times = Draws(int(batch_seed), size).times(n_drawn or np.unique(images).size)
        times = times[:, : np.unique(images).size]
        statistics = (
            oracles.bootstrap_statistics(values.tolist(), images.tolist(), times, statistic) for values in (old, new)
        )
        drawn.append(-np.subtract(*statistics))
    return np.concatenate(drawn)


@pytest.mark.parametrize(("metric", "statistic"), [("mrr", np.mean), ("median_rank", np.median)])
def test_comparison_equals_bootstrap_over_images(metric, statistic):
    """The slow oracle repeats the queries of the images that a sample draws."""
    one, other, (queries, old, new, images) = two_models(seed=3, key=f"cxc/t2t/{metric}")
    order = np.argsort(queries)
    found = compare(one, other, seed=7, samples=1200).differences[0]
    slow = slow_differences(old[order], new[order], images[order], statistic, 7, 1200)
    assert found.difference == pytest.approx(statistic(new) - statistic(old), abs=1e-12)
    np.testing.assert_allclose((found.low, found.high), np.quantile(slow, [0.025, 0.975]), atol=1e-12)
    fewer = min((slow <= 1e-12).sum(), (slow >= -1e-12).sum())
    assert found.p_value == pytest.approx(min(1, 2 * (1 + fewer) / 1201))
    gains = (new - old) if metric == "mrr" else (old - new)
    assert (found.better, found.worse) == ((gains > 0).sum(), (gains < 0).sum())
    assert (found.n_queries, found.n_images) == (images.size, 30)


def test_rsum_is_drawn_over_both_directions_together():
    random = np.random.default_rng(2)
    # the last images have captions alone
    images = np.arange(30)
    n_images = 40
    captions = np.repeat(np.arange(n_images), 5)
    keys = [f"coco_1k/{direction}/{recall}" for direction in ("i2t", "t2i") for recall in RECALLS]
    models = []
    values = []
    for name in ("old", "new"):
        behind = {key: images if "i2t" in key else captions for key in keys}
        hits = {key: (random.random(behind[key].size) < 0.5).astype(float) for key in keys}
        rsum = Result("coco_1k", "", "rsum", 100 * sum(one.mean() for one in hits.values()), 240)
        per_key = {key: (np.arange(behind[key].size), hits[key], behind[key]) for key in keys}
        models.append(scored(name, per_key, extra=(rsum,)))
        values.append(hits)
    found = compare(*models, samples=300).differences
    assert [one.key for one in found] == [*keys, "coco_1k/rsum"]
    slow = sum(
        100
        * slow_differences(
            values[0][key], values[1][key], images if "i2t" in key else captions, np.mean, 0, 300, n_images
        )
        for key in keys
    )
    np.testing.assert_allclose((found[-1].low, found[-1].high), np.quantile(slow, [0.025, 0.975]), atol=1e-9)
    assert found[-1].difference == pytest.approx(sum(100 * one.difference for one in found[:-1]))
    # The images of both directions are counted once, and a whole task has no queries to win.
    assert (found[-1].n_queries, found[-1].n_images, found[-1].better, found[-1].worse) == (240, n_images, 0, 0)


@pytest.mark.thorough
def test_under_no_difference_one_in_twenty_is_found():
    p_values = []
    for seed in range(300):
        random = np.random.default_rng(seed)
        base = random.random(80)
        pair = [
            scored(name, {"cxc/t2t/mrr": (np.arange(80), base + random.normal(0, 0.1, 80), np.arange(80))})
            for name in ("a", "b")
        ]
        p_values.append(compare(*pair, seed=seed, samples=400).differences[0].p_value)
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.10
    assert 0.40 < np.mean(np.array(p_values) < 0.5) < 0.60


def test_holm_equals_its_definition_over_all_subsets():
    """Holm is the closed test of Bonferroni: a hypothesis falls when every set of hypotheses with it falls."""
    random = np.random.default_rng(0)
    for _ in range(20):
        p_values = np.round(random.random(5) ** 3, 3).tolist()
        expected = []
        for one in range(5):
            subsets = [s for n in range(1, 6) for s in itertools.combinations(range(5), n) if one in s]
            expected.append(max(min(1.0, len(s) * min(p_values[i] for i in s)) for s in subsets))
        assert holm(p_values) == pytest.approx(expected)
    assert holm([]) == []


def test_holm_correction_covers_all_metrics_and_models():
    one, other, (queries, _, new, images) = two_models(gain=0.2)
    third = scored("third", {"cxc/t2t/mrr": (queries, np.clip(new + 0.1, 0, 1), images)})
    found = compare(one, other, third, samples=500)
    assert [row.model for row in found.differences] == ["new", "third"]
    assert [row.p_holm for row in found.differences] == holm([row.p_value for row in found.differences])
    assert found.differences[0].p_value == compare(one, other, samples=500).differences[0].p_value


def test_too_few_samples_for_the_tests_are_said():
    columns = (np.arange(9), np.arange(9) % 2, np.arange(9))
    keys = [f"cxc/{direction}/{metric}" for direction in ("i2t", "t2i") for metric in (*RECALLS, "mrr")]
    found = compare(*(scored(name, dict.fromkeys(keys, columns)) for name in ("a", "b")), samples=100)
    assert found.notes == (
        "no difference can be significant: with 100 samples and 8 tests, the smallest corrected p-value is 0.16, and "
        "the level is 0.05. Use at least 320 samples, or leave out --samples",
    )
    enough = compare(*(scored(name, dict.fromkeys(keys, columns)) for name in ("a", "b")), samples=320)
    assert enough.notes == ()
    assert len(compare(*(scored(n, dict.fromkeys(keys, columns)) for n in "ab"), samples=319).notes) == 1


@pytest.mark.parametrize(("confidence", "samples"), [(0.95, 10_000), (0.99, 10_000), (0.999, 80_000)])
def test_sample_count_follows_tests_and_confidence(confidence, samples):
    """The smallest p-value of so many samples makes a clear difference significant."""
    ids = np.arange(60)
    keys = [f"cxc/{direction}/{metric}" for direction in ("i2t", "t2i") for metric in (*RECALLS, "mrr")]
    worse, better = (dict.fromkeys(keys, (ids, np.full(60, value), ids)) for value in (0.0, 1.0))
    found = compare(scored("a", worse), scored("b", better), confidence=confidence)
    assert found.settings.samples == samples
    assert all(found.significant(one) for one in found.differences)
    assert found.notes == ()


def test_default_tests_cover_each_tasks_main_metric():
    """Holm's correction covers these tests alone."""
    random = np.random.default_rng(1)
    ids = np.arange(40)
    recalls = [f"coco_1k/{direction}/{recall}" for direction in ("i2t", "t2i") for recall in RECALLS]
    others = ["cxc/t2t/recall_at_1", "cxc/t2t/mrr", "eccv_caption/i2t/map_at_r", "plausible_match/i2t/pmrp_at_50"]
    models = []
    for name in ("old", "new"):
        per_key = {key: (ids, (random.random(40) < 0.5).astype(float), ids) for key in (*recalls, *others)}
        rsum = Result("coco_1k", "", "rsum", 100 * sum(per_key[key][1].mean() for key in recalls), 240)
        models.append(scored(name, per_key, extra=(rsum, Result("cxc", "i2t", "recall_at_1", 0.5, 40))))
    found = compare_main(*models)
    assert [one.key for one in found.differences] == [*others[:1], others[2], "coco_1k/rsum"]
    assert found.not_compared == {"new": {"cxc/i2t/recall_at_1": "there are no values of single queries"}}
    assert found.notes == ("plausible_match is not tested: its main metric is in neither report",)
    assert (found.settings.metrics, found.settings.samples) == ("main", 10_000)
    whole = compare(*models).differences
    assert {one.key for one in whole} == {*recalls, *others, "coco_1k/rsum"}
    assert next(one for one in whole if one.key == "coco_1k/rsum").p_value == found.differences[-1].p_value
    assert [one.p_holm for one in found.differences] == holm([one.p_value for one in found.differences])


def test_missing_common_main_metric_suggests_all_metrics():
    one, other, _ = two_models()
    with pytest.raises(InvalidOption, match=r"share no main metric of a task\. .*--all-metrics.*metrics=.all."):
        compare_main(one, other)
    with pytest.raises(InvalidOption, match="metrics is 'some', expected main or all"):
        compare_main(one, other, metrics="some")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"data": DATA | {"edition": "sample"}}, ["edition", "'official' for old", "'sample' for new"]),
        ({"data": DATA | {"version": "2"}}, ["version", "'1'", "'2'"]),
        ({"split": "validation"}, ["split", "'test'", "'validation'"]),
        ({"parameters": {"k": 5}}, ["parameters of cxc/t2t/mrr", "{}", "{'k': 5}"]),
        ({"data": DATA | {"fingerprint": "g", "files": {"karpathy": "k", "sts": "t"}}}, ["hash of sts", "'s'", "'t'"]),
        ({"data": DATA | {"fingerprint": "g", "files": {"karpathy": "k", "sis": "s"}}}, ["fingerprint", "'f'", "'g'"]),
        ({"data": DATA | {"fingerprint": "g", "files": {}}}, ["fingerprint", "'f'", "'g'"]),
        ({"data": {}}, ["new", "does not say which data"]),
    ],
    ids=["edition", "version", "split", "parameters", "a-file", "other-files", "no-files", "no-data"],
)
def test_reports_of_different_data_or_protocols_are_refused(change, parts):
    one, _, (queries, _, new, images) = two_models()
    other = scored("new", {"cxc/t2t/mrr": (queries, new, images)}, **change)
    with pytest.raises(InvalidOption) as caught:
        compare(one, other, samples=100)
    for part in parts:
        assert part in str(caught.value)


def test_a_model_that_needs_fewer_files_is_compared():
    one, _, (queries, _, new, images) = two_models()
    fewer = DATA | {"fingerprint": "g", "files": {"karpathy": "k"}}
    other = scored("new", {"cxc/t2t/mrr": (queries, new, images)}, data=fewer, similarity="dot")
    found = compare(one, other, samples=100)
    assert len(found.differences) == 1
    assert found.notes == ("similarity: None for old, dot for new",)


def test_uncomparable_metrics_are_listed_with_reasons():
    ids = np.arange(20)
    values = np.linspace(0, 1, 20)
    spearman = (
        Result("cxc", "sts", "bootstrap_spearman", 0.7, 20),
        Result("cxc", "sts", "bootstrap_spearman_std", 0.1, 20),
    )
    old = scored("old", {"cxc/t2t/mrr": (ids, values, ids), "entailment/i2t/mrr": (ids, values, ids)}, extra=spearman)
    new = scored(
        "new", {"cxc/t2t/mrr": (ids, values, ids), "entailment/i2t/mrr": (ids + 1, values, ids)}, extra=spearman
    )
    more = Result("coco_1k", "", "rsum", 300.0, 40), Result("cxc", "i2i", "mrr", 0.5, 20)
    new = ScoredReport(new.name, Report((*new.report.results, *more), {}, new.report.provenance), new.per_query)
    found = compare(old, new, samples=100)
    assert [one.key for one in found.differences] == ["cxc/t2t/mrr"]
    reasons = found.not_compared["new"]
    assert "different queries: 2 queries count" in reasons["entailment/i2t/mrr"]
    assert reasons["cxc/sts/bootstrap_spearman"] == reasons["cxc/sts/bootstrap_spearman_std"]
    assert "values of single queries" in reasons["cxc/sts/bootstrap_spearman"]
    assert reasons["cxc/i2i/mrr"] == reasons["coco_1k/rsum"] == "not in the report of old"
    assert len(reasons) == 5
    console = Console(width=200)
    with console.capture() as shown:
        console.print(str(found))
    assert "not in the report of old" in shown.get()


def test_values_of_another_report_are_refused(tmp_path):
    folders = [tmp_path / model.name for model in two_models()[:2]]
    for folder, seed in zip(folders, (0, 1), strict=True):
        two_models(seed)[0].report.save(folder)
    assert len(load_reports(folders)) == 2
    shutil.copy(folders[0] / "per_query.parquet", folders[1])
    with pytest.raises(DataError, match=r"per_query.parquet does not belong to the report.json beside it"):
        load_reports(folders)


@pytest.mark.parametrize(
    ("reports", "options", "message"),
    [
        ((0,), {}, "at least two"),
        ((0, 0), {}, "different names"),
        ((0, 1), {"seed": -1}, "seed is -1, expected a whole number of at least 0"),
        ((0, 1), {"samples": 99}, "samples is 99"),
        ((0, 1), {"confidence": 95}, "confidence is 95"),
    ],
)
def test_options_out_of_range_are_refused(reports, options, message):
    models = two_models()
    with pytest.raises(InvalidOption, match=message):
        compare(*(models[place] for place in reports), **options)


def test_reports_of_evaluate_are_compared_in_full(sample_library, make_run):
    """Every metric with per-query values; the averages of these are the report's own values."""
    models = [
        ScoredReport.of(
            str(seed), evaluate(make_run(sample_library, seed), data_dir=sample_library, progress=False, per_query=True)
        )
        for seed in (0, 1)
    ]
    for row in models[0].report.results:
        if (queries := models[0].per_query.get(row.key)) is not None:
            average = np.median if row.metric.endswith("median_rank") else np.mean
            assert (queries.query_ids.size, average(queries.values)) == (row.n_queries, pytest.approx(row.value))
    found = compare(*models, samples=100)
    compared = {one.key for one in found.differences}
    left_out = found.not_compared["1"]
    assert compared | left_out.keys() == set(models[0].report.scores)
    assert all("bootstrap_spearman" in key for key in left_out)
    assert {"cxc/t2t/median_rank", "eccv_caption/i2t/map_at_r", "plausible_match/t2i/pmrp"} <= compared
    assert any("entailment/i2t/entail_at_" in note and "of the pairs are judged for 0" in note for note in found.notes)


GOOD = rows("cxc/t2t/mrr", [1, 2], [0.5, 1.0], [7, 8])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (GOOD.set_column(4, "value", pa.array([0.5, float("nan")])), "cxc/t2t/mrr: found a value of query 2"),
        (GOOD.set_column(0, "query_id", pa.array([2, 2])), "query 2 twice"),
    ],
)
def test_malformed_values_are_refused_with_their_place(table, message):
    with pytest.raises(MalformedSource, match=message):
        query_values(table, "per_query.parquet")


def test_a_report_without_values_of_queries_is_refused():
    with pytest.raises(DataError, match="a: A comparison needs the values of single queries"):
        ScoredReport.of("a", Report((), {}, Provenance(split="test")))


def test_agreement_equals_kendalls_tau_b():
    random = np.random.default_rng(0)
    names = [f"model {number}" for number in range(12)]
    columns = {metric: random.integers(0, 8, 12).astype(float) for metric in "abc"}
    scores = {metric: dict(zip(names, values, strict=True)) for metric, values in columns.items()}
    found = metric_agreement(scores | {"c": dict(reversed(scores["c"].items()))}, lower_is_better=["b"])
    for one, other in itertools.product("abc", repeat=2):
        sign = -1 if (one == "b") != (other == "b") else 1
        assert found.between(one, other) == pytest.approx(sign * kendalltau(columns[one], columns[other]).statistic)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({}, "no metric"),
        ({"a": {"x": 1, "y": 2, "z": 3}, "b": {"x": 1, "y": 2, "w": 3}}, "only one of the two has w, z"),
        ({"a": {"x": 1, "y": 2}}, "ranks 2 models"),
        ({"a": {"x": 1, "y": 1, "z": 1}}, "all models tie"),
        ({"a": {"x": 1, "y": 1, "z": float("nan")}}, "not finite"),
    ],
)
def test_an_agreement_that_has_no_value_is_refused(scores, message):
    with pytest.raises(DataError, match=message):
        metric_agreement(scores)


@pytest.mark.parametrize(("policy", "notes"), [("classifier", 1), ("not_entailed", 0)])
def test_differences_judged_by_a_classifier_carry_a_caution(policy, notes):
    values = {"entailment/i2t/entail_at_1": (np.arange(40), np.arange(40) % 3 / 2, np.arange(40))}
    models = [scored(name, values, parameters={"unjudged": policy}) for name in ("old", "new")]
    told = [note for note in compare(*models).notes if "interval over images only" in note]
    assert len(told) == notes
    assert all("--number entailment/i2t/entail_at_1" in note for note in told)
