"""``cxc-eccv encode --config``: the sentences of a dataset config as arrays of an embeddings file."""

import re

import numpy as np
import pyarrow as pa
import pytest
from datasets import ClassLabel, Features, Value

import cxc_eccv.builders.config as configs
from cxc_eccv.builders.config import DatasetConfig, Rows, Sentences
from cxc_eccv.builders.writing import build_folder
from cxc_eccv.encoding import text_encoder
from cxc_eccv.runs import EmbeddingsRun, load_run, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough

IMAGES = mirror_folder("sample") / "coco" / "images"


def altered(library, split, options):
    """Two kinds; the first caption is altered by both, into the same sentence."""
    ids = library.captions(split)["caption_id"].to_pylist()
    rows = [("size", ids[0], "a dog"), ("colour", ids[0], "a dog"), ("size", ids[2], "the woman with a ball")]
    kinds, queries, texts = zip(*rows, strict=True)
    return Rows(pa.table({"kind": kinds, "query_id": pa.array(queries, pa.int64()), "altered": texts}))


def pairs(library, split, options):
    """Two captions of one image, one of another."""
    images = library.images(split).slice(0, 2)
    ids, names = (images[name].to_pylist() for name in ("image_id", "file_name"))
    rows = {"part": ["swap", "add", "swap"], "image_id": pa.array([ids[0], ids[0], ids[1]], pa.int64())}
    rows |= {"file_name": [names[0], names[0], names[1]]}
    rows |= {"caption": ["a dog", "a cat", "a bus"], "negative": ["a cat", "a dog and a cat", "a dog"]}
    return Rows(pa.table(rows))


def declare(name, rows, sentences, **columns):
    features = Features({column: Value(kind) if isinstance(kind, str) else kind for column, kind in columns.items()})
    words = {"title": name, "description": name, "collection": name, "fields": dict.fromkeys(columns, "it")}
    return DatasetConfig(
        name=name, features=features, splits=("test",), rows=rows, sources=("karpathy",), sentences=sentences, **words
    )


ALTERED = declare(
    "adversarial",
    altered,
    Sentences("kind", ("ids", "query_id"), {"embeddings": "altered"}),
    kind=ClassLabel(names=["colour", "size"]),
    query_id="int64",
    altered="string",
)
PAIRS = declare(
    "sugarcrepe",
    pairs,
    Sentences(
        "part",
        ("image_ids", "image_id"),
        {"caption_embeddings": "caption", "negative_embeddings": "negative"},
        "file_name",
    ),
    part="string",
    image_id="int64",
    file_name="string",
    caption="string",
    negative="string",
)


@pytest.fixture(autouse=True)
def _declared(monkeypatch):
    known = {**configs.dataset_configs(), "adversarial": ALTERED, "sugarcrepe": PAIRS}
    monkeypatch.setattr(configs, "dataset_configs", lambda: known)


@pytest.fixture
def command(run_on_sample):
    return lambda *words, **status: run_on_sample("encode", *words, **status)


def test_the_arrays_have_ids_and_vectors_of_every_part(command, model, tmp_path, sample_library):
    file = tmp_path / "altered.npz"
    out = command("--model", model("bert"), "--config", "adversarial", "--output", file)
    assert out.out.startswith(f"wrote {file}: 2 adversarial_size_ids, 1 adversarial_colour_ids, test split of ")
    run, ids = load_run(file), sample_library.captions("test")["caption_id"].to_pylist()
    assert run.images is run.captions is None
    assert run.further["adversarial_size_ids"].tolist() == [ids[0], ids[2]]
    assert run.further["adversarial_colour_ids"].tolist() == [ids[0]]
    vectors = text_encoder(model("bert"), device="cpu")(["a dog", "the woman with a ball"])
    np.testing.assert_allclose(run.further["adversarial_size_embeddings"], vectors, atol=1e-5)
    first = run.further["adversarial_size_embeddings"][:1]
    np.testing.assert_array_equal(run.further["adversarial_colour_embeddings"], first)  # one sentence, one vector


