"""Revision, code of a checkpoint's own, prompts, names: each reaches model, vectors, file and record, or is refused."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tiny_models
import transformers

from cxc_eccv.encoding import Encoding, encode, load_model, text_encoder
from cxc_eccv.encoding.identity import model_key
from cxc_eccv.errors import InvalidOption, ModelError, TowerMissing
from cxc_eccv.runs import load_run

pytestmark = pytest.mark.thorough

CAPTIONS = list(enumerate(tiny_models.TEXTS, start=100))
PICTURES = [(seed, tiny_models.picture(seed, (32 + 16 * (seed % 2), 40))) for seed in range(1, 4)]


def record_of(path):
    return json.loads(path.with_name(f"{path.stem}.encoding.json").read_text())


def test_run_is_named_by_option_or_model(tmp_path):
    folder = tiny_models.save(tiny_models.bert(), tmp_path / "models" / "bert-tiny")
    options = {"captions": CAPTIONS, "output": tmp_path / "run.npz", "progress": False}
    assert encode(f"{folder}/", **options, device="cpu").model == "bert-tiny"
    assert (load_run(tmp_path / "run.npz").model, record_of(tmp_path / "run.npz")["name"]) == ("bert-tiny", "bert-tiny")
    encode(load_model(folder, device="cpu", name="BERT, ours"), **options)
    assert (load_run(tmp_path / "run.npz").model, record_of(tmp_path / "run.npz")["name"]) == ("BERT, ours",) * 2
    model, tokenizer, _ = tiny_models.bert()
    assert encode(model, captions=CAPTIONS, processor=tokenizer, progress=False).model == "BertModel"


SCRIPT = """
import sys
import numpy as np
from huggingface_hub import constants
constants.HF_HUB_CACHE = sys.argv[1]
from cxc_eccv.encoding import encode, load_model
from cxc_eccv.errors import ModelError
for revision in (None, "old"):
    loaded = load_model("team/bert", device="cpu", revision=revision)
    run = encode(loaded, captions=[(1, "a dog on the bus")], output=f"{revision}.npz", progress=False)
    assert run.model == "team/bert"
try:
    load_model("team/bert", device="cpu", revision="absent")
except ModelError as error:
    print("refused", error)
"""


def test_a_revision_is_that_of_model_and_tokenizer(tmp_path, warm_python):
    """In a cache of the Hub with two commits, which differ in weights and in the order of their words."""
    cache = tmp_path / "hub" / "models--team--bert"
    expected = {}
    for name, commit, seed in (("main", "a" * 40, 0), ("old", "b" * 40, 1)):
        words = tiny_models.WORDS[:5] + tiny_models.WORDS[5:][:: 1 - 2 * seed]
        tokenizer = transformers.BertTokenizer(vocab={word: place for place, word in enumerate(words)})
        model = tiny_models.seeded(
            lambda: transformers.BertModel(tiny_models.bert_config(), add_pooling_layer=False), seed=seed
        )
        tiny_models.save((model, tokenizer), cache / "snapshots" / commit)
        (cache / "refs").mkdir(exist_ok=True)
        (cache / "refs" / name).write_text(commit)
        expected[name] = text_encoder(model, processor=tokenizer)(["a dog on the bus"])
    assert np.abs(expected["main"] - expected["old"]).max() > 0.1
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*warm_python, "-c", SCRIPT, str(cache.parent)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refused team/bert: no model found" in done.stdout
    for revision, name in ((None, "main"), ("old", "old")):
        vectors = load_run(tmp_path / f"{revision}.npz").captions.vectors
        np.testing.assert_allclose(vectors, expected[name], rtol=1e-5, atol=1e-5)
        assert record_of(tmp_path / f"{revision}.npz")["encoding"].get("revision") == revision


THEIRS = """
from transformers import BertConfig, BertModel

class Config(BertConfig):
    model_type = "theirs"

