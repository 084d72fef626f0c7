"""Trained models load from the code of their cards in an environment without this package, with the same numbers."""

import ast
import json
import re
import subprocess
import sys
import venv
import warnings
from pathlib import Path

import card_code
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

import tiny_models  # noqa: E402 - after the check for torch
from sentence_transformers import SentenceTransformer  # noqa: E402

import cxc_eccv.studies.baselines.models as registered  # noqa: E402
from cxc_eccv.cli.app import main  # noqa: E402
from cxc_eccv.encoding import load_model, text_encoder  # noqa: E402
from cxc_eccv.sources.library import Library  # noqa: E402

pytestmark = pytest.mark.slow

TEXT = ("dual-encoder", "--data-dir", "sample", "--no-pretraining", "--text-model", "sample", "--use-cpu")
TEXT = (*TEXT, "--per-device-train-batch-size", "30", "--max-steps", "1", "--eval-strategy", "no")
TEXT = (*TEXT, "--save-strategy", "no", "--no-load-best-model-at-end", "--extra-feed-forward", "32")
SENTENCE = (*TEXT, "--mode", "t2t", "--extra-layers", "0", "--train-text-model")
IMAGES = ("--images", "sample", "--image-model", "sample")
GRU = ("char-gru", "--data-dir", "sample", "--train-on", "coco/val", "--held-out", "4", "--hidden-size", "8")
GRU = (*GRU, "--images", "30", "--cycle-epochs", "1", "--epochs", "2")
CLASSIFIER = ("entailment-classifier", "--data-dir", "sample", "--text-model", "sample", "--train-on", "cxc/val")
CLASSIFIER = (*CLASSIFIER, "--use-cpu", "--max-steps", "1", "--held-out", "12")
FEATURES = "image_features.npz"
MODELS = {
    "text": (*TEXT, "--mode", "t2t"),
    "text_mean": (*SENTENCE, "--pooling", "mean", "--report-on", "test"),
    "text_normalised": (*SENTENCE, "--normalize"),
    "image_text": (*TEXT, *IMAGES, "--mode", "i2t", "--image-pooling", "max"),
    "multitask": (*TEXT, *IMAGES, "--mode", "t2t+i2t", "--extra-layers", "0"),
    "image_vectors": (*TEXT, "--mode", "i2t", "--extra-layers", "0", "--image-features", FEATURES),
    "gru": GRU,
    "gru_images": (*GRU, "--image-features", FEATURES),
    "classifier": (*CLASSIFIER, *IMAGES, "--visual-text-model", "sample"),
    "text_classifier": CLASSIFIER,
}
SENTENCES = {"text_mean": "dot", "text_normalised": "cosine"}
"""Models that sentence-transformers loads as well, to their similarity."""


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    assert ended.value.code == 0


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folders of all trained models."""
    place = tmp_path_factory.mktemp("trained")
    library = Library("sample")
    image_ids = np.concatenate([library.split(split).image_ids for split in library.splits])
    vectors = np.random.default_rng(0).standard_normal((image_ids.size, 16), dtype=np.float32)
    for folder in (place, place / "gru_images"):  # where cards look for what they read
        folder.mkdir(exist_ok=True)
        np.savez(folder / FEATURES, image_ids=image_ids, image_embeddings=vectors)
    tiny_models.picture(1).save(place / "dog.jpg")
    folders = {name: place / name / ("ensemble" if name.startswith("gru") else "") for name in MODELS}
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs this short
        patch.chdir(place)
        for name, words in MODELS.items():
            run("train", *words, "--output-dir", name)
    return folders


@pytest.fixture(scope="module")
def elsewhere(folders, tmp_path_factory):
    """Where card_code wrote what it found in an environment without this package."""
    place = tmp_path_factory.mktemp("elsewhere")
    venv.create(place / "environment")
    (packages,) = (place / "environment").glob("lib/python*/site-packages")
    # The folders that a .pth file names are searched, but their own .pth files are not read: that of this package.
    shared = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "shared.pth").write_text("\n".join(shared))
    command = [place / "environment" / "bin" / "python", card_code.__file__, place, *folders.values()]
    settings = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hf"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, command)], env=settings, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Do you wish to run the custom code?" not in done.stdout, "transformers asks at the terminal"
    return place


@pytest.mark.parametrize("name", MODELS)
def test_card_code_gives_equal_numbers_without_the_package(folders, elsewhere, name, monkeypatch):
    monkeypatch.chdir(folders[name])  # run_card changes it
    with torch.inference_mode():
        here, model = card_code.run_card(folders[name])
    assert type(model).__name__ in registered.__all__
    assert type(model).__module__.startswith("cxc_eccv.")  # not the code in the folder, though it is trusted
    with np.load(elsewhere / f"{[*MODELS].index(name)}.npz") as there:
        assert len(there) == len(here) == (2 if name in {*SENTENCES, "image_text", "multitask", "gru_images"} else 1)
        for result, expected in zip(there.values(), here, strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_model_loaded_elsewhere_is_saved_with_its_code(folders, elsewhere, name):
    again = elsewhere / str([*MODELS].index(name))
    (code,) = folders[name].glob("*.py")
    assert (again / code.name).read_text() == code.read_text()
    configs = [json.loads((folder / "config.json").read_text()) for folder in (again, folders[name])]
    assert configs[0]["auto_map"] == configs[1]["auto_map"]


@pytest.mark.parametrize("name", MODELS)
def test_shipped_code_defines_each_name_once(folders, name):
    (code,) = folders[name].glob("*.py")
    defined = [node.name for node in ast.parse(code.read_text()).body if hasattr(node, "name")]
    assert len(defined) == len(set(defined))
    assert not re.search(r"^\s*(from|import) cxc_eccv", code.read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", SENTENCES)
def test_sentence_transformer_gives_the_same_vectors(folders, name):
    texts = ["A red heart.", "a", "Two green squares beside a blue circle, and so on " * 20]
    sentences = SentenceTransformer(str(folders[name]), device="cpu")
    ours = load_model(folders[name])
    assert type(ours.model) is registered.DualEncoderModel
    assert ours.similarity == load_model(sentences).similarity == SENTENCES[name]
    np.testing.assert_allclose(sentences.encode(texts), text_encoder(ours)(texts), atol=1e-6, rtol=1e-5)


def test_evaluation_scores_model_with_both_forms_as_before(folders, tmp_path):
    folder = folders["text_mean"]
    run("evaluate", "--model", folder, "--data-dir", "sample", "--output", tmp_path)
    before, after = (json.loads((place / "report.json").read_text()) for place in (folder / "report", tmp_path))
    assert after["scores"] == before["scores"]


def test_only_plain_text_models_have_sentence_form(folders):
    assert {name for name, folder in folders.items() if (folder / "modules.json").exists()} == SENTENCES.keys()
