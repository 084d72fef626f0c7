"""Which reports are refused, and with what reason; none of this needs the Hub."""

import dataclasses
import json
import shutil
import socket

import numpy as np
import pytest
from official import FILES, SCORES, edited, official_report, result

from cxc_eccv.cli.app import main
from cxc_eccv.errors import InvalidOption, ReportRefused
from cxc_eccv.evaluation import evaluate, report_to_json
from cxc_eccv.evaluation.report_files import RESULT
from cxc_eccv.hub.leaderboard import check_values
from cxc_eccv.hub.submit import checked_report
from cxc_eccv.sources.catalog import fingerprint_files
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Report, Result


def checked(tmp_path, text):
    path = tmp_path / "report.json"
    path.write_text(text)
    return checked_report(path)


def test_a_report_of_the_official_data_is_accepted(tmp_path):
    report, files = checked(tmp_path, official_report())
    assert report.scores == {key: value for key, (value, _) in SCORES.items()}
    assert files == FILES


@pytest.fixture
def no_network(monkeypatch):
    """Connections fail, also those to this machine."""

    def refuse(*_):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.delenv("HF_TOKEN", raising=False)


def test_a_report_is_checked_without_the_hub(tmp_path, no_network, capsys):
    """Neither a token nor the names of repositories are needed."""
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
    assert "  eccv_caption_i2t_r_precision: 0.4\n" in others
    assert "  cxc/i2t: median_rank\n" in others
    assert "Not checked yet: the eval.yaml and the raw files of the released dataset, which --dataset names." in out
    status, out, _ = submit("--check", "--tasks", "cxc/t2t", "--dataset", "org/data")
    assert "cxc_t2t_recall_at_1: 0.25\nNot checked yet: the eval.yaml and the raw files of org/data." in out
    status, out, _ = submit("--check", "--model", "me/clip", "--dataset", "org/data")
    assert (status, out.partition("Not checked yet")[2]) == (0, ": the eval.yaml and the raw files of org/data.\n")
    for options, message in (
        (["--check", "--yes"], "leave out --check or --yes"),
        (["--model", "org/name"], "with --model and --dataset, or check the report alone with --check"),
        (["--check", "--tasks", "entailment"], "it has no result of entailment"),
        (["--check", "--date", "tomorrow"], "expected a day of the calendar"),
    ):
        status, _, err = submit(*options)
        assert status == 2
        assert message in err
    path.write_text(official_report(split="validation"))
    assert "it covers the split 'validation'" in submit("--check")[2]
    path.write_text(official_report({"cxc/i2t/median_rank": (2.0, {})}))
    assert "the leaderboard has a task for none of its results" in submit("--check")[2]


def test_bounds_over_the_unjudged_may_stand_in_a_report(tmp_path):
    content = json.loads(official_report())
    set_bounds()(content)
    report, _ = checked(tmp_path, json.dumps(content))
    bounds = next(result.bounds for result in report.results if result.bounds is not None)
    assert (bounds.low, bounds.high) == (0.25, 0.75)


def test_every_field_of_a_result_is_checked():
    assert set(RESULT) - {"key"} == {field.name for field in dataclasses.fields(Result)}


def row(content, key="eccv_caption/i2t/map_at_r"):
    return next(one for one in content["results"] if one["key"] == key)


def both(content, value, key="eccv_caption/i2t/map_at_r"):
    """Edit a score where it stands, with its interval."""
    content["scores"][key] = value
    row(content, key).update(value=value, low=value, high=value)


def set_data(**fields):
    def edit(content):
        data = content["provenance"]["data"]
        data.update(fields)
        if "files" in fields and "fingerprint" not in fields and isinstance(fields["files"], dict):
            data["fingerprint"] = fingerprint_files({name: str(digest) for name, digest in fields["files"].items()})

    return edit


def set_bounds(**fields):
    own = {"low": 0.25, "high": 0.75, "unjudged": 3, "retrieved": 9, "expected": None}
    return lambda content: row(content).update(bounds=own | fields)


