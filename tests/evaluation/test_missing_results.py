"""Queries without results that count 0: equal to trec_eval -c, named by reports, refused where 0 means nothing."""

import json

import numpy as np
import pytest

import cxc_eccv as ce
from cxc_eccv.errors import (
    CxcEccvError,
    InvalidOption,
    MalformedRun,
    MissingIds,
    ReportRefused,
    UnknownIds,
    UnknownName,
)
from cxc_eccv.hub.checks import checked_report
from cxc_eccv.registry import task
from cxc_eccv.report import Report
from cxc_eccv.runs import RankingsRun, ScoresRun, load_run

SEED = 7


@pytest.fixture(scope="module")
def split(sample_library):
    return sample_library.split("test")


def shuffle_all(split, direction, seed=SEED):
    """Complete rankings of all queries in random order."""
    random = np.random.default_rng(seed)
    queries, items = split.image_ids, split.caption_ids
    if direction == "t2i":
        queries, items = items, queries
    return {int(query): random.permutation(items).tolist() for query in queries}


def lose(rankings, *, empty=False, share=0.3):
    """The rankings without those of some queries, or with empty ones."""
    random = np.random.default_rng(SEED + 1)
    lost = {query for query in rankings if random.random() < share}
    held = {query: items for query, items in rankings.items() if query not in lost}
    return {query: rankings[query] if query in held else [] for query in rankings} if empty else held


