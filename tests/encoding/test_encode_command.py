"""``cxc-eccv encode``: from a folder of images and a saved model to a file that evaluate takes."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun, load_run, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough


IMAGES = mirror_folder("sample") / "coco" / "images"


@pytest.fixture
def command(run_on_sample):
    return lambda *words, **status: run_on_sample("encode", *words, **status)


def test_a_dual_encoder_encodes_the_split(command, model, tmp_path):
    words = ("--model", model("dual"), "--images", IMAGES, "--central-crop", "0.875")
    out = command(*words, "--output", tmp_path / "run.npz")
    run = load_run(tmp_path / "run.npz")
    library = Library("sample")
    assert run.images.ids.tolist() == library.split("test").images["image_id"].to_pylist()
    assert run.captions.ids.tolist() == library.split("test").captions["caption_id"].to_pylist()
    sizes = f"{run.images.ids.size} images and {run.captions.ids.size} captions"
    data = "test split of the embedded sample (60 drawings): not results on COCO"
    assert out.out == f"wrote {tmp_path / 'run.npz'}: {sizes}, {data}\n"
    assert json.loads((tmp_path / "run.encoding.json").read_text())["encoding"]["central_crop"] == 0.875


def test_one_side_alone(command, model, tmp_path):
    command("--model", model("bert"), "--pooling", "cls", "--output", tmp_path / "t.npz")
    assert load_run(tmp_path / "t.npz").images is None
    command("--model", model("vit"), "--images", IMAGES, "--output", tmp_path / "i.npz")
    assert load_run(tmp_path / "i.npz").captions is None
    words = ("--model", model("dual"), "--side", "captions", "--split", "val", "--output", tmp_path / "c.npz")
    command(*words)
    assert load_run(tmp_path / "c.npz").images is None


def test_captions_file_is_encoded_with_prompt_and_name(command, model, tmp_path):
    """A quote that is not closed on its line is refused, since it would swallow captions."""
    (tmp_path / "mine.csv").write_text("caption_id,text\n7,a dog\n8,a cat\n")
    words = ("--model", model("bert"), "--captions", tmp_path / "mine.csv", "--output", tmp_path / "t.npz")
    command(*words, "--caption-prompt", "a photo of {}", "--name", "BERT")
    run = load_run(tmp_path / "t.npz")
    assert (run.model, run.captions.ids.tolist()) == ("BERT", [7, 8])
    prompts = json.loads((tmp_path / "t.encoding.json").read_text())["encoding"]["prompts"]
    assert prompts == {"captions": "a photo of {}"}
    (tmp_path / "mine.csv").write_text('caption_id,text\n1,a\n2,"b\n3,c\n4,d"\n')
    words = ("--model", model("bert"), "--captions", tmp_path / "mine.csv", "--output", tmp_path / "quoted.npz")
    out = command(*words, status=2)
    assert "each closed on its line" in " ".join(out.err.split())
    assert not (tmp_path / "quoted.npz").exists()


def test_cross_encoder_reranks_the_dual_encoders_top(command, model, tmp_path):
    command("--model", model("dual"), "--images", IMAGES, "--output", tmp_path / "run.npz")
    words = ("--model", model("blip"), "--images", IMAGES, "--top-k", 2, "--output", tmp_path / "top.parquet")
    command(*words, "--rerank", tmp_path / "run.npz")
    lists = load_run(tmp_path / "top.parquet").lists
    assert set(lists["i2t"].depths) == set(lists["t2i"].depths) == {2}
    assert set(lists["t2i"].query_ids) == set(load_run(tmp_path / "run.npz").captions.ids)
    words = ("--model", model("blip2"), "--images", IMAGES, "--name", "BLIP-2, tiny")
    out = command(*words, "--score", "itc", "--output", tmp_path / "itc.npz")
    assert load_run(tmp_path / "itc.npz").scores.shape == (60, 300)
    again = ("--score", "itm+itc", "--rerank", tmp_path / "itc.npz", "--top-k", 1)
    out = command(*words, *again, "--output", tmp_path / "top.parquet")
    assert {load_run(tmp_path / name).model for name in ("itc.npz", "top.parquet")} == {"BLIP-2, tiny"}
    record = json.loads((tmp_path / "top.encoding.json").read_text())
    assert (record["score"], record["name"]) == ("itm+itc", "BLIP-2, tiny")
    again = ("--rerank", tmp_path / "top.parquet", "--output", tmp_path / "again.parquet")
    out = command(*words, *again, status=2)
    assert "holds rankings; give the embeddings or scores" in " ".join(out.err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "dual"), "looks at images: give their folder with --images, or encode its texts: --side captions"),
        (("--model", "bert", "--images", IMAGES), "TowerMissing: --images: .* encodes only captions"),
        (("--model", "vit", "--images", IMAGES, "--side", "captions"), "encodes only images"),
        (("--model", "blip"), "looks at images: give their folder with --images\n"),
        (("--model", "bert", "--rerank", "x.npz"), "--rerank needs a model that scores pairs"),
        (("--model", "bert", "--score", "itc"), "--score needs a model that scores pairs"),
        (("--model", "bert", "--device", "cuda:77"), "InvalidOption: device 'cuda:77' cannot be used"),
        (("--model", "bert", "--dtype", "int8"), "InvalidOption: dtype 'int8': choose"),
        (("--model", "bert", "--batch-size", 0), "InvalidOption: batch_size is 0"),
        (
            ("--model", "blip", "--images", IMAGES, "--central-crop", 0.5),
            "--central-crop is for models with embeddings",
        ),
        (("--model", "bert", "--central-crop", 0.5), "InvalidOption: central_crop is for images"),
        (("--model", "/absent"), "ModelError: /absent: no model there"),
    ],
)
def test_what_does_not_fit_is_one_message(words, message, command, model, tmp_path):
    save_embeddings(tmp_path / "x.npz", EmbeddingsRun(None, Embeddings(np.array([1]), np.ones((1, 2), np.float32))))
    words = [model(word) if word in ("dual", "bert", "vit", "blip") else word for word in words]
    words = [tmp_path / word if word == "x.npz" else word for word in words]
    out = command(*words, "--output", tmp_path / "run.npz", status=2)
    assert re.search(message, out.err), out.err
    assert not list(tmp_path.glob("run*"))


WAITS = """
import sys
from cxc_eccv.cli.app import main
from cxc_eccv.encoding.shards import FolderStore
put = FolderStore.put
def put_when_told(*arguments):
    print("working", flush=True)
    sys.stdin.readline()
    put(*arguments)
