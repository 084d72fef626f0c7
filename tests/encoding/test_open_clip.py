"""Models of open_clip: its own preprocessing, tokenizer and towers; by a stand-in, and where it loads the package."""

import json
import sys

import numpy as np
import open_clip_stand_in
import pytest
import tiny_models
import torch
from safetensors.torch import save_file

from cxc_eccv.encoding import encode, load_model, text_encoder
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError
from cxc_eccv.runs import load_run

PICTURES = [(seed, tiny_models.picture(seed)) for seed in range(1, 4)]
TEXTS = ["a dog", "A red cat on street", "a dog on a red street on a red street"]
CAPTIONS = list(enumerate(TEXTS, start=100))

PREFIXES = ["", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "model."]
"""What parallel training, torch.compile and Lightning put before the names of weights."""


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", open_clip_stand_in)
    return open_clip_stand_in


@pytest.fixture
def folder(tmp_path):
    """As open_clip saves a model for the Hub."""
    torch.manual_seed(3)
    path = tmp_path / "my-clip"
    path.mkdir()
    save_file(open_clip_stand_in.Model().state_dict(), path / "open_clip_model.safetensors")
    (path / "open_clip_config.json").write_text(json.dumps({"model_cfg": {}}))
    return path


def check_vectors(run, open_clip, model, preprocess, tokenizer):
    with torch.inference_mode():
        images = model.encode_image(torch.stack([preprocess(image) for _, image in PICTURES]), normalize=False)
        captions = model.encode_text(tokenizer(TEXTS), normalize=False)
    np.testing.assert_allclose(run.images.vectors, images.numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(run.captions.vectors, captions.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["{folder}", "open_clip:local-dir:{folder}", "open_clip:Tiny-16={folder}/{file}"])
def test_vectors_are_those_of_open_clip(form, stand_in, folder, tmp_path):
    source = form.format(folder=folder, file="open_clip_model.safetensors")
    output = tmp_path / "run.npz"
    with pytest.warns(UserWarning, match="1 captions are longer than the model's context"):
        run = encode(source, images=PICTURES, captions=CAPTIONS, device="cpu", output=output, progress=False)
    check_vectors(
        run, stand_in, *stand_in.create_model_from_pretrained(f"local-dir:{folder}"), stand_in.get_tokenizer("")
    )
    written = load_run(output)
    assert (written.similarity, written.model) == ("cosine", "Tiny-16/open_clip_model" if "=" in form else "my-clip")
    halved = encode(source, images=PICTURES, device="cpu", dtype="bfloat16", progress=False)
    assert 0 < np.abs(halved.images.vectors - run.images.vectors).max() < 0.05


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("bias", [None, -10.0])
def test_checkpoint_of_training_gives_its_vectors(prefix, bias, stand_in, tmp_path):
    torch.manual_seed(5)
    model = open_clip_stand_in.Model(bias)
    open_clip_stand_in.save_checkpoint(model, tmp_path / "epoch_1.pt", prefix)
    with pytest.warns(UserWarning, match="cut"):
        run = encode(
            f"open_clip:Tiny-16={tmp_path}/epoch_1.pt", images=PICTURES, captions=CAPTIONS, device="cpu", progress=False
        )
    check_vectors(run, stand_in, model, open_clip_stand_in.preprocess, stand_in.get_tokenizer(""))
    assert run.model == "Tiny-16/epoch_1"


def test_wrapped_safetensors_give_their_vectors(stand_in, tmp_path):
    model = open_clip_stand_in.Model()
    save_file({f"_orig_mod.{name}": tensor for name, tensor in model.state_dict().items()}, tmp_path / "w.safetensors")
    run = encode(f"open_clip:Tiny-16={tmp_path}/w.safetensors", images=PICTURES, device="cpu", progress=False)
    with torch.inference_mode():
        expected = model.encode_image(torch.stack([stand_in.preprocess(image) for _, image in PICTURES]), False)
    np.testing.assert_allclose(run.images.vectors, expected.numpy(), rtol=1e-5, atol=1e-5)


def test_a_name_and_a_tag(stand_in):
    names = ("laion", "openai")
    vectors = [text_encoder(f"open_clip:Tiny-16/{tag}", device="cpu")(TEXTS) for tag in names]
    assert np.abs(vectors[0] - vectors[1]).max() > 0.1
    loaded = load_model("open_clip:Tiny-16/laion", device="cpu", caption_prompt="a red {}")
    assert (loaded.title, loaded.sides) == ("Tiny-16/laion", ("images", "captions"))
    spoken = [(number, f"a red {text}") for number, text in CAPTIONS]
    with pytest.warns(UserWarning, match="cut"):
        runs = [
            encode(model, captions=captions, progress=False).captions.vectors
            for model, captions in ((loaded, CAPTIONS), (load_model("open_clip:Tiny-16/laion", device="cpu"), spoken))
        ]
    np.testing.assert_array_equal(*runs)


def save_part(prefix):
    """A checkpoint that lacks the weights of texts."""

    def save(path):
        weights = open_clip_stand_in.Model().state_dict().items()
        part = {f"{prefix}{name}": tensor for name, tensor in weights if "pixels" in name}
        torch.save({"state_dict": part}, path / "part.pt")

    return save


def damage_weights(path):
    (path / "open_clip_model.safetensors").write_bytes(b"no weights")


MISSING = r'part.pt: open_clip cannot load it(.|\n)*Missing key.*"words.weight"'

UNLOADABLE = {
    "unknown-tag": ("open_clip:Tiny-16/opena", None, r"^open_clip:Tiny-16/opena: open_clip cannot load it \("),
    "no-tag": ("open_clip:Tiny-16", None, r"^open_clip:Tiny-16: open_clip cannot load it \("),
    "no-such-file": ("open_clip:Tiny-16=nowhere.pt", None, r"nowhere.pt: open_clip cannot load it \("),
    "damaged-weights": ("{folder}", damage_weights, r"my-clip: open_clip cannot load it \("),
    "weights-missing": ("open_clip:Tiny-16={folder}/part.pt", save_part(""), MISSING),
    "weights-missing-in-parallel": ("open_clip:Tiny-16={folder}/part.pt", save_part("module."), MISSING),
    "weights-missing-compiled": ("open_clip:Tiny-16={folder}/part.pt", save_part("_orig_mod."), MISSING),
}


@pytest.mark.parametrize("fault", UNLOADABLE)
def test_model_that_open_clip_cannot_load_is_refused(stand_in, folder, fault):
    source, spoil, message = UNLOADABLE[fault]
    if spoil is not None:
        spoil(folder)
    with pytest.raises(ModelError, match=message):
        load_model(source.format(folder=folder), device="cpu")


REFUSED_OPTIONS = {
    "revision": ({"revision": "v1"}, "the newest revision, its tokenizer"),
    "trusted-code": ({"trust_remote_code": True}, "leave out revision, trust_remote"),
    "lower-case": ({"lowercase": True}, "model of open_clip prepares texts itself"),
}


@pytest.mark.parametrize("option", REFUSED_OPTIONS)
def test_option_that_open_clip_decides_is_refused(stand_in, option):
    options, message = REFUSED_OPTIONS[option]
    with pytest.raises(InvalidOption, match=message):
        load_model("open_clip:Tiny-16/openai", device="cpu", **options)


def test_without_the_package_the_extra_is_named(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    for source in (str(folder), "hf-hub:laion/CLIP"):
        with pytest.raises(InvalidOption, match=r"needs open_clip, which is not installed: .*pip install"):
            load_model(source)


def test_folder_with_transformers_weights_uses_transformers(tmp_path):
    """A folder with weights for open_clip alone is refused with the name to give."""
    folder = tiny_models.save(tiny_models.clip(), tmp_path / "both")
    (folder / "open_clip_config.json").write_text("{}")
    assert type(load_model(folder, device="cpu").model).__name__ == "CLIPModel"
    (folder / "config.json").write_text("{}")
    with pytest.raises(
        (ModelError, CheckpointMismatch), match=r"it is a model of open_clip: name it open_clip:local-dir:.*both"
    ):
        load_model(folder, device="cpu")


SIZES = {"width": 32, "layers": 1}
VISION = {**SIZES, "image_size": 32, "patch_size": 8, "head_width": 16}
CONFIG = {"embed_dim": 16, "vision_cfg": VISION, "text_cfg": {**SIZES, "heads": 2, "context_length": 8}}


@pytest.fixture
def real_package():
    return pytest.importorskip("open_clip", reason="comes with the extra 'open_clip'", exc_type=Exception)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("bias", [None, -10.0])
def test_the_real_package_loads_checkpoints_of_training(prefix, bias, real_package, tmp_path):
    (tmp_path / "Tiny-Real.json").write_text(json.dumps(CONFIG))
    real_package.add_model_config(tmp_path / "Tiny-Real.json")
    model, _, preprocess = real_package.create_model_and_transforms("Tiny-Real", init_logit_bias=bias)
    open_clip_stand_in.save_checkpoint(model.eval(), tmp_path / "epoch_1.pt", prefix)
    source = f"open_clip:Tiny-Real={tmp_path}/epoch_1.pt"
    with pytest.warns(UserWarning, match="cut"):
        run = encode(source, images=PICTURES, captions=CAPTIONS, device="cpu", progress=False)
    check_vectors(run, real_package, model, preprocess, real_package.get_tokenizer("Tiny-Real"))


def test_the_real_package_gives_its_own_vectors(real_package, tmp_path):
    open_clip = real_package
    config = CONFIG
    torch.manual_seed(0)
    weights = {name: tensor.contiguous() for name, tensor in open_clip.CLIP(**config).state_dict().items()}
    save_file(weights, tmp_path / "open_clip_model.safetensors")
    (tmp_path / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {}}))
    with pytest.warns(UserWarning, match="1 captions are longer than the model's context"):
        run = encode(str(tmp_path), images=PICTURES, captions=CAPTIONS, device="cpu", progress=False)
    name = f"local-dir:{tmp_path}"
    check_vectors(run, open_clip, *open_clip.create_model_from_pretrained(name), open_clip.get_tokenizer(name))
