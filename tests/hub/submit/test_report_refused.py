"""Which reports are refused, and with what reason; none of this needs the Hub."""

import socket

import numpy as np
import pytest
from official import FILES, SCORES, edited, official_report
from owner_addresses import write_metadata

from cxc_eccv.cli.app import main
from cxc_eccv.errors import ReportRefused
from cxc_eccv.evaluation import evaluate
from cxc_eccv.hub import checks
from cxc_eccv.hub.checks import checked_report


def checked(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_text(text)
    return checked_report(path)


def test_a_report_of_the_official_data_is_accepted(tmp_path):
    report = checked(tmp_path, official_report())
    assert report.scores == {key: value for key, (value, _) in SCORES.items()}


@pytest.fixture
def no_network(monkeypatch):
    """Connections fail, also those to this machine."""

    def refuse(*_):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.delenv("HF_TOKEN", raising=False)


def test_a_report_is_checked_without_the_hub(tmp_path, no_network, capsys, monkeypatch):
    """Neither a token nor the names of repositories are needed."""
    write_metadata(tmp_path / "metadata", {})
    monkeypatch.syspath_prepend(tmp_path / "metadata")
    path = tmp_path / "report.json"
    path.write_text(official_report())

    def submit(*options):
        with pytest.raises(SystemExit) as ended:
            main(["submit", str(path), *options])
        shown = capsys.readouterr()
        return ended.value.code or 0, shown.out, shown.err

    status, out, _ = submit("--check")
    assert status == 0
    by_default, _, others = out.partition("only where the dataset's eval.yaml declares them")
    assert "  eccv_caption_i2t_map_at_r: 0.3125\n" in by_default
    assert "  eccv_caption/i2t: r_precision, recall_at_1, recall_at_5\n" in others
    assert "  cxc/i2t: median_rank\n" in others
    assert "Not checked yet: the eval.yaml and the raw files of the benchmark's dataset.\n" in out
    status, out, _ = submit("--check", "--tasks", "cxc/t2t", "--dataset", "org/data")
    assert "cxc_t2t_recall_at_1: 0.25\nNot checked yet: the eval.yaml and the raw files of org/data." in out
    status, out, _ = submit("--check", "--model", "me/clip", "--dataset", "org/data")
    assert (status, out.partition("Not checked yet")[2]) == (0, ": the eval.yaml and the raw files of org/data.\n")
    for options, message in (
        (["--check", "--yes"], "leave out --check or --yes"),
        ([], "with --model, or check the report alone with --check"),
        (["--check", "--tasks", "entailment"], "has no result of entailment that the leaderboard has a task for"),
    ):
        status, _, err = submit(*options)
        assert status == 2
        assert message in err
    path.write_text(official_report(split="validation"))
    assert "it covers the split 'validation'" in submit("--check")[2]
    path.write_text(official_report({"cxc/i2t/median_rank": (2.0, {})}))
    assert "has no result of any task that the leaderboard has a task for" in submit("--check")[2]


def set_facts(**facts):
    return lambda content: content["provenance"].update(facts)


def set_data(**fields):
    return lambda content: content["provenance"]["data"].update(fields)


def set_package(**fields):
    return lambda content: content["provenance"]["package"].update(fields)


def set_result(**fields):
    return lambda content: content["results"][0].update(fields)


BOUNDS = {"low": 0.25, "high": 0.75, "unjudged": 3, "retrieved": 9, "expected": None}
PART = {"limit": 200, "images": {"used": 200, "of": 5_000}}

EDITS = {
    "edition": (set_data(edition="sample"), "edition 'sample', not the official data"),
    "part": (set_facts(restriction=PART), "computed from a part of the split, 200 of 5,000 images"),
    "labels": (
        set_facts(labels={"sources": ["coco"], "policy": "union", "files": {}}),
        "computed from the labels coco instead of those of each task",
    ),
    "data-version": (set_data(version="0.9.0"), "version 0.9.0 of the data, not 1.0.0"),
    "modified-files": (
        set_data(modified={"sts_test": {"expected": "a", "found": "b"}}),
        "computed from modified raw files, sts_test",
    ),
    "own-file": (set_data(files=FILES | {"entailment_test": "a" * 64}), "it uses files of your own: entailment_test"),
    "no-files": (set_data(files={}), "does not name this package and its data"),
    "package": (set_package(name="other"), "does not name this package"),
    "split": (set_facts(split="validation"), "covers the split 'validation'"),
    "no-provenance": (lambda content: content.update(provenance=[]), "provenance: found [], expected an object"),
    "schema": (lambda content: content.update(schema=2), "not a report.json of schema 1"),
    "skipped": (lambda content: content.update(skipped={"cxc": 1}), "skipped, cxc: found 1, expected text"),
    "text-value": (set_result(value="0.3"), "results[0], value: found '0.3', expected a finite decimal number"),
    "no-metric": (lambda content: content["results"][0].pop("metric"), "expected an entry 'metric'"),
    "no-queries": (set_result(n_queries=0), "n_queries: found 0, expected a whole number of at least 1"),
    "ties": (set_result(ties=-1), "ties: found -1, expected a whole number of at least 0"),
    "interval": (set_result(low="0.3"), "results[0], low: found '0.3', expected a finite decimal number"),
    "coverage": (set_result(coverage=1.5), "results[0], coverage: found 1.5, expected a fraction"),
    "parameters": (set_result(parameters=[]), "parameters: found [], expected an object"),
    "bounds": (set_result(bounds=BOUNDS | {"retrieved": 0}), "bounds, retrieved: found 0"),
    "expected": (set_result(bounds=BOUNDS | {"expected": "x"}), "bounds, expected: found 'x'"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_report_is_refused_with_the_reason(tmp_path, name):
    edit, message = EDITS[name]
    with pytest.raises(ReportRefused) as caught:
        checked(tmp_path, edited(official_report(), edit))
    assert message in str(caught.value)
    assert "report.json" in str(caught.value)


OURS = "1.10.0"
SINCE = "1.2.0"


@pytest.fixture
def later_release(monkeypatch):
    """This package some releases later, which last changed a number of the leaderboard in SINCE."""
    monkeypatch.setattr("cxc_eccv.version.__version__", OURS)
    monkeypatch.setattr(checks, "COMPARABLE_SINCE", SINCE)


@pytest.mark.parametrize("version", [OURS, "1.9.3", SINCE])
def test_report_of_release_with_equal_numbers_counts(tmp_path, later_release, version):
    assert checked(tmp_path, edited(official_report(), set_package(version=version))).scores


CHANGED = "numbers have changed in 1.2.0"
NEWER = "which is older; submit with"
NO_RELEASE = "if both are releases"


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.1.9", CHANGED),
        ("0.1.0", CHANGED),
        ("1.10.1", NEWER),
        ("2.0.0", NEWER),
        ("1.9.3.dev1", NO_RELEASE),
        ("1.9.3rc1", NO_RELEASE),
        ("1.9.3+mine", NO_RELEASE),
        ("1.10.0+mine", NO_RELEASE),
        ("1.9", NO_RELEASE),
        ("1.9.\u0663", NO_RELEASE),
        ("", NO_RELEASE),
    ],
)
def test_report_of_version_with_other_numbers_is_refused(tmp_path, later_release, version, reason):
    with pytest.raises(ReportRefused) as caught:
        checked(tmp_path, edited(official_report(), set_package(version=version)))
    assert f"cxc_eccv {version} computed it, and this is {OURS}" in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(("ours", "accepted"), [("1.3.0.dev1", ["1.3.0.dev1"]), ("1.3.0", ["1.3.0", "1.2.0"])])
def test_development_version_takes_its_own_reports_alone(tmp_path, later_release, monkeypatch, ours, accepted):
    monkeypatch.setattr("cxc_eccv.version.__version__", ours)
    for version in ("1.3.0.dev1", "1.3.0", "1.2.0"):
        fault = checks._find_version_fault(version)
        assert (fault is None) == (version in accepted), fault


def test_comparable_release_is_no_later_than_ours():
    assert checks._is_release(checks.COMPARABLE_SINCE)
    assert checks._find_version_fault(checks.COMPARABLE_SINCE) is None


def test_other_parameters_than_the_defaults_are_refused(tmp_path):
    scores = {"entailment/i2t/entail_at_1": (0.5, {"k": 1, "unjudged": "leave_out"})}
    with pytest.raises(ReportRefused, match="computed with unjudged='leave_out', expected 'not_entailed'"):
        checked(tmp_path, official_report(scores))


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1'])
def test_other_files_are_refused(tmp_path, text):
    with pytest.raises(ReportRefused, match=r"report\.json"):
        checked(tmp_path, text)


def test_a_key_given_twice_is_refused(tmp_path):
    twice = official_report().replace('"schema": 1', '"schema": 1, "schema": 1')
    with pytest.raises(ReportRefused, match="key 'schema': found it twice"):
        checked(tmp_path, twice)


def test_a_seed_of_draws_is_free(tmp_path):
    assert checked(tmp_path, official_report({"cxc/sts/bootstrap_spearman": (0.7, {"seed": 5})})).scores


def test_a_folder_stands_for_its_report(tmp_path):
    checked(tmp_path, official_report())
    assert checked_report(tmp_path).scores.keys() == SCORES.keys()


def test_a_report_of_the_sample_is_refused(tmp_path, sample_library, make_run):
    report = evaluate(make_run(sample_library), "eccv_caption", data_dir=sample_library)
    with pytest.raises(ReportRefused, match="edition 'sample'"):
        checked(tmp_path, report.to_json())


def test_a_report_of_the_real_data_is_accepted(tmp_path, real_library, make_run):
    run = make_run(real_library, width=4)
    report = evaluate(run, ["eccv_caption", "cxc_rated"], data_dir=real_library, confidence=None)
    accepted = checked(tmp_path, report.to_json())
    assert accepted.scores == report.scores
    assert np.isfinite(list(accepted.scores.values())).all()