def test_images_of_the_config_come_along(command, model, tmp_path, sample_library):
    words = ("--config", "sugarcrepe", "--images", IMAGES)
    command("--model", model("dual"), *words, "--output", tmp_path / "pairs.npz")
    run, ids = load_run(tmp_path / "pairs.npz"), sample_library.images("test")["image_id"].to_pylist()
    assert run.images.ids.tolist() == ids[:2]
    assert run.further["sugarcrepe_swap_image_ids"].tolist() == ids[:2]
    assert run.further["sugarcrepe_add_image_ids"].tolist() == ids[:1]
    swap, add = (
        {end: run.further[f"sugarcrepe_{part}_{end}_embeddings"] for end in ("caption", "negative")}
        for part in ("swap", "add")
    )
    np.testing.assert_array_equal(swap["caption"][0], swap["negative"][1])  # a dog
    np.testing.assert_array_equal(swap["negative"][0], add["caption"][0])  # a cat


def test_beside_the_embeddings_of_a_split(command, model, tmp_path):
    whole, both = tmp_path / "split.npz", tmp_path / "both.npz"
    command("--model", model("dual"), "--images", IMAGES, "--output", whole)
    words = ("--config", "sugarcrepe", "--images", IMAGES, "--beside", whole, "--output", both)
    command("--model", model("dual"), *words)
    first, run = load_run(whole), load_run(both)
    for side in ("images", "captions"):
        assert getattr(run, side).ids.tolist() == getattr(first, side).ids.tolist()
        np.testing.assert_array_equal(getattr(run, side).vectors, getattr(first, side).vectors)
    assert (run.model, run.similarity) == (first.model, first.similarity)
    assert len(run.further) == 6


def test_rows_of_a_built_folder(command, model, tmp_path):
    build_folder(tmp_path / "built", configs=[ALTERED], splits=["test"], data_dir="sample", progress=False)
    words = ("--model", model("bert"), "--config", "adversarial")
    command(*words, "--output", tmp_path / "made.npz")
    command(*words, "--built", tmp_path / "built", "--output", tmp_path / "read.npz")
    made, read = (load_run(tmp_path / f"{name}.npz").further for name in ("made", "read"))
    assert made.keys() == read.keys()
    assert all(np.array_equal(made[name], read[name]) for name in made)


def other_model(folder):
    save_embeddings(folder, EmbeddingsRun(None, Embeddings([1], [[1.0] * 16]), similarity="cosine", model="another"))


def other_width(folder):
    save_embeddings(folder, EmbeddingsRun(None, Embeddings([1], [[1.0] * 3]), similarity="cosine"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--config", "adverserial"), "UnknownName.*did you mean 'adversarial'"),
        (("--config", "sts"), "'sts' has no sentences to encode; .* have"),
        (("--config", "adversarial", "--split", "val"), "split of .*'validation'"),
        (("--config", "adversarial", "--only", "captions"), "--only is for the items of a split"),
        (("--config", "adversarial", "--captions", "x.csv"), "--captions is for the items of a split"),
        (("--config", "adversarial", "--score", "itc"), "--score needs a model that scores pairs"),
        (("--config", "adversarial", "--images", IMAGES), "--images: .* has only captions; leave it out"),
        (("--config", "sugarcrepe", "--images", IMAGES), "--images: .* encodes only texts; leave it out"),
        (("--config", "adversarial", "--built", "."), "holds no test split of the config .* build it with cxc-eccv"),
        (("--config", "adversarial", "--beside", other_model), "has the model another, but the sentences have bert"),
        (("--config", "adversarial", "--beside", other_width), "has the vector width 3, but the sentences have 16"),
    ],
)
def test_what_does_not_fit_is_one_message(words, message, command, model, tmp_path):
    words = [*words]
    if callable(words[-1]):
        words[-1](tmp_path / "first.npz")
        words[-1] = tmp_path / "first.npz"
    out = command("--model", model("bert"), *words, "--output", tmp_path / "out.npz", status=2)
    assert re.search(message, out.err), out.err
    assert not (tmp_path / "out.npz").exists()