EDITS = {
    "edition": (set_data(edition="sample"), "edition 'sample', not the official data"),
    "part": (
        lambda content: content["provenance"].update(restriction={"limit": 200, "images": {"used": 200, "of": 5_000}}),
        "it covers a part of the split; the leaderboard takes whole splits",
    ),
    "labels": (
        lambda content: content["provenance"].update(labels={"sources": ["coco"], "policy": "union", "files": {}}),
        "it uses other labels than those of its tasks",
    ),
    "data-version": (set_data(version="0.9.0"), "version 0.9.0 of the data"),
    "fingerprint": (set_data(fingerprint="0" * 64), "fingerprint does not match the files"),
    "modified": (set_data(files=FILES | {"sts_test": "a" * 64}), "sts_test was modified"),
    "modified-files": (
        set_data(modified={"sts_test": {"expected": "a", "found": "b"}}),
        "computed from modified raw files: sts_test",
    ),
    "unknown-file": (set_data(files=FILES | {"mine": "a" * 64}), "'mine', which the official catalog does not have"),
    "own-file": (set_data(files=FILES | {"entailment_test": "a" * 64}), "entailment_test, a file that only you have"),
    "no-hash": (set_data(files=FILES | {"sts_test": "abc"}), "not 64 hexadecimal digits"),
    "no-files": (set_data(files={}), "lists no data files"),
    "files-type": (set_data(files=["sts_test"]), "provenance, data, files: found ['sts_test'], expected an object"),
    "lacking-file": (
        set_data(files={name: FILES[name] for name in FILES if "eccv" not in name}),
        "results of eccv_caption but lists no file of eccv_caption",
    ),
    "package": (lambda c: c["provenance"]["package"].update(name="other"), "does not name this package"),
    "package-version": (lambda c: c["provenance"]["package"].update(version="0.0.9"), "cxc_eccv 0.0.9 computed it"),
    "split": (lambda c: c["provenance"].update(split="validation"), "covers the split 'validation'"),
    "no-provenance": (lambda c: c.update(provenance=[]), "provenance: found [], expected an object"),
    "score-edited": (lambda c: c["scores"].update({"eccv_caption/i2t/map_at_r": 0.99}), "0.3125 in results"),
    "result-edited": (lambda c: row(c).update(value=0.35), "0.35 in results"),
    "score-added": (lambda c: c["scores"].update({"coco_1k/rsum": 600.0}), "have different metrics"),
    "row-removed": (lambda c: c["results"].remove(row(c)), "have different metrics"),
    "row-twice": (lambda c: c["results"].append(row(c)), "occurs twice"),
    "key": (lambda c: row(c).update(key="eccv_caption/t2i/map_at_r"), "the file was edited"),
    "no-results": (lambda c: c.update(results=[], scores={}), "it has no results"),
    "text-value": (lambda c: both(c, "0.3"), "value is '0.3', expected a finite decimal number"),
    "whole-value": (lambda c: both(c, 1), "value is 1, expected a finite decimal number"),
    "true-value": (lambda c: both(c, True), "value is True"),
    "null-value": (lambda c: both(c, None), "value is None"),
    "score-type": (lambda c: c["scores"].update({"cxc/i2t/median_rank": 2}), "2.0 in results"),
    "above": (lambda c: both(c, 1.25), "is 1.25, outside its range of 0.0 to 1.0"),
    "below": (lambda c: both(c, -0.5), "is -0.5, outside its range"),
    "rank-zero": (lambda c: both(c, 0.5, "cxc/i2t/median_rank"), "is 0.5, outside its range of 1.0 or more"),
    "interval-outside": (lambda c: row(c).update(high=1.5), "is 1.5, outside its range"),
    "interval-swapped": (lambda c: row(c).update(low=0.4, high=0.3), "begins at 0.4 and ends at 0.3"),
    "half-interval": (lambda c: row(c).update(low=None), "half an interval"),
    "ties": (lambda c: row(c).update(ties=9999), "more ties than queries"),
    "queries-type": (lambda c: row(c).update(n_queries=1261.0), "n_queries is 1261.0"),
    "queries-zero": (lambda c: row(c).update(n_queries=0), "n_queries is 0"),
    "queries-differ": (lambda c: row(c).update(n_queries=1200), "different numbers of queries: 1200 and 1261"),
    "coverage": (lambda c: row(c).update(coverage=1.5), "coverage is 1.5"),
    "map-above-r": (lambda c: both(c, 0.45), "map_at_r is above r_precision"),
    "recall-falls": (lambda c: both(c, 0.95, "eccv_caption/i2t/recall_at_1"), "recall_at_1 is above recall_at_5"),
    "parameters": (
        lambda c: row(c, "eccv_caption/i2t/recall_at_1").update(parameters={"k": 10}),
        "do not match",
    ),
    "bounds-below": (set_bounds(low=0.0, high=0.25), "bounds 0.0 and 0.25 over 3 of 9 pairs do not fit"),
    "bounds-expected": (set_bounds(expected=0.95), "do not fit its value"),
    "bounds-counts": (set_bounds(unjudged=10), "10 of 9 pairs do not fit"),
    "bounds-text": (set_bounds(low="0"), "bounds: low is '0', expected a finite decimal number"),
    "bounds-type": (lambda c: row(c).update(bounds=[0.0, 1.0]), "bounds is [0.0, 1.0], expected an object, or null"),
    "extra-field": (lambda c: row(c).update(note="x"), "'note' is not an entry of a report"),
    "schema": (lambda c: c.update(schema=2), "schema is 2"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_report_is_refused_with_the_reason(tmp_path, name):
    edit, message = EDITS[name]
    with pytest.raises(ReportRefused) as caught:
        checked(tmp_path, edited(official_report(), edit))
    assert message in str(caught.value)
    assert "report.json" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("coco_6k/i2t/recall_at_1", "unknown task 'coco_6k'"),
        ("coco_5k/i2t/recal_at_1", "unknown metric"),
        ("coco_5k/t2t/recall_at_1", "is not defined there"),
        ("cxc/sts/recall_at_1", "is not defined there"),
    ],
)
def test_names_outside_the_registry_are_refused(tmp_path, key, message):
    with pytest.raises(ReportRefused, match=message):
        checked(tmp_path, official_report({key: (0.5, {"k": 1})}))


