"""The training command on the embedded sample: it learns, goes on after a kill, and saves what it should."""

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'cxc_eccv[train]'")
pytest.importorskip("accelerate", reason="accelerate is not installed: pip install 'cxc_eccv[train]'")

from safetensors.numpy import load_file

from cxc_eccv.baselines.char_gru.script import train
from cxc_eccv.encoding.text_encoder import text_encoder
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, MissingIds, UnknownName
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.types import Embeddings

PARTS = ["--data_dir", "sample", "--train_on", "coco/val", "--held_out", "4"]
SMALL = ["--hidden_size", "8", "--images", "30", "--cycle_epochs", "1", "--highest_rate", "0.02"]


def command(folder, *options):
    return [*PARTS, *SMALL, "--output_dir", str(folder), *options]


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_a_run_that_goes_on_equals_one_without_a_break(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(command(whole, "--epochs", "3"))
    train(command(parts, "--epochs", "2"))
    train(command(parts, "--epochs", "3"))
    for name in ("snapshots/step-000006", "ensemble"):
        expected, found = weights(whole / name), weights(parts / name)
        assert expected.keys() == found.keys()
        for key in expected:
            np.testing.assert_array_equal(found[key], expected[key])
    scores = json.loads((whole / "snapshots" / "snapshots.json").read_text())
    assert list(scores) == ["step-000002", "step-000004", "step-000006"]  # two batches an epoch
    assert scores == json.loads((parts / "snapshots" / "snapshots.json").read_text())
    assert text_encoder(str(whole / "ensemble"))(["a red circle"]).shape == (1, 16)
    with pytest.raises(CheckpointMismatch, match="seed was 0 and is 1"):
        train(command(parts, "--epochs", "4", "--seed", "1"))


@pytest.mark.slow
def test_it_learns_the_sample(tmp_path):
    parts = ["--data_dir", "sample", "--train_on", "coco/train", "coco/restval", "coco/val", "--held_out", "10"]
    options = [
        "--hidden_size",
        "12",
        "--images",
        "16",
        "--epochs",
        "6",
        "--cycle_epochs",
        "2",
        "--highest_rate",
        "0.01",
    ]
    report = train([*parts, *options, "--output_dir", str(tmp_path), "--report_on", "test"])
    assert report.scores["cxc/t2t/recall_at_10"] > 0.7  # by chance 0.2; bag of words has 0.59
    assert json.loads((tmp_path / "report.json").read_text())["scores"] == report.scores


def test_captions_with_image_features(tmp_path, sample_library):
    random, sides = np.random.default_rng(0), []
    for split in sample_library.splits:
        ids = sample_library.karpathy(split).image_ids
        sides.append(Embeddings(ids, random.standard_normal((ids.size, 5))))
    images = Embeddings(np.concatenate([s.ids for s in sides]), np.concatenate([s.vectors for s in sides]))
    save_embeddings(tmp_path / "features.npz", EmbeddingsRun(images, None))
    options = ["--image_features", str(tmp_path / "features.npz"), "--captions", "1", "--epochs", "2"]
    report = train(command(tmp_path / "run", *options, "--report_on", "test"))
    assert {"coco_5k/i2t/recall_at_1", "coco_5k/t2i/recall_at_1"} <= report.scores.keys()
    save_embeddings(tmp_path / "few.npz", EmbeddingsRun(sides[0], None))
    with pytest.raises(MissingIds, match="the features lack"):
        train(command(tmp_path / "few", "--image_features", str(tmp_path / "few.npz"), "--epochs", "2"))


def test_bad_options(tmp_path):
    with pytest.raises(InvalidOption, match="the ensemble takes 2 snapshots"):
        train(command(tmp_path, "--epochs", "1"))
    with pytest.raises(UnknownName, match="unknown split"):
        train(command(tmp_path, "--epochs", "2", "--report_on", "train"))
    with pytest.raises(InvalidOption, match="at least two images"):
        train(command(tmp_path, "--epochs", "2", "--images", "1"))


def test_an_image_that_is_left_over_ends_no_run(tmp_path):
    # 57 images in batches of 28: one remains, which has no negative.
    train(command(tmp_path, "--epochs", "2", "--held_out", "3", "--images", "28"))
    assert (tmp_path / "ensemble" / "model.safetensors").is_file()