FolderStore.put = put_when_told
main()
"""


def test_second_run_into_the_same_file_is_refused(command, model, tmp_path, warm_python):
    """The first run completes its file."""
    words = ["--model", model("dual"), "--side", "captions"]
    command(*words, "--output", tmp_path / "alone.npz")
    output = tmp_path / "run.npz"
    arguments = ["encode", *words, "--data-dir", "sample", "--output", str(output)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*warm_python, "-c", WAITS, *arguments], **pipes) as first:
        try:
            assert first.stdout.readline() == "working\n"
            out = command(*words, "--output", output, status=2)
            assert "WriteFailed: another process is writing" in out.err
            assert "run.npz" in out.err
            first.communicate("\n" * 100, timeout=100)
        finally:
            first.kill()
    assert first.returncode == 0
    assert output.read_bytes() == (tmp_path / "alone.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.glob("*run*")) == ["run.encoding.json", "run.npz"]


def test_report_says_what_the_model_card_says(command, model, tmp_path, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    folder = shutil.copytree(model("dual"), tmp_path / "seen")
    (folder / "README.md").write_text("---\ndatasets:\n- laion2b\n---\n# Training data\n- MS COCO\n")
    command("--model", folder, "--images", IMAGES, "--output", tmp_path / "run.npz")
    report = evaluate(load_run(tmp_path / "run.npz"), "eccv_caption", data_dir="sample", progress=False)
    assert report.trained_on == "laion2b, COCO (split not stated); its card lists these, perhaps not all"
    declared = evaluate(load_run(tmp_path / "run.npz"), "eccv_caption", data_dir="sample", training_data=["web"])
    assert declared.trained_on == "web crawl"
