"""The commands with a real classifier of random weights: mine, score, and a dataset of what was mined."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny_models

from cxc_eccv.cli import main
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment import scoring
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.scoring import load_classifier
from cxc_eccv.types import Embeddings

SAMPLE = ("--data-dir", "sample")

pytestmark = [
    pytest.mark.filterwarnings("ignore:text has no record of the pairs it was trained on"),
    pytest.mark.thorough,
]


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Folders ``text`` and ``both`` with classifiers, and a retriever's file."""
    folder = tmp_path_factory.mktemp("mine")
    visual = {"visual_text_model": tiny_models.blip()[0]}
    for name, parts, images in (("text", {}, None), ("both", visual, tiny_models.vit_images())):
        model = EntailmentClassifier.from_parts(text_model=tiny_models.bert()[0], **parts)
        processor = EntailmentProcessor.for_model(model, tiny_models.bert_tokenizer(), image_processor=images)
        model.config.training_data = {"holds": {"coco/val": 9}, "sources": {"cxc/val": {}}}
        tiny_models.save((model, processor), folder / name)
    content, rng = Library("sample").karpathy("train"), np.random.default_rng(0)
    sides = [Embeddings(ids, rng.standard_normal((ids.size, 4))) for ids in (content.image_ids, content.caption_ids)]
    save_embeddings(folder / "run.npz", EmbeddingsRun(*sides))
    return folder


@pytest.mark.filterwarnings("ignore:.*pairs are longer than the context")
@pytest.mark.parametrize("kind", ["text", "both"])
def test_what_is_mined_is_what_the_classifier_says(place, kind, tmp_path, capsys):
    images = mirror_folder("sample")
    file = tmp_path / "weak.parquet"
    options = ("--images", images) if kind == "both" else ()
    command = ("mine", place / "run.npz", "--classifier", place / kind, "--top-k", 2, "--threshold", 0)
    assert run(*command, *options, "--output", file, *SAMPLE) == 0
    printed = capsys.readouterr().out
    assert "120 of 120 pairs reach the threshold 0.0, of 60 images" in printed
    assert "Trained on val data: 9 pairs" in printed
    table, library = pq.read_table(file), Library("sample")
    content = library.karpathy("train")
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    premises = {}
    for image, text in zip(content.caption_image_ids.tolist(), content.captions["text"].to_pylist(), strict=True):
        premises.setdefault(image, []).append(text.strip())
    found = {path.name: path for path in images.rglob("*.jpg")}
    names = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
    rows = table["image_id"].to_pylist()
    expected = load_classifier(place / kind).score(
        [" ".join(premises[image]) for image in rows],
        [found[names[image]] for image in rows] if kind == "both" else None,
        [texts[caption] for caption in table["caption_id"].to_pylist()],
        progress=False,
    )
    np.testing.assert_allclose(np.asarray(table["score"]), expected, atol=1e-6)
    facts = json.loads(table.schema.metadata[b"cxc_eccv"])
    assert facts["classifier"]["training_data"]["holds"] == {"coco/val": 9}


@pytest.mark.filterwarnings("ignore:.*pairs are longer than the context")
def test_from_a_model_to_a_dataset(place, tmp_path, capsys):
    """A retriever of texts alone, a rule fitted on labelled pairs of val, and the config that takes the file."""
    tiny_models.save(tiny_models.bert(), tmp_path / "retriever")
    file = tmp_path / "weak.parquet"
    command = ("mine", "--model", tmp_path / "retriever", "--classifier", place / "text", "--top-k", 100)
    chosen = ("--precision", 0.1, "--labelled", "cxc/val", "--share", 0.1)
    assert run(*command, *chosen, "--output", file, *SAMPLE) == 0
    assert "Rank alone" in capsys.readouterr().out
    facts = json.loads(pq.read_schema(file).metadata[b"cxc_eccv"])
    assert (facts["rule"]["precision"], facts["rule"]["share"], facts["rule"]["labelled"]) == (0.1, 0.1, "cxc/val")
    assert facts["retriever"]["image_vectors"] == "mean of the image's own captions"
    built = ("--configs", "pairs", "--splits", "train", "--output", tmp_path / "data")
    assert run("build", *SAMPLE, *built, "--mined", file) == 0
    weak = pq.read_table(next((tmp_path / "data" / "pairs").iterdir()))["weak_positives"].to_pylist()
    assert sum(map(len, weak)) == 5 * pq.read_metadata(file).num_rows
    assert {source for own in weak for entry in own for source in entry["sources"]} == {"mined"}
    capsys.readouterr()


@pytest.mark.filterwarnings("ignore:.*pairs are longer than the context")
def test_score_says_that_val_was_trained_on(place, capsys):
    assert run("entailment", "score", "cxc/val", "--model", place / "text", "--threshold", 0, *SAMPLE) == 0
    printed = capsys.readouterr().out
    assert "text on cxc/val, 80 pairs" in printed
    assert "Trained on val data: 9 pairs" in printed


def mine_text(*options):
    return ("mine", "run.npz", "--classifier", "text", *options)


def score(part, name, *options):
    return ("entailment", "score", part, "--model", name, *options)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("mine", "--classifier", "text"), "name the retriever's file, or a model"),
        (mine_text("--model", "m"), "one of the two"),
        (("mine", "run.npz", "--classifier", "both", "--threshold", "0"), "give their folder (--images)"),
        (mine_text("--split", "test", "--threshold", "0"), "weak positives are for training"),
        (mine_text("--precision", "0.9"), "need labelled pairs (--labelled)"),
        (mine_text(), "neither labelled pairs nor a threshold"),
        (mine_text("--labelled", "cxc/val"), "(--labelled-retriever)"),
        (mine_text("--precision", "0.9", "--labelled", "cxc/test"), "Fit it on cxc/val"),
        (("mine", "none.npz", "--classifier", "text", "--threshold", "0"), "none.npz"),
        (("mine", "run.npz", "--classifier", "run.npz"), "run.npz"),
        (mine_text("--threshold", "0", "--split", "val"), "lacks"),
        (mine_text("--threshold", "2"), "probabilities run from 0 to 1"),
        (score("cxc/tset", "text"), "cxc/tset"),
        (score("cxc/test", "text", "--threshold", "2"), "probabilities run from 0 to 1"),
        (score("cxc/test", "text", "--precision", "90"), "give a fraction above 0 and at most 1"),
        (score("cxc/test", "text", "--batch-size", "0"), "batch_size is 0"),
        (score("cxc/test", "both"), "give their folder (--images)"),
        (("evaluate", "run.npz", "--unjudged", "text", "--metrics", "nosuch"), "nosuch"),
    ],
)
def test_options_are_refused_before_weights_are_loaded(place, arguments, told, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(place)
    if told != "lacks":  # what a run lacks is seen when it is mined
        monkeypatch.setattr(scoring, "load_classifier", lambda *_, **__: pytest.fail("weights were loaded first"))
    output = ("--output", tmp_path / "weak.parquet") if arguments[0] == "mine" else ()
    assert run(*arguments, *output, *SAMPLE) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.glob("*.parquet"))
