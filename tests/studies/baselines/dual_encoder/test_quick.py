"""The preset that fine-tunes a text model in minutes, on the embedded sample."""

import json
import re

import numpy as np
import pytest

from cxc_eccv.cli.app import main
from cxc_eccv.studies.baselines.dual_encoder.options import COMMAND

SMALL = ["--preset", "quick", "--data-dir", "sample", "--text-model", "sample", "--train-on", "coco/train"]
SMALL += ["--learning-rate", "3e-3", "--per-device-train-batch-size", "20", "--use-cpu"]


def test_preset_gives_way_to_options(tmp_path):
    command = ["--preset", "quick", "--use-cpu", "--output-dir", str(tmp_path)]
    model, objective, data, training = COMMAND.read([*command, "--scale", "10"])
    assert (model.scale, model.extra_layers, objective.mode, data.train_on) == (10, 0, "t2t", ["coco/val"])
    assert (training.learning_rate, training.logging_steps, str(training.eval_strategy.value)) == (5e-5, 5, "no")
    assert COMMAND.read(command[2:])[0].extra_layers == 3


@pytest.mark.slow
def test_quick_run_prints_scores_before_and_after(tmp_path, capsys):
    folder = tmp_path / "quick"
    command = [*SMALL, "--num-train-epochs", "10", "--report-on", "test", "--output-dir", str(folder)]
    with pytest.raises(SystemExit) as ended:
        main(["train", "dual-encoder", *command])
    assert ended.value.code == 0
    log = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    losses = [row["loss"] for row in log if "loss" in row]
    assert len(losses) == 6
    assert losses[-1] < 0.8 * losses[0]
    printed = capsys.readouterr().out
    assert re.search(r"before +after", printed)
    ((before, after),) = re.findall(r"CxC t2t R@1 +([\d.]+) +([\d.]+)", printed)
    scores = json.loads((folder / "report" / "report.json").read_text())["scores"]
    assert float(after) == pytest.approx(100 * scores["cxc/t2t/recall_at_1"], abs=0.06)
    assert not np.isclose(float(before), float(after))
