"""The whole path on the real data."""

import pytest
import yaml

from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.evaluation import evaluate
from cxc_eccv.hub.checks import checked_report
from cxc_eccv.hub.leaderboard import leaderboard_tasks

pytestmark = pytest.mark.slow

READ = """
import datasets
rows = datasets.load_dataset("org/real", "eccv_caption", split="test")
streamed = datasets.load_dataset("org/real", "eccv_caption", split="test", streaming=True)
assert next(iter(streamed)) == rows[0]
told = len(rows)
"""


def test_build_push_evaluate_submit_merge_read(hub, client, real_library, make_run, tmp_path):
    build_folder(tmp_path / "data", configs=["eccv_caption"], data_dir=real_library.data_dir, progress=False)
    client.command("push", tmp_path / "data", "org/real", "--yes")
    model = hub.store.create("model", "me/random", {"README.md": b"# Random\n"})
    report = evaluate(make_run(real_library, width=4), "eccv_caption", data_dir=real_library, confidence=None)
    (tmp_path / "report.json").write_text(report.to_json())
    arguments = ("submit", tmp_path / "report.json", "--model", "me/random", "--dataset", "org/real")
    client.command(*arguments, "--yes", typed="y\n")  # the vectors are random, which the report doubts
    hub.store.merge(model, 1)
    assert client.code(READ).told == 1_261 + 1_332
    rows = yaml.safe_load(model.files()[".eval_results/cxc_eccv.yaml"])
    values = {row["dataset"]["task_id"]: row["value"] for row in rows}
    assert values["eccv_caption_i2t_map_at_r"] == report.scores["eccv_caption/i2t/map_at_r"]
    assert "has these results already" in client.command(*arguments).out


def test_report_of_every_task_is_accepted(real_library, make_run, tmp_path):
    report = evaluate(make_run(real_library, width=4), data_dir=real_library)
    (tmp_path / "report.json").write_text(report.to_json())
    accepted = checked_report(tmp_path / "report.json")
    assert set(leaderboard_tasks()) <= set(accepted.scores)
