"""Logs of Every Eval Ever keep what a report says, and follow the schemas of its package, which are copied here."""

import hashlib
import importlib.util
import json
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import run_command
from report_samples import sample_report

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.hub.every_eval_ever import SCHEMA_VERSION, write_every_eval_ever
from cxc_eccv.types import Result
from cxc_eccv.types.provenance import Provenance, RestrictionFacts, SideShare

SCHEMAS = Path(__file__).parent / "every_eval_ever_schemas"
WHO = {"organization": "A Lab", "relationship": "third_party"}
MODEL = "org/near"


@pytest.fixture(scope="module")
def report(sample_library):
    metrics = ("recall_at_k", "median_rank", "mean_rank", "map_at_r", "bootstrap_spearman")
    return sample_report(sample_library, tasks=("coco_5k", "cxc"), metrics=metrics)[1]


@pytest.fixture(scope="module")
def folder(report, tmp_path_factory):
    place = tmp_path_factory.mktemp("logs")
    write_every_eval_ever(place, {MODEL: report}, **WHO)
    return place


@pytest.fixture(scope="module")
def log(folder):
    return read_log(folder)


def read_log(folder):
    (file,) = folder.rglob("*.json")
    return json.loads(file.read_text())


def read_lines(folder):
    (file,) = folder.rglob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def scores(log):
    return {result["evaluation_result_id"]: result for result in log["evaluation_results"]}


def test_log_follows_the_schema(folder):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed; it comes with the extra 'dev'")
    (file,) = folder.rglob("*.json")
    command = [sys.executable, "-m", "check_jsonschema", "--schemafile", SCHEMAS / "eval.schema.json", file]
    assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_lines_of_queries_follow_the_schema(folder):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema comes with check-jsonschema, of the extra 'dev'")
    schema = json.loads((SCHEMAS / "instance_level_eval.schema.json").read_text())
    check = jsonschema.Draft7Validator(schema)
    lines = read_lines(folder)
    assert len(lines) > 1000
    assert [error.message for line in lines for error in check.iter_errors(line)] == []


def test_schemas_are_of_the_version_written():
    for schema in SCHEMAS.glob("*.json"):
        assert json.loads(schema.read_text())["version"] == SCHEMA_VERSION


