"""A report in Python: printed, in a notebook, as a frame, as a folder and back; a comparison likewise."""

import dataclasses
import io
import pickle

import numpy as np
import pandas as pd
import pytest
from report_samples import Page as Parsed
from report_samples import near_run, sample_report

import cxc_eccv as ce
from cxc_eccv.cli.app import main
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.report import Report
from cxc_eccv.report.query_cards import reason_of
from cxc_eccv.sources.download import sample_images
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json, to_json
from cxc_eccv.types.provenance import Provenance

FILES = ["report.json", "per_query.parquet", "examples.parquet", "report.md", "report.html"]
NASTY = "<script>alert(1)</script> & \x1b[31m"


@pytest.fixture(scope="module")
def report(sample_content):
    return sample_content[0]


@pytest.fixture(scope="module")
def saved(report, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "out"
    assert [path.name for path in report.save(folder)] == FILES
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    return folder


def test_printing_shows_what_the_command_line_shows(report, capsys):
    print(report)
    printed = capsys.readouterr().out
    report.show()
    shown = capsys.readouterr().out
    assert [line.rstrip() for line in shown.splitlines()] == [line.rstrip() for line in printed.splitlines()]
    assert "ECCV Caption     mAP@R" in printed
    assert "Not scored: coco_1k: " in printed


def test_forms_in_python_are_those_of_the_folder(sample_content, tmp_path):
    report, examples = sample_content
    report = dataclasses.replace(report, examples=examples)
    report.save(tmp_path / "out", images=sample_images())
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out").glob("report.*")}
    assert written["report.json"] == report.to_json()
    assert written["report.md"] == report.to_markdown()
    assert written["report.html"] == report.to_html(sample_images())
    assert "data:image/jpeg" in written["report.html"]
    assert "data:image/jpeg" not in report.to_html()


def test_csv_has_the_rows_of_the_data_frame(report):
    frame = pd.read_csv(io.StringIO(report.to_csv()), keep_default_na=False, na_values=[""])
    wanted = report.to_pandas()
    assert list(frame.columns) == list(wanted.columns)
    for column in ("value", "low"):  # older versions of pandas read the last digit of a float wrong
        np.testing.assert_allclose(frame[column], wanted[column], rtol=1e-14, atol=0)


def test_report_repr_is_short_and_report_pickles(report):
    named = dataclasses.replace(report, provenance=dataclasses.replace(report.provenance, model="CLIP"))
    scored = len({result.task for result in report.results})
    assert repr(named) == f"<Report of CLIP: {len(report.results)} results of {scored} tasks, test split>"
    assert "\\x1b" in repr(Report((), provenance=Provenance(model=NASTY)))
    assert repr(Report(())) == "<Report of a run: 0 results of 0 tasks, unknown split>"
    assert pickle.loads(pickle.dumps(report)) == report


def test_a_notebook_shows_the_console_form(report):
    text = report._repr_html_()
    assert not Parsed(text).all("style", "svg", "script")
    assert type(text) is str  # and no Markup, which would escape what a user adds to it
    result = next(row for row in report.results if row.key == "eccv_caption/i2t/map_at_r")
    assert f"{100 * result.value:.1f} [{100 * result.low:.1f}, {100 * result.high:.1f}]" in text


def test_a_notebook_shows_names_as_text():
    facts = {"model": NASTY, "split": NASTY, "data": {"modified": {NASTY: {"expected": NASTY, "found": NASTY}}}}
    report = Report((Result(NASTY, NASTY, NASTY, 0.5, 2),), {NASTY: NASTY}, from_json(Provenance, facts))
    text = report._repr_html_()
    assert "<script" not in text
    assert "\x1b" not in text
    assert "No task could be scored." in Report(())._repr_html_()


def test_a_frame_has_a_row_per_result(report):
    frame = report.to_pandas()
    names = ["task", "direction", "metric", "value", "low", "high", "n_queries", "ties"]
    names += ["if_ties_help", "decided_by_ties", "chance", "coverage", "interval_method"]
    assert list(frame.columns) == names
    for row, result in zip(frame.to_dict("records"), report.results, strict=True):
        for name in names:
            found = row[name]
            wanted = getattr(result, name)
            assert pd.isna(found) if wanted is None else found == wanted
    assert frame["value"].dtype == frame["low"].dtype == frame["coverage"].dtype == np.float64
    empty = Report(()).to_pandas()
    assert (list(empty.columns), len(empty)) == (names, 0)


def test_saved_report_equals_the_commands_folder(saved, sample_library, tmp_path, capsys):
    """Query by query, and with the queries to look at; only the command stands in one of them alone."""
    ce.save_embeddings(tmp_path / "model.npz", near_run(sample_library))
    with pytest.raises(SystemExit):
        main(["evaluate", str(tmp_path / "model.npz"), "--data-dir", "sample", "--output", str(tmp_path / "out")])
    ours = ce.load_report(saved)
    theirs = ce.load_report(tmp_path / "out")
    assert ours.examples.num_rows > 100
    assert ours.examples.drop_columns("score").equals(theirs.examples.drop_columns("score"))
    assert ours.per_query.equals(theirs.per_query)
    assert ours.results == theirs.results
    assert to_json(ours.provenance).keys() ^ to_json(theirs.provenance).keys() == {"command"}


def test_what_is_loaded_is_what_was_saved(report, saved, sample_content, tmp_path):
    for path in (saved, str(saved), saved / "report.json"):
        loaded = ce.load_report(path)
        assert loaded.per_query.to_pylist() == report.per_query.to_pylist()
        assert dataclasses.replace(loaded, per_query=report.per_query) == report
        assert loaded.examples.equals(sample_content[1])
    report.save(tmp_path / "twin")
    loaded.save(tmp_path / "again")
    for name in FILES:
        assert (tmp_path / "twin" / name).read_bytes() == (saved / name).read_bytes()
    for name in ("report.json", "report.md", "report.html"):
        assert (tmp_path / "again" / name).read_bytes() == (saved / name).read_bytes()


def test_report_without_query_values_is_read_back(report, tmp_path):
    bare = dataclasses.replace(report, per_query=None, examples=None)
    bare.save(tmp_path / "bare")
    loaded = ce.load_report(tmp_path / "bare")
    assert (loaded.results, loaded.per_query) == (report.results, None)
    assert "without its run" in reason_of(loaded.examples)
    (tmp_path / "alone.json").write_bytes((tmp_path / "bare" / "report.json").read_bytes())
    assert ce.load_report(tmp_path / "alone.json").results == report.results


def test_thumbnails_are_shown_where_images_are_given(report, tmp_path):
    report.save(tmp_path / "out", images=sample_images())
    assert (tmp_path / "out" / "report.html").read_text().count("data:image/jpeg;base64,") > 50
    with pytest.raises(InvalidOption, match="absent is not a folder"):
        report.save(tmp_path / "other", images=tmp_path / "absent")
    assert not (tmp_path / "other").exists()


@pytest.fixture(scope="module")
def comparison(sample_library):
    models = []
    for name, noise in (("old", 2.0), (NASTY, 0.5)):
        report = sample_report(sample_library, near_run(sample_library, noise))[1]
        models.append(dataclasses.replace(report, provenance=dataclasses.replace(report.provenance, model=name)))
    return ce.compare(*models, samples=1000)


def test_reports_are_compared_under_their_names(comparison, report):
    assert (comparison.baseline, comparison.models) == ("old", (NASTY,))
    with pytest.raises(InvalidOption, match="models need different names, not '', ''"):
        ce.compare(report, report)
    bare = dataclasses.replace(report, per_query=None, provenance=dataclasses.replace(report.provenance, model="bare"))
    with pytest.raises(DataError, match=r"bare: A comparison needs the values of single queries. .* per_query=True"):
        ce.compare(bare, report)


def test_a_comparison_is_shown_like_a_report(comparison, capsys):
    print(comparison)
    printed = capsys.readouterr().out
    assert "corrected for" in printed
    assert "\x1b" not in printed
    significant = sum(map(comparison.significant, comparison.differences))
    assert "\x1b" not in repr(comparison)
    assert repr(comparison).endswith(f"with old: {len(comparison.differences)} tests, {significant} significant>")
    text = comparison._repr_html_()
    assert "corrected for" in text
    assert "<script" not in text
    assert significant > 0
    frame = comparison.to_pandas()
    assert frame["significant"].sum() == significant
    assert frame.loc[0, "difference"] == comparison.differences[0].difference
