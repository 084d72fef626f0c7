"""What made the vectors: in the key of the cache and of parts, in the record, and in report.json."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import PIL
import pytest
import tiny_models
import transformers

import cxc_eccv as ce
from cxc_eccv.encoding import Encoding, encode, encode_once, load_model
from cxc_eccv.encoding.identity import describe_encoding, model_key
from cxc_eccv.runs import ScoresRun
from cxc_eccv.runs.run import find_encoding, record_path, write_record
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import EncodingFacts

BOTH = ["images", "captions"]
PICTURES = [(seed, tiny_models.picture(seed)) for seed in (1, 2)]
CAPTIONS = list(enumerate(tiny_models.TEXTS))


class CLIPImageProcessor(transformers.CLIPImageProcessorPil):
    """Settings and name of the processor that transformers takes where torchvision is installed."""

    backend = "torchvision"


@pytest.fixture
def torchvision(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(__version__="0.28.0"))


def load(processor=transformers.CLIPImageProcessorPil):
    model, tokenizer, _ = tiny_models.clip()
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    return load_model(model, processor=(tokenizer, processor(**sizes)))


def test_backend_of_images_is_part_of_the_key(torchvision, tmp_path):
    pil = load()
    other = load(CLIPImageProcessor)
    assert pil.processors.image_processor().to_json_string() == other.processors.image_processor().to_json_string()
    assert model_key(pil, BOTH) != model_key(other, BOTH)
    assert model_key(pil, ["captions"]) == model_key(other, ["captions"])
    facts = describe_encoding(other, BOTH)
    assert (facts.image_processor, facts.versions["torchvision"]) == ("CLIPImageProcessor (torchvision)", "0.28.0")
    assert describe_encoding(pil, BOTH).image_processor == "CLIPImageProcessorPil (pil)"


def test_parts_of_another_backend_are_not_resumed(torchvision, tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    options = {"images": PICTURES, "progress": False}
    with monkeypatch.context() as patch:
        patch.setattr("cxc_eccv.encoding.encode_run.write_output", interrupt)
        with pytest.raises(KeyboardInterrupt):
            encode(load(), output=path, **options)
    with pytest.warns(UserWarning, match="1 kept shards of images were damaged, or of another model"):
        run = encode(load(CLIPImageProcessor), output=path, **options)
    assert run.encoding.image_processor == "CLIPImageProcessor (torchvision)"


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("package", "sides"), [(PIL, ["images"]), (transformers, ["captions"])])
def test_versions_are_part_of_the_key(package, sides, monkeypatch):
    before = model_key(load(), BOTH)
    monkeypatch.setattr(sys.modules[package.__name__], "__version__", "0.0")  # transformers replaces its own entry
    assert model_key(load(), BOTH) != before
    assert describe_encoding(load(), sides).versions[package.__name__] == "0.0"


def test_record_and_report_have_the_facts(tmp_path):
    model, tokenizer, _ = tiny_models.bert()
    loaded = load_model(model, processor=tokenizer, caption_prompt="a {}", dtype="bfloat16")
    options = {"data_dir": "sample", "tasks": "co_captions", "limit": 5, "encoding": Encoding(pooling="cls")}
    path = tmp_path / "run.npz"
    report = ce.evaluate_model(loaded, embeddings=path, progress=False, **options)
    facts = report.provenance.run.encoding
    assert (facts.dtype, facts.pooling, facts.prompts) == ("bfloat16", "cls", {"captions": "a {}"})
    assert facts.tokenizer == "BertTokenizer"
    assert facts.versions.keys() == {"cxc_eccv", "tokenizers", "torch", "transformers"}
    assert json.loads(record_path(path).read_text())["encoding"] == to_json(facts)
    again = ce.evaluate(ce.load_run(path), "co_captions", data_dir="sample", limit=5)
    assert again.provenance.run.encoding == facts
    report.save(tmp_path / "report.json")
    assert ce.load_report(tmp_path / "report.json").provenance.run.encoding == facts


def test_runs_in_memory_have_the_facts():
    loaded = load()
    options = {"images": PICTURES, "captions": CAPTIONS, "progress": False}
    assert encode(loaded, **options).facts().encoding == describe_encoding(loaded, BOTH, Encoding())


def test_report_of_scores_has_facts_of_the_record(tmp_path, sample_library):
    split = sample_library.split("test")
    path = tmp_path / "scores.npz"
    scores = np.random.default_rng(0).random((split.image_ids.size, split.caption_ids.size), dtype=np.float32)
    np.savez(path, image_ids=split.image_ids, caption_ids=split.caption_ids, scores=scores)
    facts = EncodingFacts(dtype="float16", image_processor="BlipImageProcessor (torchvision)")
    write_record(path, {"encoding": to_json(facts)})
    run = ce.load_run(path)
    assert isinstance(run, ScoresRun)
    report = ce.evaluate(run, "coco_5k", data_dir="sample")
    assert report.provenance.run.encoding == facts
    assert ce.evaluate(replace(run, path=None), "coco_5k", data_dir="sample").provenance.run.encoding is None


@pytest.mark.parametrize("entry", [None, 3, {"versions": ["torch"]}, {"dtype": 16}])
def test_damaged_facts_of_a_record_are_left_out(entry):
    assert find_encoding({"encoding": entry}) is None
    assert find_encoding({}) is None


def test_another_pooling_is_another_encoding(tmp_path):
    model, tokenizer, _ = tiny_models.bert()
    loaded = load_model(model, processor=tokenizer)
    files = set()
    for pooling in ("mean", "cls", "last"):
        options = {"captions": CAPTIONS, "encoding": Encoding(pooling=pooling), "progress": False}
        path = tmp_path / f"{pooling}.npz"
        encode_once(loaded, path, **options)
        files.add(json.loads(record_path(path).read_text())["fingerprint"])
    assert len(files) == 3
