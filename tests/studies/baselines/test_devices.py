"""Models on a GPU: encodings, scores and training steps equal those of the processor. ``tools/gpu.sh`` runs all.

Every body runs on the processor too, except those in float16, which no processor trains in.
"""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_models
import torch
from command_line import run_command
from torchrun import LAUNCH

from cxc_eccv.encoding import encode
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.studies.baselines.char_gru.script import train as train_gru
from cxc_eccv.studies.baselines.dual_encoder.script import train as train_dual_encoder
from cxc_eccv.studies.baselines.entailment_classifier.script import train as train_classifier
from cxc_eccv.studies.trainers.trainer import WholeTrainer
from cxc_eccv.types import Embeddings

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:held-out pairs"),  # of runs this short
    # Of torch.compile: that a GPU has TF32, and deprecations within torch.
    pytest.mark.filterwarnings("ignore:::torch"),
]

GPU = pytest.param("cuda", marks=pytest.mark.gpu)
DEVICES = ["cpu", GPU]
SLOW_DEVICES = [pytest.param("cpu", marks=pytest.mark.slow), GPU]
PRECISIONS = {"float32": [], "bfloat16": ["--bf16"], "float16": ["--fp16"]}
TOLERANCES = {"float32": 1e-4, "bfloat16": 3e-2, "float16": 1e-2}
NO_SCORES = ["--eval-strategy", "no", "--save-strategy", "no", "--no-load-best-model-at-end"]
STEPS = ["--max-steps", "4", *NO_SCORES]
"""Float16 skips the first steps, until gradients are scaled so that none overflows."""
SAMPLE = ["--data-dir", "sample", "--images", "sample", "--text-model", "sample", "--image-model", "sample"]
DUAL = [*SAMPLE, "--no-pretraining", "--train-text-model", "--extra-dropout", "0", "--learning-rate", "1e-3", *STEPS]
DUAL += ["--train-on", "coco/train", "coco/restval", "--extra-layers", "1", "--extra-feed-forward", "32"]
DUAL += ["--normalize", "--scale", "10", "--loss", "softmax", "--per-device-train-batch-size", "30"]
CLASSIFIER = [*SAMPLE, "--visual-text-model", "sample", "--train-on", "cxc/val", "coco/val", "--held-out", "12"]
CLASSIFIER += ["--learning-rate", "1e-3", "--per-device-train-batch-size", "32", *STEPS]
GRU = ["--data-dir", "sample", "--train-on", "coco/val", "--held-out", "4", "--hidden-size", "8", "--images", "30"]
GRU += ["--cycle-epochs", "1", "--epochs", "2", "--highest-rate", "0.02"]
TRAINERS = {
    "dual encoder": (train_dual_encoder, [*DUAL, "--report-on", "test"]),
    "classifier": (train_classifier, [*CLASSIFIER, "--report-on", "cxc/test"]),
    "character GRU": (train_gru, [*GRU, "--report-on", "test"]),
}


@pytest.fixture
def run_steps(tmp_path):
    """Train; gives the kind of the device, the loss of every step, and the weights before and after all of them."""

    def run(name, device, *options):
        train, command = TRAINERS[name]
        steps = SimpleNamespace(losses=[], devices=set(), start=None, end=None)

        def step(trainer, model, *arguments, **more):
            weights = {key: value.detach().cpu().clone() for key, value in trainer.model.named_parameters()}
            steps.start = steps.start or weights
            steps.end = weights
            steps.model = trainer.model
            loss = take_step(trainer, model, *arguments, **more)
            steps.losses.append(float(loss))
            steps.devices.add(loss.device.type)
            return loss

        take_step = WholeTrainer.training_step
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(WholeTrainer, "training_step", step)
            if device == "cpu":
                patch.setattr(torch.cuda, "is_available", lambda: False)
            folder = tmp_path / f"{name} {device} {' '.join(options)}"
            of_trainer = [] if name == "character GRU" or device == "cuda" else ["--use-cpu"]
            steps.trained = train([*command, *of_trainer, *options, "--output-dir", str(folder)])
        assert steps.devices == {device}
        assert len(steps.losses) == 4
        return steps

    return run


def moved(steps):
    """Whether a weight changed from the first step to the last."""
    return any(not torch.equal(value, steps.end[name]) for name, value in steps.start.items())


@pytest.mark.parametrize(
    ("device", "precision"),
    [
        pytest.param("cpu", "bfloat16", marks=pytest.mark.slow),
        *(pytest.param("cuda", name, marks=pytest.mark.gpu) for name in PRECISIONS),
    ],
)
@pytest.mark.parametrize("name", TRAINERS)
def test_trainer_steps_as_on_the_processor(run_steps, name, device, precision):
    if (name, precision) == ("character GRU", "float16"):
        pytest.skip("train char-gru has no --fp16")
    there = run_steps(name, device, *PRECISIONS[precision])
    here = run_steps(name, "cpu")
    assert there.losses[0] == pytest.approx(here.losses[0], rel=TOLERANCES[precision])
    assert moved(there)
    results = there.trained.pairs.report.rates if name == "classifier" else there.trained.report.scores
    assert results


