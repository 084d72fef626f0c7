"""A text tower that learns onto frozen image vectors, on the embedded sample."""

import json
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torchrun import torchrun
from transformers import AutoModel, AutoTokenizer

from cxc_eccv.encoding import encode
from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.studies.baselines.dual_encoder.script import train
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough

RUN = ["--data-dir", "sample", "--use-cpu", "--no-pretraining", "--text-model", "sample", "--train-text-model"]
RUN += [
    "--extra-layers",
    "0",
    "--pooling",
    "mean",
    "--normalize",
    "--scale",
    "10",
    "--loss",
    "softmax",
    "--mode",
    "i2t",
]
RUN += ["--mode", "i2t", "--learning-rate", "3e-3", "--train-on", "coco/train", "coco/restval", "--logging-steps", "1"]
SHORT = ["--per-device-train-batch-size", "20", "--num-train-epochs", "2"]


@pytest.fixture(scope="module")
def vectors(sample_library):
    """The mean word counts of an image's captions, so that captions can learn them, by split."""
    words = {}
    sides = {}
    for split in ("train", "restval", "test"):
        content = sample_library.split(split)
        table = np.zeros((content.image_ids.size, 24), dtype=np.float32)
        row = {image: place for place, image in enumerate(content.image_ids.tolist())}
        for image, text in content.captions.select(["image_id", "text"]).to_pandas().itertuples(index=False):
            for word in text.lower().strip(".").split():
                table[row[image], words.setdefault(word, len(words)) % 24] += 1
        sides[split] = Embeddings(content.image_ids, table)
    return sides


def save(path, *sides):
    images = Embeddings(np.concatenate([s.ids for s in sides]), np.concatenate([s.vectors for s in sides]))
    save_embeddings(path, EmbeddingsRun(images, None))
    return ["--image-features", str(path)]


def test_captions_learn_the_vectors_of_their_images(tmp_path, vectors, sample_library):
    options = save(tmp_path / "all.npz", *vectors.values())
    command = [*RUN, *options, *SHORT[:2], "--num-train-epochs", "15", "--report-on", "test", "--eval-strategy", "no"]
    command += ["--save-strategy", "no", "--no-load-best-model-at-end"]
    trained = train([*command, "--output-dir", str(tmp_path / "run")])
    assert trained.report.scores["coco_5k/t2i/recall_at_10"] > 0.5  # chance 0.17
    log = json.loads((tmp_path / "run" / "trainer_state.json").read_text())["log_history"]
    losses = [row["loss"] for row in log if "loss" in row]
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:3])
    model, tokenizer = (kind.from_pretrained(tmp_path / "run") for kind in (AutoModel, AutoTokenizer))
    content = sample_library.split("test")
    run = encode(model, captions=content.captions, processor=tokenizer, device="cpu", progress=False)
    similarities = run.captions.vectors @ vectors["test"].vectors.T
    similarities /= np.linalg.norm(vectors["test"].vectors, axis=1)
    owners = [content.image_ids.tolist().index(image) for image in content.captions["image_id"].to_pylist()]
    ranks = (similarities >= similarities[np.arange(len(owners)), owners][:, None]).sum(1)
    assert trained.report.scores["coco_5k/t2i/recall_at_1"] == pytest.approx((ranks == 1).mean(), abs=0.005)


def test_images_without_a_vector_are_left_out(tmp_path, vectors, capsys):
    options = save(tmp_path / "train.npz", vectors["train"])
    trained = train([*RUN, *options, *SHORT, "--output-dir", str(tmp_path / "run")])
    assert "10 of 70 training images have no vector in --image-features: left out" in capsys.readouterr().err
    log = json.loads((tmp_path / "run" / "trainer_state.json").read_text())["log_history"]
    assert sum("eval_held_out/t2i/recall_at_10" in row for row in log) == 2
    assert json.loads((tmp_path / "run" / "run.json").read_text())["held_out"] == 6
    assert "image_model" not in load_file(tmp_path / "run" / "model.safetensors")
    assert trained.report is None
    assert trained.has_images


def test_split_without_vectors_is_refused(tmp_path, vectors):
    options = save(tmp_path / "train.npz", vectors["train"], vectors["restval"])
    for asked in (["--report-on", "test"], ["--held-out", "0"]):
        with pytest.raises(MissingIds, match="the features lack 60 of 60 images"):
            train([*RUN, *options, *SHORT, *asked, "--output-dir", str(tmp_path / "run")])
    foreign = save(tmp_path / "foreign.npz", vectors["test"])
    with pytest.raises(InvalidOption, match="none of the 70 training images has a vector in --image-features"):
        train([*RUN, *foreign, *SHORT, "--output-dir", str(tmp_path / "run")])


@pytest.mark.parametrize("option", ["--image-model sample", "--images sample", "--image-pooling max", "--pairs-file x"])
def test_options_of_an_image_tower_are_refused(tmp_path, option):
    with pytest.raises(InvalidOption, match=f"leave out {option.split()[0]}"):
        train([*RUN, "--image-features", "absent.npz", *option.split(), "--output-dir", str(tmp_path)])


def test_model_of_other_vectors_is_refused(tmp_path, vectors):
    options = save(tmp_path / "all.npz", *vectors.values())
    train([*RUN, *options, *SHORT, "--output-dir", str(tmp_path / "run")])
    narrow = save(tmp_path / "narrow.npz", Embeddings(vectors["train"].ids, vectors["train"].vectors[:, :5]))
    again = ["--pretrained", str(tmp_path / "run"), "--mode", "i2t", "--data-dir", "sample", "--use-cpu", *SHORT]
    with pytest.raises(InvalidOption, match="takes image vectors of 24 numbers, and those of --image-features have 5"):
        train([*again, *narrow, "--output-dir", str(tmp_path / "next")])
    train([*again, *options, "--output-dir", str(tmp_path / "next")])
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("run", "next"))
    assert not torch.equal(before["text_projection.weight"], after["text_projection.weight"])


TRAIN = ["--no-python", sys.executable, "-c", "from cxc_eccv.cli.app import main; main()", "train", "dual-encoder"]


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(tmp_path, vectors):
    command = [*RUN, *save(tmp_path / "train.npz", vectors["train"]), "--num-train-epochs", "1"]
    command += ["--eval-strategy", "no", "--save-strategy", "no", "--no-load-best-model-at-end"]
    train([*command, "--per-device-train-batch-size", "20", "--output-dir", str(tmp_path / "one")])
    two = ["--per-device-train-batch-size", "10", "--output-dir", str(tmp_path / "two"), "--ddp-backend", "gloo"]
    assert torchrun(*TRAIN, *command, *two).stderr.count("have no vector") == 1
    logs = [json.loads((tmp_path / run / "trainer_state.json").read_text())["log_history"] for run in ("one", "two")]
    losses = [[row["loss"] for row in log if "loss" in row] for log in logs]
    assert len(losses[0]) == 3
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