def test_a_sum_must_be_that_of_its_parts():
    recalls = [
        result(f"coco_1k/{direction}/recall_at_{k}", 0.5, {"k": k}) for direction in ("i2t", "t2i") for k in (1, 5, 10)
    ]
    sums = {value: result("coco_1k//rsum", value, {}, low=None, high=None, n_queries=30000) for value in (300.0, 301.0)}
    check_values(Report((*recalls, sums[300.0]), {}, {}))
    with pytest.raises(ReportRefused, match=r"is 301\.0, but its parts give 300\.0"):
        check_values(Report((*recalls, sums[301.0]), {}, {}))


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"schema": 1', '"x"', "[" * 100_000], ids=range(6))
def test_other_files_are_refused(tmp_path, text):
    with pytest.raises(ReportRefused, match=r"report\.json"):
        checked(tmp_path, text)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_refused(tmp_path, constant):
    with pytest.raises(ReportRefused, match=f"found {constant}"):
        checked(tmp_path, official_report().replace("0.3125", constant))


def test_a_key_given_twice_is_refused(tmp_path):
    twice = official_report().replace('"schema": 1', '"schema": 1, "schema": 1')
    with pytest.raises(ReportRefused, match="key 'schema': found it twice"):
        checked(tmp_path, twice)


def test_a_folder_stands_for_its_report(tmp_path):
    report, _ = checked(tmp_path, official_report())
    assert checked_report(tmp_path)[0].scores == report.scores


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(InvalidOption, match=r"cannot read .*absent\.json"):
        checked_report(tmp_path / "absent.json")


def test_a_report_of_the_sample_is_refused(tmp_path, sample_library, make_run):
    report = evaluate(make_run(sample_library), "eccv_caption", data_dir=sample_library)
    with pytest.raises(ReportRefused, match="edition 'sample'"):
        checked(tmp_path, report_to_json(report))


def test_a_mirror_that_calls_itself_official_is_refused(tmp_path, sample_library, make_run):
    """Its own catalog says what the files should be, but not what the official files are."""
    mirror = shutil.copytree(mirror_folder("sample"), tmp_path / "mirror")
    catalog = mirror / "catalog.toml"
    catalog.write_text(catalog.read_text().replace('edition = "sample"', 'edition = "official"'))
    library = Library(mirror)
    report = evaluate(make_run(library), "eccv_caption", data_dir=library)
    assert report.provenance["data"]["edition"] == "official"
    with pytest.raises(ReportRefused, match="was modified"):
        checked(tmp_path, report_to_json(report))


def test_a_report_of_the_real_data_is_accepted(tmp_path, real_library, make_run):
    run = make_run(real_library, width=4)
    report = evaluate(run, ["eccv_caption", "cxc_rated"], data_dir=real_library, confidence=None)
    accepted, files = checked(tmp_path, report_to_json(report))
    assert accepted.scores == report.scores
    assert "eccv_image_to_caption" in files
    assert np.isfinite(list(accepted.scores.values())).all()
