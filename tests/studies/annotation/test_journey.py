"""From models to labels and back on the sample, as a stranger types it."""

import importlib
import json
import re
import shlex
import typing

import numpy as np
import pytest
from annotated_projects import content_of, pairs_of, save_runs
from answer_tables import read_rows, write_rows
from datasets import load_dataset

import cxc_eccv as ce
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_labels, read_positives
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.proposing.strategies import strategies
from cxc_eccv.studies.asking.formats import formats
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.settling import RULES

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def truth(sample_library):
    """Image id and caption id of every pair of the sample's test split that is true."""
    images = set(sample_library.split("test").image_ids.tolist())
    table = sample_library.read("truth", read_positives)
    pairs = zip(table["query_id"].to_pylist(), table["item_id"].to_pylist(), strict=True)
    return {(image, caption) for image, caption in pairs if image in images}


def fill_in(questions, path, worker, truth, error_rate=0.0):
    """A person's copy of exported JSON lines, answered by the truth but for some errors."""
    random = np.random.default_rng(len(worker))
    rows = []
    for row in read_rows(questions):
        says = ((row["image_id"], row["caption_id"]) in truth) != (random.random() < error_rate)
        rows.append(row | {"worker": worker, "answer": "yes" if says else "no", "seconds": 4.0})
    return write_rows(path, rows)


def next_of(text):
    """The words of the commands that a command says come next."""
    return [shlex.split(line.removeprefix("next: ")) for line in text.splitlines() if line.startswith("next: ")]


def test_from_models_to_labels_and_back(command, truth, sample_library, tmp_path):
    models = save_runs(tmp_path, sample_library)
    printed = command("propose", "our-labels", *models, "--budget", 90, "--strategy", "disagreement")
    assert "round 1 of our-labels: 90 pairs in 5 sheets" in printed
    assert next_of(printed) == [shlex.split("cxc-eccv annotate export our-labels --images sample --output questions")]

    printed = command(*next_of(printed)[0][2:])
    assert "wrote questions/questionnaire.html" in printed
    assert next_of(printed)[0][2:] == ["import", "our-labels", "ANSWERS"]
    command("export", "our-labels", "--format", "jsonl", "--images", "images/{file_name}", "--output", "lines")

    people = [("ann", 0.0), ("ben", 0.02), ("clara", 0.05)]
    questions = tmp_path / "lines" / "questions.jsonl"
    files = [fill_in(questions, tmp_path / f"{name}.jsonl", name, truth, rate) for name, rate in people]
    printed = command("import", "our-labels", *files)
    assert "300 answers are new" in printed
    assert "round 1: 5 of 5 sheets answered, by 3 workers" in printed
    assert next_of(printed)[-1][2:] == ["merge", "our-labels"]
    before = content_of(tmp_path / "our-labels")
    assert "no new answers" in command("import", "our-labels", *files)
    assert content_of(tmp_path / "our-labels") == before

    while doubtful := re.search(r"as sheet:worker: (\S+?),?\s", printed):  # somebody looks at one after the other
        printed = command("check", "our-labels", "--reject" if "clara" in doubtful[1] else "--accept", doubtful[1])
    printed = command("merge", "our-labels")
    labels = read_labels(tmp_path / "our-labels" / "labels.parquet")
    assert (labels.name, labels.facts["people"]) == ("our_labels", 3)
    assert f"{labels.table.num_rows} pairs have a label" in printed
    assert "no official source contradicts a label" in printed
    rows = labels.table.to_pylist()
    right = [row["positive"] == ((row["image_id"], row["caption_id"]) in truth) for row in rows]
    assert np.mean(right) > 0.95
    positives = pairs_of(labels.table.filter(labels.table["positive"]))
    assert positives
    assert f"{len(positives)} positives are new" in printed

    # Everybody can use them: by the command that was printed, from Python, and with datasets alone.
    use = shlex.split(re.search(r"use them: cxc-eccv (.*)", printed)[1])
    assert use[:4] == ["evaluate", "MODEL", "--labels", "our-labels"]
    command("evaluate", models[0], *use[2:], "--tasks", "coco_5k", "--intervals", "none", "--output", "report")
    scores = json.loads((tmp_path / "report" / "report.json").read_text())["scores"]
    library = Library("sample", labels=[tmp_path / "our-labels"])
    sources = use[use.index("--sources") + 1].split(",")
    assert sources == ["coco", "cxc", "eccv", "entailment", "our_labels"]
    assert f"--sources {','.join(sources)}\n" in (tmp_path / "our-labels" / "README.md").read_text(encoding="utf-8")
    searched = labels.facts["searched"]
    benchmark = ce.evaluate(ce.load_run(models[0]), data_dir=library, tasks="annotated", confidence=None)
    queries = {row.direction: row.n_queries for row in benchmark.results}
    assert queries == {direction: len(ids) for direction, ids in searched.items() if ids}
    report = ce.evaluate(ce.load_run(models[0]), data_dir=library, tasks="coco_5k", sources=sources)
    assert report.scores == scores
    dataset = load_dataset(str(tmp_path / "our-labels"), split="test", cache_dir=str(tmp_path / "cache"))
    assert {(row["image_id"], row["caption_id"]) for row in dataset if row["positive"]} == positives

    # The next round asks about no pair again.
    first = Project.open(tmp_path / "our-labels", sample_library).candidates
    printed = command("propose", "our-labels", *models, "--budget", 40)
    assert "round 2 of our-labels: 40 pairs in 3 sheets" in printed
    both = Project.open(tmp_path / "our-labels", sample_library).candidates
    assert len(pairs_of(both)) == first.num_rows + 40
    assert "sheets of round 2 have no answer yet" in command("propose", "our-labels", *models, "--budget", 40, status=2)


