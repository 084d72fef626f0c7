"""``cxc-eccv baseline``: its files, and what a terminal and a wrong name get."""

import json

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from command_line import run_command

pytestmark = pytest.mark.thorough

FILES = ["report.json", "per_query.parquet", "examples.parquet", "report.md", "report.html"]


def test_a_baseline_keeps_the_same_files(tmp_path):
    out, _ = run_command("baseline", "bow", "--data-dir", "sample", "--output", tmp_path / "bow")
    assert [line.split("/")[-1] for line in out.splitlines() if line.startswith("wrote ")] == FILES
    values = pq.read_table(tmp_path / "bow" / "per_query.parquet")
    scores = json.loads((tmp_path / "bow" / "report.json").read_text())["scores"]
    hits = values.filter(pc.field("metric") == "recall_at_10")["value"].to_numpy()
    assert hits.mean() == pytest.approx(scores["cxc/t2t/recall_at_10"], rel=1e-12)
    assert "TF-IDF" in (tmp_path / "bow" / "report.html").read_text()


def test_a_wrong_name_is_one_message():
    assert "did you mean 'bow'" in run_command("baseline", "bows", status=2)[1]
