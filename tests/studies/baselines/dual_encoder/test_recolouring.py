"""Augmentation of the embedded sample, and what a dual encoder learns from it in two minutes."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import tiny_models

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.studies.baselines.dual_encoder.data import (
    COLOURS,
    RecolouredPairs,
    nearest_colours,
    recolour,
    reword,
    training_pairs,
)
from cxc_eccv.studies.baselines.dual_encoder.script import train

BACKBONES = ["--no-pretraining", "--text-model", "sample", "--image-model", "sample", "--image-pooling", "max"]
RECIPE = ["--train-text-model", "--extra-layers", "0", "--pooling", "mean", "--normalize", "--scale", "15"]
RECIPE += ["--loss", "softmax", "--learning-rate", "3e-3", "--schedule", "other", "--lr-scheduler-type", "cosine"]
RECIPE += ["--warmup-steps", "20", "--per-device-train-batch-size", "70", "--num-train-epochs", "800"]
RECIPE += ["--eval-strategy", "no", "--save-strategy", "no", "--no-load-best-model-at-end", "--use-cpu"]
RECIPE += ["--max-grad-norm", "1"]
DATA = ["--data-dir", "sample", "--train-on", "coco/train", "coco/restval", "--disable-tqdm"]


def test_the_colours_are_those_of_the_generator(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[4] / "tools")
    scenes = importlib.import_module("sample.scenes")
    assert list(COLOURS.items()) == [*scenes.COLOURS.items(), *scenes.BACKGROUNDS.items()]


def test_colours_change_in_the_picture_as_in_the_text():
    pixels = np.array([[COLOURS["red"], COLOURS["cream"], (0, 255, 0)]], dtype=np.uint8)
    order = np.arange(len(COLOURS))
    order[[0, 4, 8, 10]] = 4, 0, 10, 8
    found = recolour(pixels, nearest_colours(pixels), order)
    assert [tuple(pixel) for pixel in found[0].tolist()] == [COLOURS["blue"], COLOURS["mint"], (0, 255, 0)]


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("A red star.", {"red": "orange"}, "An orange star."),
        ("an orange star left of a red heart", {"orange": "red", "red": "orange", "left": "right", "right": "left"},
         "a red star right of an orange heart"),
        ("An empty mint picture", {"mint": "grey"}, "An empty grey picture"),
        ("No shapes.", {"red": "blue"}, "No shapes."),
    ],
)  # fmt: skip
def test_words_change_as_wholes(text, words, expected):
    assert reword(text, words) == expected


def test_items_depend_on_the_draw_alone(sample_library):
    tokenizer = tiny_models.bert_tokenizer(64)
    options = {"mode": "t2t+i2t", "images": "sample", "seed": 3}
    one, other = (
        RecolouredPairs(training_pairs(sample_library, ["coco/train"], tokenizer, **options), tokenizer)
        for _ in range(2)
    )
    other[0, 5]
    first, again, later = one[2, 7], other[2, 7], other[3, 7]
    assert len(one) == 60
    assert first["texts"] == again["texts"]
    np.testing.assert_array_equal(np.asarray(first["image"]), np.asarray(again["image"]))
    assert (np.asarray(first["image"]) != np.asarray(later["image"])).any()


@pytest.mark.parametrize("changed", [["--mode", "t2t"], ["--images", "elsewhere"]])
def test_other_data_than_the_sample_is_refused(tmp_path, changed):
    command = [*DATA, "--images", "sample", "--recolour", *BACKBONES, "--output-dir", str(tmp_path / "run"), *changed]
    with pytest.raises(InvalidOption, match="works only with the embedded sample"):
        train(command)


def test_the_variable_names_the_sample_as_the_option_does(tmp_path, monkeypatch):
    """Past the refusal, the next argument is looked at."""
    command = ["--images", "sample", "--recolour", *BACKBONES, "--train-on", "no/such"]
    monkeypatch.setenv("CXC_ECCV_DATA", "sample")
    with pytest.raises(UnknownName, match="collection of captions"):
        train([*command, "--output-dir", str(tmp_path / "run")])
    monkeypatch.setenv("CXC_ECCV_DATA", str(tmp_path))
    with pytest.raises(InvalidOption, match="works only with the embedded sample"):
        train([*command, "--output-dir", str(tmp_path / "run")])


@pytest.mark.slow
def test_the_sample_is_learnt_in_two_minutes(tmp_path):
    """Trained on train and restval alone; COCO's links, the strictest labels, know one image of every caption."""
    report = train([*DATA, "--images", "sample", "--recolour", *BACKBONES, *RECIPE, "--report-on", "test",
                    "--output-dir", str(tmp_path / "run")]).report  # fmt: skip
    assert report.scores["coco_5k/i2t/recall_at_1"] >= 0.8
    assert report.scores["cxc/i2t/recall_at_1"] >= 0.8
    assert report.scores["eccv_caption/i2t/recall_at_1"] >= 0.8
