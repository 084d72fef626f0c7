"""The table of tools/bench/evaluate.py can be read."""

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
