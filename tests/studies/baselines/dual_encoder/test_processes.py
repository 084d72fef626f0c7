"""A whole training run under torchrun against one process."""

import json
import shutil

import pytest
from PIL import Image
from torchrun import torchrun

pytestmark = pytest.mark.thorough


SAMPLE = ["--data-dir", "sample", "--images", "sample", "--text-model", "sample", "--image-model", "sample"]
SAMPLE += ["--train-on", "coco/train", "coco/restval"]
RECIPE = ["--recolour", "--no-pretraining", "--train-text-model", "--extra-layers", "0", "--pooling", "mean"]
RECIPE += ["--image-pooling", "max", "--normalize", "--scale", "15", "--loss", "softmax", "--learning-rate", "3e-3"]
RECIPE += ["--num-train-epochs", "2", "--use-cpu", "--logging-steps", "1", "--disable-tqdm"]


@pytest.mark.slow
def test_a_run_on_two_processes_has_the_losses_and_scores_of_one(tmp_path):
    from cxc_eccv.studies.baselines.dual_encoder.script import train

    one = ["--per-device-train-batch-size", "34", "--output-dir", str(tmp_path / "one")]
    two = ["--per-device-train-batch-size", "17", "--output-dir", str(tmp_path / "two")]
    train([*SAMPLE, *RECIPE, *one])
    torchrun("-m", "cxc_eccv.studies.baselines.dual_encoder", *SAMPLE, *RECIPE, "--ddp-backend", "gloo", *two)
    logs = [json.loads((tmp_path / run / "trainer_state.json").read_text())["log_history"] for run in ("one", "two")]
    losses = [[row["loss"] for row in log if "loss" in row] for log in logs]
    assert len(losses[0]) == 4
    # Adam divides by the size of a gradient, so that the rounding of the smallest ones grows with the steps.
    assert losses[1][:2] == pytest.approx(losses[0][:2], rel=1e-5)
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    scores = [[row["eval_recall_at_10"] for row in log if "eval_recall_at_10" in row] for log in logs]
    assert len(scores[0]) == 2
    assert scores[1] == pytest.approx(scores[0], abs=0.01)


@pytest.mark.slow
def test_two_processes_tell_once_what_images_are_converted(tmp_path):
    from cxc_eccv.demo import sample_images

    images = tmp_path / "images"
    shutil.copytree(sample_images(), images)
    for path in sorted(images.glob("COCO_train2014_*"))[:3]:
        with Image.open(path) as image:
            image.convert("L").save(path)
    told = "3 of 70 training images are not RGB and are converted: L 3"
    run = ["--per-device-train-batch-size", "17", "--max-steps", "1", "--output-dir", str(tmp_path / "two")]
    plain = [option for option in [*SAMPLE, *RECIPE] if option != "--recolour"]
    options = [*plain, "--images", str(images), "--ddp-backend", "gloo", *run]
    assert torchrun("-m", "cxc_eccv.studies.baselines.dual_encoder", *options).stderr.count(told) == 1
