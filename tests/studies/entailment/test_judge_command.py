"""``cxc-eccv evaluate --unjudged MODEL``, with a real classifier of random weights; and the commands by hand."""

import csv
import json

import pytest
import tiny_models

from cxc_eccv.cli import main
from cxc_eccv.runs import save_embeddings
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.processing import EntailmentProcessor

pytestmark = pytest.mark.thorough


@pytest.fixture
def run(tmp_path, sample_library, make_run, monkeypatch, capsys):
    """The command line in a folder with a model's embeddings, and a classifier of texts and one that sees images."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    save_embeddings(tmp_path / "run.npz", make_run(sample_library))

    def start(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--data-dir", "sample"])
        return ended.value.code or 0, capsys.readouterr()

    return start


def save_classifier(folder, **parts):
    model = EntailmentClassifier.from_parts(text_model=tiny_models.bert()[0], **parts).eval()
    images = tiny_models.vit_images() if parts else None
    processor = EntailmentProcessor.for_model(model, tiny_models.bert_tokenizer(64), image_processor=images)
    tiny_models.save((model, processor), folder)


@pytest.mark.filterwarnings("ignore:.* are longer than the context of classifier")
def test_a_folder_judges_what_nobody_labelled(run, tmp_path):
    """Whatever it is called: as train entailment-classifier calls it, the policy has the same name."""
    save_classifier(tmp_path / "classifier")
    arguments = ("evaluate", "run.npz", "--tasks", "entailment", "--unjudged", "classifier", "--intervals", "none")
    status, shown = run(*arguments, "--output", "report")
    assert status == 0, shown.err
    report = json.loads((tmp_path / "report/report.json").read_text())
    assert report["provenance"]["unjudged"]["model"] == "classifier"
    assert report["provenance"]["unjudged"]["pairs"]["entailment/i2t"] > 1000
    assert {row["parameters"]["unjudged"] for row in report["results"]} == {"classifier"}
    again = run(*arguments, "--output", "again")
    assert json.loads((tmp_path / "again/report.json").read_text())["results"] == report["results"], again


def test_what_is_no_policy_is_refused_with_what_there_is(run, tmp_path):
    (tmp_path / "empty").mkdir()
    save_classifier(tmp_path / "sees", visual_text_model=tiny_models.blip()[0])
    for value, message in (
        ("leave_uot", "unknown policy for unjudged pairs 'leave_uot'; did you mean 'leave_out'?"),
        ("classifier", "a judge: folder, Hub id, URL#MODEL of an endpoint"),
        ("jugde", "a judge: folder, Hub id, URL#MODEL of an endpoint"),
        ("empty", "empty"),
        ("sees", "sees looks at images: give their folder (--images)"),
    ):
        status, shown = run("evaluate", "run.npz", "--tasks", "entailment", "--unjudged", value)
        assert status == 2
        assert message in shown.err
        assert "Traceback" not in shown.err


def test_pairs_go_to_a_person_and_come_back(run, tmp_path):
    options = ["--sample", "3", "--hide-known", "--format", "csv", "--images", "images/{file_name}"]
    status, shown = run("entailment", "export", "run.npz", "--output", "asked", *options)
    assert status == 0, shown.err
    assert "put their files into asked: cxc-eccv entailment manual asked/ANSWERS" in shown.out
    status, shown = run("entailment", "manual", "asked/questions.csv")
    assert status == 2
    assert "asked/questions.csv: found no answers" in shown.err
    with (tmp_path / "asked/questions.csv").open(newline="") as file:
        rows = [row | {"worker": "ann", "describes": "yes", "follows": "yes"} for row in csv.DictReader(file)]
    with (tmp_path / "asked/ann.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    files = ["--output", "manual.json", "--save-labels", "labels.jsonl"]
    status, shown = run("entailment", "manual", "asked/ann.csv", *files)
    assert status == 0, shown.err
    assert "100.0" in shown.out
    assert "E@M" in shown.out
    assert json.loads((tmp_path / "manual.json").read_text())["results"]["run"]["value"] == 1
    assert len((tmp_path / "labels.jsonl").read_text().splitlines()) == 30
