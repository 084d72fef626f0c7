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

PARTS = ["--data_dir", "sample", "--train_on", "coco/train", "coco/restval", "coco/val", "--held_out", "10"]
SMALL = ["--hidden_size", "8", "--images", "32", "--cycle_epochs", "1", "--highest_rate", "0.02"]


def command(folder, *options):
    return [*PARTS, *SMALL, "--output_dir", str(folder), *options]


def test_two_epochs_and_two_more_equal_four(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    report = train(command(whole, "--epochs", "4", "--report_on", "test"))
    train(command(parts, "--epochs", "2"))
    train(command(parts, "--epochs", "4"))
    for name in ("snapshots/step-000016", "ensemble"):
        expected, found = (load_file(folder / name / "model.safetensors") for folder in (whole, parts))
        assert expected.keys() == found.keys()
        for key in expected:
            np.testing.assert_array_equal(found[key], expected[key])
    scores = json.loads((whole / "snapshots" / "snapshots.json").read_text())
    assert list(scores) == [f"step-{4 * number:06d}" for number in range(1, 5)]
    assert scores == json.loads((parts / "snapshots" / "snapshots.json").read_text())
    assert report.scores["cxc/t2t/recall_at_10"] > 0.3  # by chance 0.1
    assert json.loads((whole / "report.json").read_text())["scores"] == report.scores
    assert text_encoder(str(whole / "ensemble"))(["a red circle"]).shape == (1, 16)
    with pytest.raises(CheckpointMismatch, match="seed was 0 and is 1"):
        train(command(parts, "--epochs", "5", "--seed", "1"))


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