OPTIONS = {
    "another scheme": (["--scheme", "cxc"], "--scheme cxc: p has eccv, which cannot change"),
    "another split": (["--split", "val"], "--split validation: p has test, which cannot change"),
    "another seed": (["--seed", "4"], "--seed 4: p has 0, which cannot change"),
    "no strategy": (["--strategy", "actve", "--leave-open"], "unknown strategy 'actve'"),
    "no number of queries": (["--queries", "many"], "--queries many: give how many images and how many captions"),
    "queries of three sides": (["--queries", "1,2,3"], "--queries 1,2,3"),
    "names for one of two": (["--name", "a"], "2 models need as many different names"),
}


def test_impossible_requests_change_nothing(command, sample_library, tmp_path):
    models = save_runs(tmp_path, sample_library, seeds=(0, 1))
    command("propose", "p", *models, "--budget", 10, "--size", 5)
    before = content_of(tmp_path / "p")
    for name, (options, message) in OPTIONS.items():
        assert re.search(message, command("propose", "p", *models, "--budget", 11, *options, status=2)), name
        assert content_of(tmp_path / "p") == before, name


def test_what_cannot_be_exported_or_imported_is_said(command, sample_library, tmp_path):
    models = save_runs(tmp_path, sample_library, seeds=(0,))
    command("propose", "p", *models, "--budget", 10, "--size", 5)
    for sheets in ("2", "0-2", "1-0", "a", "-1", "0,,1", ""):
        options = ["--output", "q", "--images", "sample", f"--sheets={sheets}"]
        assert "give numbers from 0 to 1" in command("export", "p", *options, status=2)
    assert "unknown format 'htm'" in command("export", "p", "--output", "q", "--format", "htm", status=2)
    (tmp_path / "studio.json").write_text("[]")
    for arguments, message in (
        (["import", "p", "x", "--format", "htm"], "unknown format 'htm'"),
        (["import", "p", "none.jsonl"], "No such file"),
        (["import", "p", "studio.json"], "found no answers"),
        (["merge", "p"], "nobody has answered yet"),
    ):
        assert message in command(*arguments, status=2)
    assert not (tmp_path / "q").exists()


def test_missing_model_fails_before_any_reading(command, monkeypatch, tmp_path):
    monkeypatch.setattr(Library, "split", lambda *_: pytest.fail("the captions were read"))
    assert "absent.npz: no such file" in command("propose", "p", "absent.npz", status=2)


def test_help_names_what_there_is():
    # The package has the group under this name.
    commands = importlib.import_module("cxc_eccv.studies.annotation.commands.annotate")

    def help_of(function, parameter):
        return typing.get_type_hints(function, include_extras=True)[parameter].__metadata__[0].help

    for name in strategies():
        assert re.search(rf"\b{name}\b", help_of(commands.propose, "strategy"))
    for name, scheme in schemes().items():
        assert bool(re.search(rf"\b{name}\b", help_of(commands.propose, "scheme"))) is scheme.in_projects
    for name in RULES:
        assert re.search(rf"\b{name}\b", help_of(commands.merge, "rule"))
    for name in formats():
        assert re.search(rf"\b{name}\b", help_of(commands.export, "form"))
