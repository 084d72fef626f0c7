"""The commands with a real classifier of random weights: mine, score, evaluate; and Entail@K by hand."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny_models
from answer_tables import read_rows, write_rows
from command_line import run_command

from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment import scoring
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.processing import EntailmentProcessor
from cxc_eccv.studies.entailment.scoring import load_classifier
from cxc_eccv.studies.entailment.training_data import premises_of
from cxc_eccv.types import Embeddings

SAMPLE = ("--data-dir", "sample")

pytestmark = pytest.mark.thorough


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
    content = Library("sample").split("train")
    rng = np.random.default_rng(0)
    sides = [Embeddings(ids, rng.standard_normal((ids.size, 4))) for ids in (content.image_ids, content.caption_ids)]
    save_embeddings(folder / "run.npz", EmbeddingsRun(*sides))
    return folder


@pytest.mark.parametrize("kind", ["text", "both"])
def test_what_is_mined_is_what_the_classifier_says(place, kind, tmp_path):
    images = mirror_folder("sample")
    file = tmp_path / "weak.parquet"
    options = ("--images", images) if kind == "both" else ()
    command = ("mine", place / "run.npz", "--classifier", place / kind, "--top-k", "2", "--threshold", "0")
    printed, _ = run_command(*command, *options, "--output", file, *SAMPLE)
    assert "120 of 120 pairs reach the threshold 0.0, of 60 images" in printed
    assert "Trained on val data: 9 pairs" in printed
    table = pq.read_table(file)
    library = Library("sample")
    rows = np.asarray(table["image_id"])
    files = {path.name: path for path in images.rglob("*.jpg")}
    names = library.split("train").files_of(rows).to_pylist()
    expected, _ = load_classifier(place / kind).score_and_count(
        premises_of(library.split("train"), rows),
        [files[name] for name in names] if kind == "both" else None,
        library.split("train").texts_of(np.asarray(table["caption_id"])).to_pylist(),
        progress=False,
    )
    np.testing.assert_allclose(np.asarray(table["score"]), expected, atol=1e-6)
    facts = json.loads(table.schema.metadata[b"cxc_eccv"])
    assert facts["classifier"]["training_data"]["holds"] == {"coco/val": 9}


def test_from_a_model_to_a_dataset(place, tmp_path):
    """A retriever of texts alone, a rule fitted on labelled pairs of val, and the config that takes the file."""
    tiny_models.save(tiny_models.bert(), tmp_path / "retriever")
    file = tmp_path / "weak.parquet"
    command = ("mine", "--model", tmp_path / "retriever", "--classifier", place / "text", "--top-k", "100")
    chosen = ("--precision", "0.1", "--labelled", "cxc/val", "--share", "0.1")
    assert "Rank alone" in run_command(*command, *chosen, "--output", file, *SAMPLE)[0]
    facts = json.loads(pq.read_schema(file).metadata[b"cxc_eccv"])
    assert (facts["rule"]["precision"], facts["rule"]["share"], facts["rule"]["labelled"]) == (0.1, 0.1, "cxc/val")
    assert facts["retriever"]["image_vectors"] == "mean of the image's own captions"
    built = ("--configs", "pairs", "--splits", "train", "--output", tmp_path / "data")
    run_command("build", *SAMPLE, *built, "--mined", file)
    weak = pq.read_table(next((tmp_path / "data" / "pairs").iterdir()))["weak_positives"].to_pylist()
    assert sum(map(len, weak)) == 5 * pq.read_metadata(file).num_rows
    assert {source for own in weak for entry in own for source in entry["sources"]} == {"mined"}


@pytest.mark.filterwarnings("ignore:.* are longer than the context of text")
def test_a_folder_judges_what_nobody_labelled(place, tmp_path, sample_library, make_run):
    save_embeddings(tmp_path / "run.npz", make_run(sample_library))
    command = ("evaluate", tmp_path / "run.npz", "--tasks", "entailment", "--judge", place / "text")
    run_command(*command, "--intervals", "none", "--output", tmp_path / "report", *SAMPLE)
    report = json.loads((tmp_path / "report/report.json").read_text())
    assert report["provenance"]["unjudged"]["model"] == "text"
    assert report["provenance"]["unjudged"]["pairs"]["entailment/i2t"] > 1000
    assert {row["parameters"]["unjudged"] for row in report["results"]} == {"classifier"}


def test_pairs_go_to_a_person_and_come_back(tmp_path, sample_library, make_run):
    save_embeddings(tmp_path / "run.npz", make_run(sample_library))
    options = ("--sample", "3", "--ask-known", "--format", "csv", "--images", "images/{file_name}")
    printed, _ = run_command("entailment", "export", "run.npz", "--output", "asked", *options, *SAMPLE, cwd=tmp_path)
    assert "put their files into asked: cxc-eccv entailment score-answers asked/ANSWERS" in printed
    _, errors = run_command("entailment", "score-answers", "asked/questions.csv", *SAMPLE, cwd=tmp_path, status=2)
    assert "asked/questions.csv: found no answers" in errors
    answers = {"worker": "ann", "describes": "yes", "follows": "yes"}
    write_rows(tmp_path / "asked/ann.csv", [row | answers for row in read_rows(tmp_path / "asked/questions.csv")])
    files = ("--output", "by_hand.json", "--save-labels", "labels.jsonl")
    printed, _ = run_command("entailment", "score-answers", "asked/ann.csv", *files, *SAMPLE, cwd=tmp_path)
    assert "100.0" in printed
    assert "E@M" in printed
    assert json.loads((tmp_path / "by_hand.json").read_text())["results"]["run"]["value"] == 1
    assert len((tmp_path / "labels.jsonl").read_text().splitlines()) == 30


def mine_text(*options):
    return ("mine", "run.npz", "--classifier", "text", *options)


def score(part, name, *options):
    return ("entailment", "score", part, "--model", name, *options)


def judge(value):
    return ("evaluate", "run.npz", "--tasks", "entailment", "--judge", value)


@pytest.mark.parametrize(
    ("arguments", "message"),
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
        (("evaluate", "run.npz", "--judge", "text", "--metrics", "nosuch"), "nosuch"),
        (
            ("evaluate", "run.npz", "--unjudged", "leave_uot"),
            "unknown policy for unjudged pairs 'leave_uot'",
        ),
        (judge("jugde"), "the folder or Hub id of a classifier"),
        (judge("both"), "both looks at images: give their folder (--images)"),
    ],
)
def test_options_are_refused_before_weights_are_loaded(place, arguments, message, monkeypatch, tmp_path):
    if message != "lacks":  # what a run lacks is seen when it is mined
        monkeypatch.setattr(scoring, "load_classifier", lambda *_, **__: pytest.fail("weights were loaded first"))
    output = ("--output", tmp_path / "weak.parquet") if arguments[0] == "mine" else ()
    _, errors = run_command(*arguments, *output, *SAMPLE, status=2, cwd=place)
    assert message in " ".join(errors.split())
    assert not list(tmp_path.glob("*.parquet"))
