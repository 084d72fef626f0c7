"""The table of tools/bench/evaluate.py can be read, and its stages name functions of the package."""

import importlib
import re
import runpy
from pathlib import Path

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