def score_by_trec_eval(judgments, rankings, measures):
    """Means over all queries of the judgments, those without results as 0, as trec_eval -c."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels = {}
    for row, item in zip(judgments.rows, judgments.indices, strict=True):
        qrels.setdefault(str(judgments.query_ids[row]), {})[str(judgments.gallery_ids[item])] = 1
    runs = {
        str(query): {str(item): float(-rank) for rank, item in enumerate(items)} for query, items in rankings.items()
    }
    values = pytrec_eval.RelevanceEvaluator(qrels, {"recip_rank", "success", "Rprec"}).evaluate(runs)
    return {name: sum(row[name] for row in values.values()) / len(qrels) for name in measures}


TREC_EVAL = {"mrr": "recip_rank", "recall_at_1": "success_1", "recall_at_5": "success_5", "r_precision": "Rprec"}


@pytest.mark.parametrize("empty", [False, True], ids=["absent", "empty"])
@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("name", ["coco_5k", "eccv_caption"])
def test_means_equal_trec_eval(split, sample_library, name, direction, empty):
    whole = shuffle_all(split, direction)
    run = RankingsRun.from_dicts(**{direction: lose(whole, empty=empty)})
    report = ce.evaluate(run, f"{name}/{direction}", data_dir=sample_library, metrics=[*TREC_EVAL], missing="zero")
    expected = score_by_trec_eval(task(name).judgments(split, direction), lose(whole), TREC_EVAL.values())
    for label, measure in TREC_EVAL.items():
        assert report.scores[f"{name}/{direction}/{label}"] == pytest.approx(expected[measure], abs=1e-12)
    judged = set(task(name).judgments(split, direction).query_ids.tolist())
    for result in report.results:
        assert result.parameters["queries_without_results"] == len(judged - lose(whole).keys()) > 0
        assert (result.n_queries, result.chance) == (len(judged), None)


def test_every_default_metric_is_a_padded_mean(split, sample_library):
    """Of the queries with results, by an evaluation of these alone; folds, gains and categories too."""
    whole = {direction: shuffle_all(split, direction) for direction in ("i2t", "t2i")}
    complete = ce.evaluate(RankingsRun.from_dicts(**whole), data_dir=sample_library, per_query=True)
    held = {direction: lose(rankings) for direction, rankings in whole.items()}
    report = ce.evaluate(RankingsRun.from_dicts(**held), data_dir=sample_library, per_query=True, missing="zero")
    frame = complete.per_query.to_pandas()
    has_results = [query in held[way] for query, way in zip(frame["query_id"], frame["direction"], strict=True)]
    frame["value"] = frame["value"].where(has_results, 0.0)
    expected = frame.groupby(["task", "direction", "metric"], observed=True)["value"].mean()
    compared = [result for result in report.results if result.direction]
    assert {"entailment", "plausible_match", "cxc_rated"} <= {result.task for result in compared}
    for result in compared:
        value = expected[result.task, result.direction, result.metric]
        assert result.value == pytest.approx(value, abs=1e-12), result.key
        assert result.low <= result.value <= result.high
    lost = {result.key for result in complete.results} - {result.key for result in report.results}
    assert {key.rpartition("/")[2] for key in lost} == {"median_rank"}
    reason = "queries have no results, which can count 0 only where 0 is the worst value"
    assert all(reason in report.skipped[key] for key in lost)
    assert len(report.per_query) == sum(result.n_queries for result in compared)
    shown = set(report.examples["query_id"].to_pylist())
    assert shown <= {*held["i2t"], *held["t2i"]}


def test_rsum_sums_up_what_counts_zero(split, sample_library):
    whole = {direction: lose(shuffle_all(split, direction)) for direction in ("i2t", "t2i")}
    both = ce.evaluate(RankingsRun.from_dicts(**whole), "coco_5k", data_dir=sample_library, missing="zero")
    recalls = [value for key, value in both.scores.items() if "/recall_at_" in key]
    assert both.scores["coco_5k/rsum"] == pytest.approx(100 * sum(recalls))
    one = ce.evaluate(RankingsRun.from_dicts(t2i=whole["t2i"]), "coco_5k", data_dir=sample_library, missing="zero")
    assert one.skipped["coco_5k/rsum"] == "needs i2t too"


def test_option_changes_nothing_where_all_have_results(split, sample_library):
    run = RankingsRun.from_dicts(t2i=shuffle_all(split, "t2i"))
    plain = ce.evaluate(run, "coco_5k/t2i", data_dir=sample_library)
    report = ce.evaluate(run, "coco_5k/t2i", data_dir=sample_library, missing="zero")
    assert report.results == plain.results


def test_cut_rankings_stay_cut(split, sample_library):
    """A ranking that ends early is not one without results."""
    cut = {query: items[:3] for query, items in lose(shuffle_all(split, "t2i")).items()}
    run = RankingsRun.from_dicts(t2i=cut)
    report = ce.evaluate(run, "coco_5k/t2i", data_dir=sample_library, missing="zero")
    assert "coco_5k/t2i/recall_at_1" in report.scores
    assert "looks at the top 5, but its ranking ends at rank 3" in report.skipped["coco_5k/t2i/recall_at_5"]


def test_report_names_and_submit_refuses_it(split, sample_library, tmp_path):
    run = RankingsRun.from_dicts(t2i=lose(shuffle_all(split, "t2i")))
    report = ce.evaluate(run, "coco_5k", data_dir=sample_library, missing="zero")
    lacking = report.results[0].parameters["queries_without_results"]
    note = f"ounted as 0 (--missing zero) in each task, up to {lacking} of 300 text to image"
    assert json.loads(report.to_json())["provenance"]["options"] == {"missing": "zero"}
    assert report.departure == "other options, missing=zero"
    report.save(tmp_path)
    for shown in [str(report), (tmp_path / "report.md").read_text(), (tmp_path / "report.html").read_text()]:
        assert note in shown.replace("\\", "")
    assert Report.from_json((tmp_path / "report.json").read_text()).results == report.results
    with pytest.raises(ReportRefused):
        checked_report(tmp_path)


REFUSED = {
    "other value": ({"missing": "one"}, UnknownName, "zero"),
    "no text": ({"missing": 0}, InvalidOption, "missing is 0, expected 'zero' or None"),
    "allow_missing": ({"missing": "zero", "allow_missing": True}, InvalidOption, "set one of the two"),
    "bounds": ({"missing": "zero", "bounds": True}, InvalidOption, "leave one of the two out"),
}


@pytest.mark.parametrize(("options", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_contradicting_options_are_refused(split, sample_library, options, error, message):
    run = RankingsRun.from_dicts(t2i=lose(shuffle_all(split, "t2i")))
    with pytest.raises(error, match=message):
        ce.evaluate(run, "coco_5k/t2i", data_dir=sample_library, **options)


def refuse(sample_library, rankings, error, **options):
    with pytest.raises(error) as caught:
        ce.evaluate(RankingsRun.from_dicts(**rankings), "coco_5k", data_dir=sample_library, **options)
    return str(caught.value)


def test_unknown_query_is_refused_as_ever(split, sample_library):
    for items in ([int(split.image_ids[0])], []):
        rankings = {**lose(shuffle_all(split, "t2i")), 999_999_999: items}
        message = refuse(sample_library, {"t2i": rankings}, UnknownIds, missing="zero")
        assert "1 of" in message
        assert "999999999" in message


def test_swapped_directions_are_refused(split, sample_library):
    both = {"i2t": shuffle_all(split, "t2i"), "t2i": shuffle_all(split, "i2t")}
    message = refuse(sample_library, both, CxcEccvError, missing="zero")
    assert "images and captions are swapped" in message


def test_without_the_option_remedies_are_named(split, sample_library):
    whole = shuffle_all(split, "t2i")
    assert "missing='zero' (--missing zero)" in refuse(sample_library, {"t2i": lose(whole)}, MissingIds)
    message = refuse(sample_library, {"t2i": lose(whole, empty=True)}, MalformedRun)
    assert "is empty; rank its gallery" in message
    assert "--missing zero" in message


def test_named_metric_without_a_worst_value_is_refused(split, sample_library):
    rankings = {"t2i": lose(shuffle_all(split, "t2i"))}
    message = refuse(sample_library, rankings, CxcEccvError, missing="zero", metrics="median_rank")
    assert "only where 0 is the worst value" in message


@pytest.fixture(scope="module")
def outside_eccv(split):
    """Rankings of two captions that are no queries of ECCV Caption."""
    queries = np.setdiff1d(split.caption_ids, task("eccv_caption").judgments(split, "t2i").query_ids)[:2]
    return {int(query): split.image_ids.tolist() for query in queries}


def test_task_without_results_is_skipped(split, sample_library, outside_eccv):
    run = RankingsRun.from_dicts(t2i=outside_eccv)
    report = ce.evaluate(run, data_dir=sample_library, missing="zero")
    alone = ce.evaluate(run, "coco_5k", data_dir=sample_library, missing="zero")
    assert {key: report.scores[key] for key in alone.scores} == alone.scores
    n_queries = task("eccv_caption").judgments(split, "t2i").query_ids.size
    assert report.skipped["eccv_caption/t2i"] == f"none of its {n_queries} queries has results"


def test_named_task_without_results_is_refused(sample_library, outside_eccv):
    run = RankingsRun.from_dicts(t2i=outside_eccv)
    with pytest.raises(
        MissingIds, match=r"none of the queries of eccv_caption/t2i\. .*--tasks coco_5k/t2i\)"
    ) as caught:
        ce.evaluate(run, ["coco_5k", "eccv_caption"], data_dir=sample_library, missing="zero")
    assert "--missing zero" not in str(caught.value)


@pytest.mark.parametrize("directions", [["t2i"], ["i2t", "t2i"]])
def test_direction_without_results_is_refused(split, sample_library, directions):
    """A file of another split, in one direction or both."""
    other = sample_library.split("validation")
    rankings = {"t2i": {int(other.caption_ids[0]): split.image_ids.tolist()}}
    if "i2t" in directions:
        rankings["i2t"] = shuffle_all(split, "i2t")
    with pytest.raises(MissingIds, match=r"none of the queries of coco_5k/t2i, .*right file"):
        ce.evaluate(RankingsRun.from_dicts(**rankings), data_dir=sample_library, missing="zero")


def test_remedy_names_allow_missing_where_allowed(split, sample_library):
    one = {"t2i": lose(shuffle_all(split, "t2i"))}
    assert "--allow-missing" in refuse(sample_library, one, MissingIds)
    report = ce.evaluate(RankingsRun.from_dicts(**one), "coco_5k", data_dir=sample_library, allow_missing=True)
    assert report.scores
    both = {**one, "i2t": shuffle_all(split, "i2t")}
    assert "--allow-missing" not in refuse(sample_library, both, MissingIds)
    foreign = {"t2i": {999_999_999: split.image_ids.tolist()}}
    message = refuse(sample_library, foreign, MissingIds)
    assert "is it the right file" in message
    assert "--allow-missing" not in message


def test_scores_and_vectors_refuse_it(split, sample_library):
    run = ScoresRun(split.image_ids, split.caption_ids, np.zeros((split.image_ids.size, split.caption_ids.size)))
    with pytest.raises(InvalidOption, match=r"\(--missing\) is for rankings"):
        ce.evaluate(run, "coco_5k", data_dir=sample_library, missing="zero")


def test_json_file_with_empty_lists(split, sample_library, tmp_path):
    file = tmp_path / "run_t2i.json"
    file.write_text(json.dumps(lose(shuffle_all(split, "t2i"), empty=True)))
    report = ce.evaluate(load_run(file), "coco_5k/t2i", data_dir=sample_library, missing="zero")
    given = RankingsRun.from_dicts(t2i=lose(shuffle_all(split, "t2i")))
    assert report.scores == ce.evaluate(given, "coco_5k/t2i", data_dir=sample_library, missing="zero").scores


def test_runs_that_lack_other_queries_compare(split, sample_library):
    """How many queries a run left out is a fact of the run, not of the protocol."""
    reports = {}
    for name, share in (("few", 0.1), ("many", 0.4)):
        rankings = lose(shuffle_all(split, "t2i"), share=share)
        options = {"missing": "zero", "tasks": "coco_5k", "per_query": True, "data_dir": sample_library}
        reports[name] = ce.evaluate(t2i=rankings, name=name, **options)
    ranks = {
        row.model: row.value for row in ce.compare(reports["few"], reports["many"]).ranks if row.metric == "recall_at_1"
    }
    assert ranks == {name: report.scores["coco_5k/t2i/recall_at_1"] for name, report in reports.items()}
