"""From a model to a report in one command: encoded once, kept, resumed after a kill, and scored."""

import json
import os
import shutil

import numpy as np
import pytest
import tiny_models
import transformers

import cxc_eccv as ce
from cxc_eccv.encoding import encode_once, load_model, sides
from cxc_eccv.encoding.shards import FolderStore, parts_folder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.writing import locked

pytestmark = pytest.mark.thorough

IMAGES = mirror_folder("sample") / "coco" / "images"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of its own."""
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache/encodings"


@pytest.fixture
def encoded(monkeypatch):
    """Texts that are encoded from now on."""
    seen = []
    call = sides.TextEncoder.__call__
    monkeypatch.setattr(sides.TextEncoder, "__call__", lambda self, texts: seen.extend(texts) or call(self, texts))
    return seen


@pytest.fixture
def command(run_on_sample):
    return lambda *words, **status: run_on_sample("evaluate", *words, "--intervals", "none", **status)


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


def test_evaluate_command_encodes_once_and_reuses_the_cache(command, model, encoded, tmp_path, cache):
    words = ["--model", model("clip"), "--images", IMAGES, "--tasks", "coco_5k,cxc"]
    out = command(*words, "--output", tmp_path / "one")
    assert len(encoded) == 300
    (file,) = cache.glob("*.npz")
    assert f"saved the embeddings: {file}" in out.err
    run = ce.load_run(file)
    command(file, "--tasks", "coco_5k,cxc", "--output", tmp_path / "two")
    one = report_of(tmp_path / "one")
    two = report_of(tmp_path / "two")
    assert one["results"] == two["results"]
    assert one["provenance"]["model"] == run.model == "clip"
    assert "restriction" not in one["provenance"]
    assert "data:image" in (tmp_path / "one/report.html").read_text()  # the photographs are those of the model
    out = command(*words, "--name", "another name", "--output", tmp_path / "three")
    assert f"reusing cached embeddings: {file}" in out.err
    assert report_of(tmp_path / "three")["provenance"]["model"] == "another name"
    assert len(encoded) == 300


def test_a_kill_costs_what_was_not_done(command, model, encoded, cache, monkeypatch):
    monkeypatch.setattr(sides.CaptionSide, "shard_size", 100)
    words = ["--model", model("clip"), "--images", IMAGES, "--tasks", "coco_5k"]
    put = FolderStore.put

    def put_or_die(store, start, fingerprint, shard):
        if start == 200:
            raise KeyboardInterrupt
        put(store, start, fingerprint, shard)

    monkeypatch.setattr(FolderStore, "put", put_or_die)
    command(*words, status=130)
    assert len(encoded) == 300
    assert not list(cache.glob("*.npz"))
    monkeypatch.setattr(FolderStore, "put", put)
    encoded.clear()
    command(*words)
    assert len(encoded) == 100
    assert [path.suffix for path in sorted(cache.iterdir()) if path.suffix != ".lock"] == [".json", ".npz"]


def test_unwritable_cache_is_no_error(command, model, encoded, cache, monkeypatch):
    words = ["--model", model("bert"), "--limit", 3, "--tasks", "co_captions"]
    cache.parent.mkdir()
    cache.touch()
    for _ in range(2):
        out = command(*words)
        assert "the embeddings were not saved" in out.err
    assert len(encoded) == 30
    cache.unlink()
    command(*words)
    assert len(encoded) == 45
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    out = command(*words)  # what is kept there is read
    assert len(encoded) == 45


def test_cache_locked_by_other_process_is_no_error(command, model, encoded, cache):
    words = ["--model", model("bert"), "--limit", 3, "--tasks", "co_captions"]
    command(*words)
    (file,) = cache.glob("*.npz")
    for path in list(cache.iterdir()):
        path.unlink()
    with locked(parts_folder(file)):
        command(*words)
    assert len(encoded) == 30
    assert not list(cache.iterdir())


@pytest.mark.parametrize(
    ("config", "text_config", "loading", "anew"),
    [
        ({}, {}, {}, 0),
        ({"_name_or_path": "elsewhere"}, {}, {}, 0),
        ({}, {"hidden_act": "gelu"}, {}, 100),
        ({}, {"num_attention_heads": 1}, {}, 100),
        ({}, {}, {"dtype": "bfloat16"}, 100),
        ({}, {}, {"caption_prompt": "a photo of {}"}, 100),
    ],
)
def test_another_model_is_another_encoding(model, encoded, tmp_path, config, text_config, loading, anew):
    folder = tmp_path / "own" / "clip"
    shutil.copytree(model("clip"), folder)
    options = {"images": IMAGES, "data_dir": "sample", "limit": 20, "tasks": "coco_5k", "progress": False}
    ce.evaluate_model(load_model(folder), **options)
    encoded.clear()
    content = json.loads((folder / "config.json").read_text())
    content |= {**config, "text_config": content["text_config"] | text_config}
    (folder / "config.json").write_text(json.dumps(content))
    ce.evaluate_model(load_model(folder, **loading), **options)
    assert len(encoded) == anew


def test_other_items_are_another_encoding(model, encoded, tmp_path):
    images = tmp_path / "images"
    shutil.copytree(IMAGES, images)
    options = {"data_dir": "sample", "tasks": "coco_5k", "progress": False}
    for limit in (20, 21, 20, 21):
        ce.evaluate_model(model("clip"), images=images, limit=limit, **options)
    assert len(encoded) == 100 + 105
    for path in images.iterdir():
        path.touch()
    ce.evaluate_model(model("clip"), images=images, limit=20, **options)
    assert len(encoded) == 100 + 105 + 100


def test_limit_scores_the_same_part_of_the_split(model, sample_library):
    options = {"images": IMAGES, "data_dir": "sample", "progress": False}
    part = ce.evaluate_model(model("clip"), limit=20, **options)
    assert part.name == "clip, on 20 of 60 images"
    loaded = load_model(model("clip"))
    first = np.sort(sample_library.split("test").image_ids)[:20]
    files = dict(
        zip(*(sample_library.split("test").images[name].to_pylist() for name in ("image_id", "file_name")), strict=True)
    )
    captions = sample_library.split("test").captions
    captions = captions.filter(np.isin(captions["image_id"], first))
    run, _ = encode_once(loaded, images=[(i, IMAGES / files[i]) for i in first.tolist()], captions=captions)
    assert ce.evaluate(run, data_dir="sample", allow_missing=True).results == part.results
    whole = ce.evaluate_model(model("clip"), **options)
    assert whole.name == "clip"
    assert whole.scores["coco_5k/t2i/recall_at_10"] < part.scores["coco_5k/t2i/recall_at_10"]


def test_texts_alone_need_no_images(command, model, encoded, tmp_path):
    for _ in range(2):  # the checkpoint has no pooler, which is random whenever it is loaded, and unused
        command("--model", model("bert"), "--limit", 20, "--output", tmp_path / "report")
    assert len(encoded) == 100
    content = report_of(tmp_path / "report")
    assert content["skipped"]["coco_5k/i2t"] == "the run has no images"
    assert content["provenance"]["restriction"]["captions"] == {"used": 100, "of": 300}


@pytest.mark.filterwarnings("ignore:2 images were left out")
def test_bad_images_are_left_out_and_counted(command, model, tmp_path):
    images = tmp_path / "images"
    shutil.copytree(IMAGES, images)
    library = ce.Library("sample")
    names = library.split("test").images["file_name"].to_pylist()
    (images / names[3]).unlink()
    (images / names[7]).write_bytes(b"no image")
    words = ["--model", model("clip"), "--images", images, "--tasks", "coco_5k,cxc", "--output", tmp_path / "report"]
    out = command(*words, status=2)
    assert "--skip-bad-images" in out.err
    for _ in range(2):  # and the encoding that is there says so too
        out = command(*words, "--skip-bad-images")
        assert "58 of 60 images (without 2 that could not be read)" in " ".join(out.out.split())
        facts = report_of(tmp_path / "report")["provenance"]["restriction"]
        assert facts["unreadable_images"] == 2
        assert facts["images"] == {"used": 58, "of": 60}
        assert "captions" not in facts


def test_a_file_for_the_embeddings(model, encoded, tmp_path, cache):
    file = tmp_path / "clip.safetensors"
    options = {"images": IMAGES, "data_dir": "sample", "tasks": "coco_5k", "progress": False, "embeddings": file}
    for _ in range(2):
        ce.evaluate_model(model("clip"), **options)
    assert ce.load_run(file).images.ids.size == 60
    assert len(encoded) == 300
    assert not cache.exists()
    content = file.read_bytes()
    prompted = load_model(model("clip"), caption_prompt="a {}")
    for loaded, other in ((prompted, {}), (model("clip"), {"limit": 20})):
        with pytest.raises(InvalidOption, match="exists, but is not an encoding of these images and captions by"):
            ce.evaluate_model(loaded, **options, **other)
    assert file.read_bytes() == content
    file.with_name("clip.encoding.json").unlink()
    with pytest.raises(InvalidOption, match="exists, but is not an encoding"):
        ce.evaluate_model(model("clip"), **options)
    assert len(encoded) == 300


def test_several_models_are_encoded_then_compared(command, model, encoded, tmp_path):
    words = ["--model", model("bert"), "--model", model("clip"), "--images", IMAGES, "--tasks", "co_captions"]
    words += ["--limit", 20, "--output", tmp_path / "out"]
    out = command(*words)
    assert len(encoded) == 200
    assert "clip, on 20 of 60 images against bert, on 20 of 60 images" in out.out
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"bert", "clip", "compare.json"}
    first = (tmp_path / "out/bert/report.json").read_bytes()
    shutil.rmtree(tmp_path / "out/clip")
    out = command(*words)
    assert len(encoded) == 200  # interrupted between the two: nothing is encoded again
    assert (tmp_path / "out/bert/report.json").read_bytes() == first
    assert "clip, on 20 of 60 images against bert, on 20 of 60 images" in out.out
    out = command(*words, "--name", "a", "--name", "b")
    assert "b, on 20 of 60 images against a, on 20" in out.out
    assert report_of(tmp_path / "out/a")["provenance"]["model"] == "a"


@pytest.mark.parametrize("cached", [True, False])
def test_report_of_model_elsewhere_is_kept(command, tmp_path, cached, cache, encoded):
    """Two checkpoints of one name have the same command, as folders are left out of it."""
    for place, seed in (("a", 0), ("b", 1)):
        _, tokenizer, _ = tiny_models.bert()
        weights = tiny_models.seeded(
            lambda: transformers.BertModel(tiny_models.bert_config(), add_pooling_layer=False), seed=seed
        )
        tiny_models.save((weights, tokenizer), tmp_path / place / "ckpt")
    if not cached:
        cache.parent.mkdir()
        cache.touch()
    out = tmp_path / "out"
    words = ["--tasks", "co_captions", "--limit", 20, "--output", out]
    command("--model", tmp_path / "a" / "ckpt", *words)
    before = (out / "report.json").read_bytes()
    encoded.clear()
    refused = " ".join(command("--model", tmp_path / "b" / "ckpt", *words, status=2).err.split())
    assert ("out holds a report of the embeddings ckpt-" if cached else "may be of another") in refused
    assert "replace that report with --overwrite" in refused
    assert (out / "report.json").read_bytes() == before
    assert not encoded
    command("--model", tmp_path / "a" / "ckpt", *words, status=0 if cached else 2)
    assert (out / "report.json").read_bytes() == before
    command("--model", tmp_path / "b" / "ckpt", *words, "--overwrite")
    assert (out / "report.json").read_bytes() != before


def test_damage_in_the_cache_is_repaired(command, model, encoded, cache):
    words = ["--model", model("clip"), "--images", IMAGES, "--tasks", "coco_5k"]
    command(*words)
    file = next(cache.glob("*.npz"))
    file.write_bytes(file.read_bytes()[:-9])
    command(*words)
    assert len(encoded) == 600


REFUSED = [
    ([], "nothing to evaluate: name a file of embeddings, scores or rankings, or a model with --model"),
    (["run.npz", "--model", "x"], "run.npz is encoded already: give it, or --model x, not both"),
    (["run.npz", "--skip-bad-images"], "--skip-bad-images: only for --model"),
    (["--model", "x", "--direction", "i2t"], "--direction: only for files"),
    (["--model", "x", "--name", "a", "--name", "b"], "--name: 2 names for 1 model; give one for each"),
    (["run.npz", "--name", " "], "the model's name is ' '; give one line of text"),
    (["--model", "x", "--model", "y"], "name a folder for their reports with --output"),
    (["--model", "x/y", "--model", "X/y", "--output", "out"], "two models have the same name"),
    (["--model", "no/such/folder"], "no model there"),
    (["--model", "no/such/folder", "--images", "absent"], "absent is not a folder"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_what_does_not_go_together_is_refused(command, words, message):
    assert message in command(*words, status=2).err


def test_errors_come_before_the_work(command, model, encoded, cache):
    for words, message in (
        (["--tasks", "typo"], "unknown task 'typo'"),
        (["--metrics", "typo"], "unknown metric 'typo'"),
        (["--tasks", "coco_1k"], "coco_1k cannot be computed"),
        (["--unjudged", "typo"], "unknown policy"),
        (["--similarity", "typo"], "unknown similarity 'typo'"),
        (["--limit", "0"], "limit is 0"),
        (["--seed", "-1"], "seed is -1"),
    ):
        assert message in command("--model", model("clip"), "--images", IMAGES, *words, status=2).err
    assert command("--model", model("clip"), status=2).err.count("encodes images; give their folder") == 1
    assert not encoded
    assert not cache.exists()


def test_in_python(model):
    options = {"images": IMAGES, "data_dir": "sample", "tasks": "coco_5k", "progress": False}
    report = ce.evaluate_model(model("clip"), per_query=True, confidence=None, name="mine", **options)
    assert report.name == "mine"
    assert report.per_query.num_rows
    with pytest.raises(InvalidOption, match=r"scores pairs, .* encode --rerank"):
        ce.evaluate_model(model("blip"), images=IMAGES, data_dir="sample")