COMPILERS = {"cpu": "aot_eager", "cuda": "inductor"}


@pytest.mark.parametrize("precision", ["float32", "bfloat16", pytest.param("float16", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("device", SLOW_DEVICES)
@pytest.mark.parametrize("name", ["dual encoder", "classifier"])
def test_compiled_trainer_steps_as_an_uncompiled_one(run_steps, name, device, precision):
    if (device, precision) == ("cpu", "float16"):
        pytest.skip("no processor trains in float16")
    options = PRECISIONS[precision]
    compiled = run_steps(name, device, *options, "--torch-compile", "--torch-compile-backend", COMPILERS[device])
    plain = run_steps(name, device, *options)
    assert compiled.losses[0] == pytest.approx(plain.losses[0], rel=TOLERANCES[precision])
    assert moved(compiled)
    assert compiled.end.keys() == plain.end.keys()


@pytest.fixture(scope="module")
def backbones(tmp_path_factory):
    """Options that name a folder with a BERT and one with a ViT, which both can recompute activations."""
    folder = tmp_path_factory.mktemp("backbones")
    text, image = (tiny_models.save(make(), folder / make.__name__) for make in (tiny_models.bert, tiny_models.vit))
    return ["--text-model", str(text), "--image-model", str(image)]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("device", SLOW_DEVICES)
def test_recomputed_activations_give_the_same_steps(run_steps, backbones, device, precision):
    if (device, precision) == ("cpu", "float16"):
        pytest.skip("no processor trains in float16")
    options = [*backbones, *PRECISIONS[precision]]
    plain = run_steps("dual encoder", device, *options)
    again = run_steps("dual encoder", device, *options, "--gradient-checkpointing")
    assert again.losses == pytest.approx(plain.losses, rel=TOLERANCES[precision])
    assert moved(again)


COMMAND = ["--no-python", sys.executable, "-c", "from cxc_eccv.cli.app import main; main()"]


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_two_processes_step_as_one(run_steps, tmp_path, device):
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("two processes on NCCL need two GPUs")
    one = run_steps("dual encoder", device)
    command = [*COMMAND, "train", "dual-encoder", *DUAL, "--logging-steps", "1", "--output-dir", str(tmp_path)]
    command += ["--per-device-train-batch-size", "15"]
    command += ["--use-cpu", "--ddp-backend", "gloo"] if device == "cpu" else ["--ddp-backend", "nccl"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    launch = [sys.executable, *LAUNCH, "--rdzv-endpoint", "localhost:0", *command]
    done = subprocess.run(launch, env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    log = json.loads((tmp_path / "trainer_state.json").read_text())["log_history"]
    losses = [row["loss"] for row in log if "loss" in row]
    assert losses[:2] == pytest.approx(one.losses[:2], rel=1e-4)


KINDS = {"dual encoder": tiny_models.dual, "CLIP": tiny_models.clip, "SigLIP": tiny_models.siglip}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", KINDS)
def test_encodings_equal_those_of_the_processor(tmp_path, name, device, precision):
    parts = KINDS[name]()
    with torch.no_grad():
        for parameter in parts[0].parameters():
            # As new weights are: those of the tests multiply the rounding of half precision.
            parameter.div_(5 if parameter.ndim > 1 else 1)
    folder = tiny_models.save(parts, tmp_path / "model")
    captions = list(enumerate(tiny_models.TEXTS))
    items = {"images": tiny_models.picture_files(tmp_path, 6), "captions": captions, "progress": False}
    here = encode(str(folder), device="cpu", dtype="float32", **items)
    there = encode(str(folder), device=device, dtype=precision, **items)
    for side in ("images", "captions"):
        expected = getattr(here, side)
        vectors = getattr(there, side)
        assert vectors.ids.tolist() == expected.ids.tolist()
        error = np.linalg.norm(vectors.vectors - expected.vectors, axis=1) / np.linalg.norm(expected.vectors, axis=1)
        assert error.max() < TOLERANCES[precision]


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
@pytest.mark.parametrize("device", DEVICES)
def test_evaluate_scores_equal_those_of_the_processor(tmp_path, sample_library, device, similarity):
    """Dot products of small whole numbers are exact and often tie; those of random vectors are never near to a tie."""
    random = np.random.default_rng(0)
    content = sample_library.split("test")
    draw = random.standard_normal if similarity == "cosine" else lambda shape: random.integers(-2, 3, shape) * 1.0
    sides = (Embeddings(ids, draw((len(ids), 16))) for ids in (content.image_ids, content.caption_ids))
    save_embeddings(tmp_path / "run.npz", EmbeddingsRun(*sides))
    command = ["evaluate", tmp_path / "run.npz", "--data-dir", "sample", "--similarity", similarity]
    reports = []
    for options in ([], ["--device", device]):
        folder = tmp_path / f"report {len(reports)}"
        run_command(*command, "--output", folder, *options)
        reports.append(json.loads((folder / "report.json").read_text()))
    here, there = (report["scores"] for report in reports)
    assert len(here) > 50
    assert there == here
