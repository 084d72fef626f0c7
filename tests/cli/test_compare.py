"""``cxc-eccv compare`` as a user meets it."""

import json
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxc_eccv.cli import main
from cxc_eccv.comparison.published import eccv_caption_table
from cxc_eccv.evaluation import report_to_json
from cxc_eccv.types import Report, Result

DATA = {"edition": "official", "version": "1", "fingerprint": "f", "files": {}}
KEYS = tuple(key for key in eccv_caption_table().keys if key.count("/") == 2)


@pytest.fixture
def run(monkeypatch, capsys):
    """Exit status, standard output and standard error of one command."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["cxc-eccv", "compare", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit_:
            main()
        shown = capsys.readouterr()
        return exit_.value.code or 0, shown.out, shown.err

    return command


@pytest.fixture
def write(tmp_path):
    """Write a model's report and per-query values, and give the report's path."""

    def written(name, share, *, per_query=True, keys=KEYS, **facts):
        random = np.random.default_rng(0)
        rows, tables = [], []
        for key in keys:
            task, direction, metric = key.split("/")
            values = (random.random(400) < share).astype(float)
            rows.append(Result(task, direction, metric, float(values.mean()), 400))
            labels = {"task": [task] * 400, "direction": [direction] * 400, "metric": [metric] * 400}
            ids = {"query_id": np.arange(400), "cluster": np.arange(400) // 2}
            tables.append(pa.table({**ids, **labels, "value": values}))
        folder = tmp_path / name
        folder.mkdir()
        report = Report(tuple(rows), {}, {"split": "test", "data": DATA} | facts)
        (folder / "report.json").write_text(report_to_json(report))
        if per_query:
            pq.write_table(pa.concat_tables(tables), folder / "per_query.parquet")
        return folder / "report.json"

    return written


def test_two_reports_are_compared(run, write, tmp_path):
    status, out, _ = run(write("old", 0.4), write("new", 0.6), "--samples", 2000, "--output", tmp_path / "out")
    assert status == 0
    assert "new against old" in out
    assert "i2t mAP@R" in out
    found = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert (found["baseline"], found["models"], found["settings"]["tests"]) == ("old", ["new"], len(KEYS))
    assert {row["key"] for row in found["differences"]} == set(KEYS)
    assert all(row["difference"] > 0 and row["p_holm"] >= row["p_value"] for row in found["differences"])
    assert any(row["significant"] for row in found["differences"])
    assert "published" not in found


def test_the_same_command_gives_the_same_file(run, write, tmp_path):
    reports = write("old", 0.4), write("new", 0.5)
    for name in ("one", "two"):
        run(*reports, "--samples", 300, "--output", tmp_path / name)
    assert (tmp_path / "one" / "compare.json").read_bytes() == (tmp_path / "two" / "compare.json").read_bytes()


def test_a_model_is_placed_among_published_ones_without_per_query_values(run, write, tmp_path):
    path = write("mine", 0.5, per_query=False)
    status, out, _ = run(path.parent, "--published", "--no-chart", "--output", tmp_path / "out")
    assert status == 0
    assert "of 26" in out
    assert "Chun et al." in out
    published = json.loads((tmp_path / "out" / "compare.json").read_text())["published"]
    assert {source["name"] for source in published["sources"]} == {"eccv_caption", "cxc"}
    assert {one["key"] for one in published["placements"] if one["table"] == "eccv_caption"} > set(KEYS)
    assert len(published["agreement"]["tau"]) == 12


def test_the_chart_of_ranks_is_written(run, write, tmp_path):
    pytest.importorskip("matplotlib", reason="the report extra is not installed")
    _, out, _ = run(write("mine", 0.5), "--published", "--output", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "compare.json",
        "published_ranks.png",
        "published_ranks.svg",
    ]
    assert "published_ranks.svg" in out
    status, _, err = run(write("few", 0.5, keys=("cxc/t2t/recall_at_1",)), "--published", "--output", tmp_path / "out")
    assert status == 0
    assert "no chart of ranks" in err


def test_without_matplotlib_nothing_is_written(run, write, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = run(write("mine", 0.5), "--published", "--output", tmp_path / "out")
    assert status == 2
    assert "cxc_eccv[report]" in err
    assert not (tmp_path / "out").exists()


def test_errors_are_one_message_and_status_2(run, write, tmp_path):
    old, bare = write("old", 0.4), write("bare", 0.5, per_query=False)
    validation = write("validation", 0.5, split="validation")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    for arguments, part in (
        ((old,), "--published"),
        ((old, bare), "no per_query.parquet beside it"),
        ((old, validation), "the split is 'test' for old and 'validation' for validation"),
        ((old, tmp_path / "absent.json"), "absent.json: cannot be read"),
        ((old, broken), "broken.json: not a report.json"),
        ((old, old), "2 reports need as many different names"),
        ((old, bare, "--names", "one"), "2 reports need as many different names"),
        ((validation, "--published"), "split is 'validation', theirs is 'test'"),
    ):
        status, _, err = run(*arguments)
        assert status == 2
        assert part in err
        assert "Traceback" not in err


def test_names_are_the_folders_or_those_given(run, write):
    reports = write("old", 0.4), write("new", 0.5)
    assert "B against A" in run(*reports, "--names", "A,B", "--samples", 100)[1]
