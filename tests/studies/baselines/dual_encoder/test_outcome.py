"""What a run says of itself: steps, the step that it kept, the options that ran, and a collapse."""

import json
import math

import pytest
import torch
from dual_encoder_models import text_pairs, text_trainer
from transformers import TrainerState

from cxc_eccv.errors import CheckpointMismatch, InvalidOption
from cxc_eccv.report import Report
from cxc_eccv.studies.baselines.char_gru.script import train as train_gru
from cxc_eccv.studies.baselines.dual_encoder.loss import Objective, describe_collapse
from cxc_eccv.studies.baselines.dual_encoder.options import TrainingOptions
from cxc_eccv.studies.baselines.dual_encoder.script import train as train_dual_encoder
from cxc_eccv.studies.baselines.entailment_classifier.script import train as train_classifier
from cxc_eccv.studies.trainers.model_card import Selection, list_settings_that_ran
from cxc_eccv.studies.trainers.resuming import find_model_files, last_checkpoint, refuse_users_model


def training(folder, **options):
    return TrainingOptions(output_dir=str(folder), use_cpu=True, **options)


def test_step_that_was_kept_is_told(tmp_path):
    state = TrainerState(global_step=40, best_model_checkpoint="runs/checkpoint-2", best_metric=0.2233)
    selection = Selection.read(state, training(tmp_path), "coco/val")
    assert selection.describe() == (
        "Trained for 40 steps; the weights are those of step 2, which had the best recall_at_10 on coco/val: 0.2233."
    )
    assert selection.settings == {
        "steps_run": 40,
        "step_kept": 2,
        "selection_metric": "recall_at_10",
        "selection_value": 0.2233,
        "selection_data": "coco/val",
    }
    report = selection.doubt(Report((), doubts={"ties": "Ties."}))
    assert list(report.doubts) == ["selecting_split", "ties"]
    assert report.doubts["selecting_split"].startswith("coco/val chose the weights (step 2 of 40, by recall_at_10)")


def test_last_step_is_told_without_a_choice(tmp_path):
    never = training(tmp_path, eval_strategy="no", save_strategy="no", load_best_model_at_end=False)
    selection = Selection.read(TrainerState(global_step=40), never, "coco/val")
    assert selection.describe() == "Trained for 40 steps; the weights are those of the last step."
    assert selection.settings == {"steps_run": 40, "step_kept": 40}


def test_settings_are_those_that_ran(tmp_path):
    identity = {"lr_scheduler_type": "linear", "warmup_steps": 0, "max_steps": -1, "num_train_epochs": 3.0, "seed": 1}
    by_steps = training(tmp_path, eval_strategy="steps", save_strategy="steps", eval_steps=5, save_steps=5)
    found = list_settings_that_ran(identity, by_steps, TrainerState(epoch=1.5), has_schedule=False)
    assert found == {
        "num_train_epochs": 1.5,
        "seed": 1,
        "load_best_model_at_end": True,
        "eval_strategy": "steps",
        "eval_steps": 5,
        "eval_delay": 0,
        "save_strategy": "steps",
        "save_steps": 5,
    }
    identity["max_steps"] = 40
    limited = list_settings_that_ran(identity, training(tmp_path, max_steps=40), TrainerState(epoch=20.0))
    assert (limited["max_steps"], limited["num_train_epochs"], limited["lr_scheduler_type"]) == (40, 20.0, "linear")
    assert "eval_steps" not in limited


EQUAL = {"paper": 2 * math.log(3), "softmax": 2 * math.log(4), "triplet_hardest": 2 * 0.2, "triplet_all": 2 * 3 * 0.2}


@pytest.mark.parametrize("loss", EQUAL)
def test_collapse_is_a_sentence(tmp_path, loss):
    """Of B equal vectors the paper's loss is 2 ln (B - 1), softmax's 2 ln B, a hinge's the margin of each negative."""
    trainer = text_trainer(tmp_path, text_pairs(12), Objective("t2t", loss), max_steps=1, learning_rate=1e-9)
    with torch.no_grad():
        trainer.model.text_layers.layers[-1].norm2.weight.zero_()
        trainer.model.text_layers.layers[-1].norm2.bias.fill_(0.5)
    trainer.train()
    (sentence,) = describe_collapse(trainer.state)
    assert f"that of equal vectors, {EQUAL[loss]:.4g}." in sentence
    assert sentence.startswith("The training collapsed")


def test_healthy_run_has_no_collapse(tmp_path):
    trainer = text_trainer(tmp_path, text_pairs(12), Objective("t2t", "softmax"), max_steps=2, learning_rate=1e-3)
    trainer.train()
    assert describe_collapse(trainer.state) == []
    assert "last_batch_spread" in trainer.state.log_history[-2]
    assert describe_collapse(TrainerState()) == []  # a run of an earlier version


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "pytorch_model.bin"])
def test_users_model_is_not_trained_over(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(InvalidOption, match=rf"has files that no recorded training run wrote: {name}. Move them away"):
        refuse_users_model(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    refuse_users_model(tmp_path)


@pytest.mark.parametrize("script", [train_classifier, train_dual_encoder, train_gru])
def test_commands_refuse_a_users_model(tmp_path, script):
    model = tmp_path / "ensemble" if script is train_gru else tmp_path
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text("mine")
    with pytest.raises(InvalidOption, match=r"no recorded training run wrote: config\.json"):
        script(["--data-dir", "sample", "--output-dir", str(tmp_path)])
    assert [path.read_text() for path in tmp_path.rglob("*") if path.is_file()] == ["mine"]


def test_checkpoints_without_a_record_are_refused(tmp_path):
    (tmp_path / "checkpoint-2").mkdir()
    for check in (refuse_users_model, lambda folder: last_checkpoint(folder, {"seed": 1})):
        with pytest.raises(CheckpointMismatch, match=r"has checkpoints, but no run\.json, which says which run"):
            check(tmp_path)


def test_model_of_another_run_is_not_trained_over(tmp_path):
    assert last_checkpoint(tmp_path, {"seed": 1}) is None
    assert last_checkpoint(tmp_path, {"seed": 2}) is None  # nothing was made
    (tmp_path / "model.safetensors").write_text("made")
    assert find_model_files(tmp_path) == ["model.safetensors"]
    assert last_checkpoint(tmp_path, {"seed": 2}) is None
    with pytest.raises(CheckpointMismatch, match=r"checkpoints or the model of another run: seed was 2 and is 3"):
        last_checkpoint(tmp_path, {"seed": 3})
    assert json.loads((tmp_path / "run.json").read_text()) == {"seed": 2}
