"""The whole path on the real data, and a process that dies in the middle of it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hub_endpoints import WRITER
from hub_server import Fault

from cxc_eccv.builders.writing import build_folder
from cxc_eccv.evaluation import evaluate, report_to_json
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.hub.submit import checked_report

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

READ = """
import datasets
from huggingface_hub import HfApi
rows = datasets.load_dataset("org/real", "eccv_caption", split="test")
streamed = datasets.load_dataset("org/real", "eccv_caption", split="test", streaming=True)
assert next(iter(streamed)) == rows[0]
board = HfApi().get_dataset_leaderboard("org/real", base_model_only=False)
told = {"rows": len(rows), "board": [(row.model_id, row.value) for row in board]}
"""


def test_build_push_evaluate_submit_merge_read(hub, client, real_library, make_run, tmp_path):
    build_folder(tmp_path / "data", configs=["eccv_caption"], data_dir=real_library.data_dir, progress=False)
    client.command("push", tmp_path / "data", "org/real", "--yes")
    model = hub.store.create("model", "me/random", {"README.md": b"# Random\n"})
    report = evaluate(make_run(real_library, width=4), "eccv_caption", data_dir=real_library, confidence=None)
    (tmp_path / "report.json").write_text(report_to_json(report))
    arguments = ("submit", tmp_path / "report.json", "--model", "me/random", "--dataset", "org/real", "--model-index")
    client.command(*arguments, "--yes")
    hub.store.merge(model, 1)
    told = client.code(READ).told
    assert told["rows"] == 1_261 + 1_332
    assert told["board"] == [["me/random", report.scores["eccv_caption/i2t/map_at_r"]]]
    assert "has these results already" in client.command(*arguments).out


def test_a_report_of_every_task_of_images_and_captions_is_accepted(real_library, make_run, tmp_path):
    report = evaluate(make_run(real_library, width=4), data_dir=real_library)
    (tmp_path / "report.json").write_text(report_to_json(report))
    accepted, files = checked_report(tmp_path / "report.json")
    assert set(leaderboard_tasks()) <= set(accepted.scores)
    assert files == report.provenance["data"]["files"]


def test_a_process_that_is_killed_leaves_the_repository_as_it_was(hub, client, built, tmp_path):
    repository = hub.store.create("dataset", "org/killed", {"README.md": b"# Ours\n"})
    before = repository.main.oid
    hub.faults = [Fault("^PUT", times=99, skip=2, status=0, seconds=30.0)]
    settings = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HF_ENDPOINT": hub.url, "HF_TOKEN": WRITER}
    settings |= {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
    program = "from cxc_eccv.cli.app import main; main()"
    command = [sys.executable, "-c", program, "push", str(built), "org/killed", "--yes"]
    process = subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(hub.seen("^PUT")) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert repository.main.oid == before
    assert len(hub.store.objects) == 2
    hub.faults = []
    hub.requests.clear()
    assert "uploaded to" in client.command("push", built, "org/killed", "--yes").out
    assert len(hub.seen("^PUT")) == 3
    assert len(repository.branches["main"]) == 3
