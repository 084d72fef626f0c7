"""tools/bench/evaluate.py: its table, its works, and the functions of its stages."""

import importlib
import re
import runpy
from pathlib import Path

import pytest

from cxc_eccv.runs.load import load_run

BENCH = Path(__file__).parents[2] / "tools" / "bench"


def test_no_column_runs_into_another(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    bench = runpy.run_path(str(BENCH / "evaluate.py"))
    head = bench["table_row"]("work", bench["COLUMNS"])
    row = bench["table_row"]("within", ["1234.56"] * len(bench["COLUMNS"]))
    assert re.split(r"\s{2,}", head) == ["work", *bench["COLUMNS"]]
    assert len(row) == len(head)
    assert row.split() == ["within", *["1234.56"] * len(bench["COLUMNS"])]


def test_every_stage_names_functions_of_the_package():
    for paths in runpy.run_path(str(BENCH / "stages.py"))["WRAPPED"].values():
        for path in paths:
            module, _, name = path.partition(":")
            found = importlib.import_module(f"cxc_eccv.{module}")
            for part in name.split("."):
                found = getattr(found, part)
            assert callable(found), path


def test_lists_in_every_form_of_file_are_read(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(BENCH))
    bench = runpy.run_path(str(BENCH / "evaluate.py"))
    lists = {"i2t": {1: [11, 12], 2: [12, 11]}, "t2i": {11: [2, 1], 12: [1, 2]}}
    forms = bench["write_lists"](tmp_path, lists)
    assert set(forms) == {"json", "parquet", "trec"}
    for files in forms.values():
        run = load_run(*files)
        for direction, rankings in lists.items():
            assert run.lists[direction].query_ids.tolist() == list(rankings)


def test_help_names_every_work(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCH))
    bench = runpy.run_path(str(BENCH / "evaluate.py"))
    monkeypatch.setattr("sys.argv", ["evaluate.py", "--help"])
    with pytest.raises(SystemExit):
        bench["main"]()
    shown = capsys.readouterr().out
    for work in bench["OTHERS"]:
        assert f"\n    {work} " in shown