class Model(BertModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config, add_pooling_layer=False)
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """A folder with a model of its own Python code, and what a plain BERT with its weights is."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    parts = tiny_models.bert()
    folder = tiny_models.save(parts, tmp_path / "model")
    (folder / "theirs.py").write_text(THEIRS)
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "theirs.Config", "AutoModel": "theirs.Model"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "theirs", "auto_map": classes}))
    return folder, parts


def test_checkpoint_code_runs_only_where_trusted(theirs, tmp_path, monkeypatch):
    """Elsewhere the model is refused, and no question is asked."""
    folder, parts = theirs
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked whether to trust the code"))
    with pytest.raises(ModelError, match=r"brings Python code of its own, which is not run.* --trust-remote-code"):
        load_model(folder)
    assert not (tmp_path / "modules").exists()
    run = encode(load_model(folder, device="cpu", trust_remote_code=True), captions=CAPTIONS, progress=False)
    expected = encode(parts[0], captions=CAPTIONS, processor=parts[1], progress=False)
    np.testing.assert_allclose(run.captions.vectors, expected.captions.vectors, rtol=1e-5, atol=1e-6)


def test_edited_code_of_a_model_is_another_model(theirs):
    folder, _ = theirs
    keys = []
    for comment in ("", "", "# edited\n"):
        with (folder / "theirs.py").open("a") as file:
            file.write(comment)
        keys.append(model_key(load_model(folder, device="cpu", trust_remote_code=True), ["captions"]))
    assert keys[0] == keys[1] != keys[2]


def test_a_prompt_stands_around_every_caption(tmp_path):
    model, tokenizer, images = tiny_models.clip()
    loaded = load_model(model, processor=(tokenizer, images), caption_prompt="a photo of {}.")
    output = tmp_path / "run.npz"
    run = encode(loaded, captions=CAPTIONS, images=PICTURES, output=output, progress=False)
    told = record_of(output)
    assert told["encoding"]["prompts"] == {"captions": "a photo of {}."}
    spoken = [(number, f"a photo of {text}.") for number, text in CAPTIONS]
    plain = encode(
        model, captions=spoken, images=PICTURES, processor=(tokenizer, images), output=output, progress=False
    )
    np.testing.assert_array_equal(run.captions.vectors, plain.captions.vectors)
    np.testing.assert_array_equal(run.images.vectors, plain.images.vectors)
    assert record_of(output)["fingerprint"] != told["fingerprint"]
    assert "prompts" not in record_of(output)["encoding"]


def test_prompt_counts_among_the_truncated_tokens():
    model, tokenizer, _ = tiny_models.bert()
    loaded = load_model(model, processor=tokenizer, caption_prompt="a the {}")
    with pytest.warns(UserWarning, match="1 captions are longer"):
        encode(loaded, captions=[(1, "dog " * 21), (2, "dog " * 20)], progress=False)


@pytest.fixture
def st_clip(tmp_path):
    """A sentence-transformers model of a tiny CLIP."""
    st = pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")
    model, tokenizer, images = tiny_models.clip()
    processor = transformers.CLIPProcessor(images, tokenizer)
    tiny_models.save((model, processor), tmp_path / "clip")
    saved = st.SentenceTransformer(str(tmp_path / "clip"), device="cpu", prompts={"query": "find ", "none": ""})
    saved.save(str(tmp_path / "st"))
    return saved


def test_a_sentence_transformers_model_encodes_images_too(st_clip, tmp_path):
    loaded = load_model(str(tmp_path / "st"), device="cpu")
    assert loaded.sides == ("images", "captions")
    run = encode(
        loaded,
        images=PICTURES,
        captions=CAPTIONS,
        encoding=Encoding(batch_size=2),
        output=tmp_path / "run.npz",
        progress=False,
    )
    np.testing.assert_allclose(run.images.vectors, st_clip.encode([each for _, each in PICTURES]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.captions.vectors, st_clip.encode(tiny_models.TEXTS), rtol=1e-4, atol=1e-5)
    assert np.ptp(run.images.vectors, axis=0).max() > 0.01
    assert run.model == "st"
    cut = encode(loaded, images=PICTURES[:1], encoding=Encoding(central_crop=0.5), progress=False).images.vectors
    assert np.abs(cut - run.images.vectors[:1]).max() > 1e-3


def test_prompts_of_sentence_transformers_models_are_used(st_clip, tmp_path):
    expected = st_clip.encode(tiny_models.TEXTS, prompt="find ")
    output = tmp_path / "run.npz"
    options = {"captions": CAPTIONS, "progress": False}
    for prompt in ("query", "find {}"):
        run = encode(load_model(st_clip, caption_prompt=prompt), output=output, **options)
        np.testing.assert_allclose(run.captions.vectors, expected, rtol=1e-4, atol=1e-5)
        assert record_of(output)["encoding"]["prompts"] == {"captions": "find {}"}
    st_clip.default_prompt_name = "query"
    run = encode(st_clip, output=output, **options)
    np.testing.assert_allclose(run.captions.vectors, expected, rtol=1e-4, atol=1e-5)
    assert record_of(output)["encoding"]["prompts"] == {"captions": "find {}"}
    run = encode(load_model(st_clip, caption_prompt="{} on street"), **options)
    spoken = [f"{text} on street" for text in tiny_models.TEXTS]
    np.testing.assert_allclose(run.captions.vectors, st_clip.encode(spoken, prompt=""), rtol=1e-4, atol=1e-5)


def save_bert(folder):
    return tiny_models.save(tiny_models.bert(), folder / "bert")


def load_sentence_model(folder):
    st = pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")
    return st.SentenceTransformer(str(save_bert(folder)), device="cpu", prompts={"query": "find "})


NO_HUB = "revision 'v2': only models on the Hub have revisions"
NO_PLACE = r"write \{\} once, for the caption"
NO_TEXT = r"image prompt 'describe': .* reads no text with an image"
PREPARED = "lowercase: a sentence-transformers model prepares texts itself; leave it out"

REFUSED = {
    "blank-name": (save_bert, {"name": " "}, "the model's name is ' '; give one line of text"),
    "revision-of-a-folder": (save_bert, {"revision": "v2"}, NO_HUB),
    "revision-of-a-loaded-model": (lambda _: tiny_models.bert()[0], {"revision": "v2"}, NO_HUB),
    "prompt-without-the-caption": (save_bert, {"caption_prompt": "a photo of"}, NO_PLACE),
    "empty-prompt": (save_bert, {"caption_prompt": ""}, NO_PLACE),
    "prompt-with-the-caption-twice": (save_bert, {"caption_prompt": "{} and {}"}, NO_PLACE),
    "number-as-prompt": (save_bert, {"caption_prompt": 7}, NO_PLACE),
    "prompt-that-was-not-saved": (
        load_sentence_model,
        {"caption_prompt": "passage"},
        "caption prompt 'passage'.* or name a prompt of the model: .*query",
    ),
    "image-prompt-of-a-dual-encoder": (lambda _: tiny_models.clip()[0], {"image_prompt": "describe"}, NO_TEXT),
    "image-prompt-of-a-sentence-model": (load_sentence_model, {"image_prompt": "describe"}, NO_TEXT),
    "lower-case-in-a-sentence-model": (load_sentence_model, {"lowercase": True}, PREPARED),
    "capitals-in-a-sentence-model": (load_sentence_model, {"lowercase": False}, PREPARED),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_option_that_does_not_fit_is_refused(tmp_path, fault):
    make, options, message = REFUSED[fault]
    with pytest.raises(InvalidOption, match=message):
        load_model(make(tmp_path), device="cpu", **options)


class SeesPrompts:
    """Stands in for a large model that reads an instruction beside every image."""

    def __init__(self, model):
        self._model = model
        self.seen = []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def supports(self, modality):
        return True

    def eval(self):
        return self

    def encode(self, inputs, **options):
        self.seen.append((type(inputs[0]).__name__, options["prompt"]))
        return self._model.encode(inputs, **options | {"prompt": ""})


def test_image_prompt_goes_with_every_batch(st_clip, tmp_path):
    class SentenceTransformer(SeesPrompts):
        pass

    model = SentenceTransformer(st_clip)
    for prompt, told in (("none", ""), ("query", "find "), ("What is here?", "What is here?")):
        model.seen.clear()
        loaded = load_model(model, image_prompt=prompt, caption_prompt="{}")
        encode(
            loaded,
            images=PICTURES,
            captions=CAPTIONS,
            encoding=Encoding(batch_size=3),
            output=tmp_path / "r.npz",
            progress=False,
        )
        assert ("Image", told) in model.seen
        assert {each[1] for each in model.seen if each[0] == "str"} == {""}
        prompts = record_of(tmp_path / "r.npz")["encoding"].get("prompts", {})
        assert prompts.get("images", "{}") == f"{told}{{}}"


def test_sentence_transformers_text_model_refuses_images(tmp_path):
    st = pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")
    tiny_models.save(tiny_models.bert(), tmp_path / "bert")
    model = st.SentenceTransformer(str(tmp_path / "bert"), device="cpu")
    with pytest.raises(TowerMissing, match="encodes texts only"):
        encode(model, images=PICTURES, progress=False)
    assert load_model(model).sides == ("captions",)