@pytest.mark.skipif(
    importlib.util.find_spec("every_eval_ever") is None,
    reason="every-eval-ever is not installed; it needs Python 3.12 and comes with the extra 'dev'",
)
def test_the_package_of_the_standard_agrees(folder):
    from every_eval_ever.schema import schema_text

    for schema in SCHEMAS.glob("*.json"):
        assert schema.read_text() == schema_text(schema.name)
    command = [sys.executable, "-m", "every_eval_ever", "validate", "data/*/*/*/*.json*"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout  # 2 for a warning
    assert "2 passed" in done.stdout


def test_every_score_of_the_report_is_kept(log, report):
    kept = {key: result["score_details"]["score"] for key, result in scores(log).items()}
    spreads = {key for key in report.scores if key.endswith("_std")}
    assert spreads
    assert kept == {key: value for key, value in report.scores.items() if key not in spreads}
    for key in spreads:
        details = scores(log)[key.removesuffix("_std")]["score_details"]["details"]
        assert float(details["standard_deviation_over_samples"]) == report.scores[key]


def test_ranks_are_better_lower_and_without_limit(log):
    lower = {key for key, result in scores(log).items() if result["metric_config"]["lower_is_better"]}
    assert lower == {key for key in scores(log) if key.endswith("_rank")}
    assert len(lower) == 2 * (2 + 4)
    for key in lower:
        config = scores(log)[key]["metric_config"]
        assert (config["metric_unit"], config["min_score"], config["max_score"]) == ("rank", 1, "Infinity")


@pytest.mark.parametrize(
    ("key", "unit", "lowest", "highest"),
    [
        ("coco_5k/i2t/recall_at_1", "proportion", 0, 1),
        ("cxc/t2t/map_at_r", "proportion", 0, 1),
        ("cxc/sts/bootstrap_spearman", "correlation", -1, 1),
    ],
)
def test_values_have_unit_and_range_of_the_report(log, key, unit, lowest, highest):
    config = scores(log)[key]["metric_config"]
    assert (config["metric_unit"], config["min_score"], config["max_score"]) == (unit, lowest, highest)


def test_intervals_have_level_method_and_number(log, report):
    results = {result.key: result for result in report.results}
    for key, result in scores(log).items():
        uncertainty = result["score_details"]["uncertainty"]
        interval = uncertainty["confidence_interval"]
        assert (interval["lower"], interval["upper"]) == (results[key].low, results[key].high)
        assert interval["confidence_level"] == 0.95
        assert interval["method"].startswith(f"{results[key].interval_method}: ")
        of_queries = results[key].interval_method != "binomial_images"
        assert uncertainty.get("num_samples") == (results[key].n_queries if of_queries else None)


def test_score_without_interval_gets_none(sample_library, tmp_path):
    _, report = sample_report(sample_library, tasks="coco_5k", intervals="none")
    write_every_eval_ever(tmp_path, {MODEL: report}, **WHO)
    for result in scores(read_log(tmp_path)).values():
        assert "uncertainty" not in result["score_details"]
        assert int(result["score_details"]["details"]["n_queries"]) > 0


def test_number_behind_interval_of_images_is_unknown(sample_library, tmp_path):
    _, report = sample_report(sample_library, tasks="coco_5k/t2i", intervals="binomial_images")
    write_every_eval_ever(tmp_path, {MODEL: report}, **WHO)
    uncertainty = scores(read_log(tmp_path))["coco_5k/t2i/recall_at_1"]["score_details"]["uncertainty"]
    assert uncertainty["confidence_interval"]["method"].startswith("binomial_images: Wilson's")
    assert "num_samples" not in uncertainty


def test_lines_of_queries_average_to_recall(folder, log, report):
    lines = read_lines(folder)
    parts = {line["evaluation_result_id"] for line in lines}
    assert parts == {key for key in report.scores if key.endswith("recall_at_1")}
    for key in parts:
        values = [line["evaluation"]["score"] for line in lines if line["evaluation_result_id"] == key]
        assert np.mean(values) == pytest.approx(report.scores[key], abs=1e-12)
    for line in lines:
        is_first = line["metadata"]["best_rank"] == "1"
        assert line["evaluation"]["is_correct"] is is_first is (line["evaluation"]["score"] == 1)
        assert line["evaluation_id"] == log["evaluation_id"]


def test_log_names_its_lines_and_their_hash(folder, log):
    details = log["detailed_evaluation_results"]
    content = (folder / details["file_path"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == details["checksum"]
    assert content.count(b"\n") == details["total_rows"]
    (file,) = folder.rglob("*.json")
    assert uuid.UUID(file.stem).version == 4
    assert file.parent == folder / "data" / "cxc_eccv.sample" / "org" / "near"


def test_report_without_queries_has_no_lines(report, tmp_path):
    (path,) = write_every_eval_ever(tmp_path, {MODEL: replace(report, per_query=None)}, **WHO)
    assert "detailed_evaluation_results" not in json.loads(path.read_text())


def test_writing_again_replaces_the_log(report, tmp_path):
    first = write_every_eval_ever(tmp_path, {MODEL: report}, **WHO)
    again = write_every_eval_ever(tmp_path, {MODEL: report}, organization="A Lab", relationship="other")
    assert first == again
    assert read_log(tmp_path)["source_metadata"]["evaluator_relationship"] == "other"


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ({"organization": None}, "say who evaluated and publishes the scores: --organization NAME"),
        ({"organization": " "}, "--organization NAME"),
        ({"relationship": None}, "with --relationship: first_party"),
    ],
)
def test_who_evaluated_is_asked_for(report, tmp_path, who, message):
    with pytest.raises(InvalidOption, match=message):
        write_every_eval_ever(tmp_path, {MODEL: report}, **WHO | who)
    assert list(tmp_path.iterdir()) == []


def test_unknown_relationship_is_refused(report, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'first_party'"):
        write_every_eval_ever(tmp_path, {MODEL: report}, organization="A Lab", relationship="firstparty")


@pytest.mark.parametrize("model", ["clip", "clip.npz", "a/b/c", "../b", "a/..", "data/b", "a/data", "a/b.", "a b/c"])
def test_what_is_no_model_id_is_refused(report, tmp_path, model):
    with pytest.raises(InvalidOption, match="is not the id of a model"):
        write_every_eval_ever(tmp_path, {model: report}, **WHO)
    assert list(tmp_path.iterdir()) == []


def test_scores_of_something_else_are_refused(report, tmp_path):
    part = RestrictionFacts(images=SideShare(30, 60))
    on_a_part = replace(report, provenance=replace(report.provenance, restriction=part))
    with pytest.raises(InvalidOption, match="the report is on a part of the split, 30 of 60 images"):
        write_every_eval_ever(tmp_path, {MODEL: on_a_part}, **WHO)
    judged = Result("entailment", "i2t", "entail_at_1", 0.5, 10, parameters={"k": 1, "unjudged": "leave_out"})
    with pytest.raises(InvalidOption, match="was computed with unjudged='leave_out'"):
        write_every_eval_ever(tmp_path, {MODEL: replace(report, results=(judged,))}, **WHO)
    with pytest.raises(InvalidOption, match="the report has no score"):
        write_every_eval_ever(tmp_path, {MODEL: replace(report, results=(), provenance=Provenance())}, **WHO)


def test_command_asks_for_the_model(report, tmp_path):
    report.save(tmp_path / "out")
    words = ("report", tmp_path / "out", "--format", "every-eval-ever", "--output", tmp_path / "logs")
    claims = ("--organization", "A Lab", "--relationship", "first_party")
    _, error = run_command(*words, *claims, status=2)
    assert "--name DEVELOPER/MODEL" in error
    out, _ = run_command(*words, *claims, "--name", MODEL)
    assert "_samples.jsonl" in out
    assert scores(read_log(tmp_path / "logs")).keys() <= report.scores.keys()
    _, error = run_command("report", tmp_path / "out", *claims, status=2)
    assert "--organization is for --format every-eval-ever" in error
