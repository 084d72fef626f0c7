"""``cxc-eccv evaluate --output`` and ``cxc-eccv report``."""

import html
import json
import os
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest
from command_line import run_command

from cxc_eccv import load_report
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.hashing import hash_file
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun, load_run, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings
from cxc_eccv.types.provenance import Provenance

pytestmark = pytest.mark.thorough

SCENES = mirror_folder("sample") / "coco" / "images"
FILES = ["report.json", "per_query.parquet", "examples.parquet", "report.md", "report.html"]


@pytest.fixture(scope="module")
def evaluated(sample_library, tmp_path_factory):
    """A model's file, and the folder of its report."""
    place = tmp_path_factory.mktemp("report")
    random = np.random.default_rng(0)
    content = sample_library.split("test")
    sides = [Embeddings(ids, random.standard_normal((ids.size, 8))) for ids in (content.image_ids, content.caption_ids)]
    save_embeddings(place / "model.npz", EmbeddingsRun(*sides))
    out, _ = run_command("evaluate", place / "model.npz", "--data-dir", "sample", "--output", place / "out")
    assert " ".join(out.partition("/out/:")[2].split()) == ", ".join(FILES)
    return place


def test_the_report_says_how_it_was_made(evaluated):
    provenance = json.loads((evaluated / "out" / "report.json").read_text())["provenance"]
    assert provenance["command"] == "cxc-eccv evaluate model.npz --data-dir sample"
    page = (evaluated / "out" / "report.html").read_text()
    assert "<code>cxc-eccv evaluate model.npz --data-dir sample</code>" in page
    assert str(evaluated) not in page


def test_command_of_the_page_makes_the_report_again(tmp_path, evaluated):
    shutil.copy(evaluated / "model.npz", tmp_path / "my 'best' model.npz")
    words = ("--data-dir", "sample", "--tasks", "coco_5k", "--name", 'CLIP | "B/32"', "--output")
    run_command("evaluate", tmp_path / "my 'best' model.npz", *words, tmp_path / "first")
    page = (tmp_path / "first" / "report.html").read_text()
    shown = html.unescape(re.search(r"<dt>Command</dt><dd><code>(.*?)</code>", page)[1])
    program, *copied = shlex.split(shown)
    run_command(*copied, "--output", "second", cwd=tmp_path)
    assert program == "cxc-eccv"
    for name in FILES:
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


def test_where_the_output_goes_changes_nothing(evaluated, tmp_path):
    run_command("evaluate", "model.npz", "--data-dir=sample", f"--output={tmp_path}", cwd=evaluated)
    first, second = (json.loads((one / "report.json").read_text()) for one in (evaluated / "out", tmp_path))
    assert second["provenance"].pop("command") == "cxc-eccv evaluate model.npz --data-dir=sample"
    first["provenance"].pop("command")
    assert first == second


def test_evaluate_shows_images_as_report_does(evaluated, tmp_path):
    arguments = ("evaluate", "model.npz", "--data-dir", "sample", "--images", SCENES, "--output", tmp_path / "out")
    out, _ = run_command(*arguments, cwd=evaluated)
    assert " ".join(out.partition("/out/:")[2].split()) == ", ".join(FILES)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/jpeg;base64,") > 50
    assert "not in the folder" not in page
    (tmp_path / "out" / "report.html").unlink()
    run_command("report", tmp_path / "out", "--images", SCENES)
    assert (tmp_path / "out" / "report.html").read_text() == page


EVALUATE = "evaluate model.npz --data-dir mirror --tasks coco_5k/i2t --output out"


def write_notes(folder):
    (folder / "out").mkdir()
    (folder / "out" / "report.md").write_text("mine")


def report_another_file(folder):
    run_command(*EVALUATE.split(), cwd=folder)
    run = load_run(folder / "model.npz")
    other = replace(run, images=Embeddings(run.images.ids, run.images.vectors[::-1]))
    save_embeddings(folder / "model.npz", other)
    os.utime(folder / "model.npz", (0, 0))  # older than the report, so it was not trained again


def report_another_edition(folder):
    run_command(*EVALUATE.split(), cwd=folder)
    catalog = folder / "mirror" / "catalog.toml"
    catalog.write_text(catalog.read_text().replace('edition = "sample"', 'edition = "other"'))


def report_by_another_command(folder):
    run_command("evaluate", "model.npz", "--data-dir", "mirror", "--output", "out", cwd=folder)


KEPT = {
    "file-of-the-user": (
        write_notes,
        "has files that no evaluation wrote: report.md. Name another folder, or move them away",
    ),
    "report-of-another-file": (
        report_another_file,
        "out holds a report of another model.npz. Name another folder",
    ),
    "report-of-another-edition": (
        report_another_edition,
        "out holds a report of the sample data, but this is the other data. Name another folder",
    ),
    "report-of-another-command": (
        report_by_another_command,
        "out holds a report of another command: cxc-eccv evaluate model.npz --data-dir mirror. Name another folder",
    ),
}


@pytest.mark.parametrize("fault", KEPT)
def test_output_of_another_kind_needs_overwrite(evaluated, sample_copy, tmp_path, fault):
    fill, message = KEPT[fault]
    shutil.copy(evaluated / "model.npz", tmp_path)
    fill(tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert message in run_command(*EVALUATE.split(), cwd=tmp_path, status=2)[1]
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    run_command(*EVALUATE.split(), "--overwrite", cwd=tmp_path)
    after = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert all(after[name] != before[name] for name in {"report.md", "report.json"} & before.keys())


def test_report_of_a_model_trained_again_is_replaced(evaluated, sample_copy, tmp_path):
    shutil.copy(evaluated / "model.npz", tmp_path)
    report_another_file(tmp_path)
    os.utime(tmp_path / "model.npz")
    run_command(*EVALUATE.split(), cwd=tmp_path)
    provenance = json.loads((tmp_path / "out" / "report.json").read_text())["provenance"]
    assert provenance["run"]["sha256"] == hash_file(tmp_path / "model.npz")


def test_same_file_under_another_path_is_the_same(evaluated, tmp_path):
    words = ("--data-dir", "sample", "--tasks", "coco_5k/i2t", "--output", tmp_path / "out")
    run_command("evaluate", "model.npz", *words, cwd=evaluated)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "up").symlink_to(evaluated)
    before = json.loads((tmp_path / "out" / "report.json").read_text())["provenance"]["run"]
    run_command("evaluate", f"up/../{evaluated.name}/model.npz", *words, cwd=elsewhere)
    assert json.loads((tmp_path / "out" / "report.json").read_text())["provenance"]["run"] == before


def edit_value(folder):
    """By mistake, as by hand."""
    path = folder / "report.json"
    path.write_text(re.sub(r'"value": 0\.\d+', '"value": 0.999', path.read_text(), count=1))


def truncate(folder):
    path = folder / "examples.parquet"
    path.write_bytes(path.read_bytes()[:-20])


def add_second_report(folder):
    (folder / "report").mkdir()
    shutil.copy(folder / "report.json", folder / "report")


FAULTS = {
    "edited": (edit_value, "per_query.parquet does not belong to the report.json beside it. Evaluate the model again"),
    "truncated": (truncate, "examples.parquet"),
    "empty": (lambda folder: (folder / "report.json").write_text("{}"), "is not a report.json of schema 1"),
    "absent": (lambda folder: (folder / "report.json").unlink(), "report.json. Name a folder that cxc-eccv evaluate"),
    "twofold": (add_second_report, "holds both report.json and report/report.json; name one of the two files"),
}
READERS = {
    "report": "report {spoiled}",
    "table": "tables {spoiled} --format csv",
    "mteb": "report {spoiled} --format mteb --output {other}/mteb",
    "every-eval-ever": "report {spoiled} --format every-eval-ever --output {other}/logs --name a/b",
    "compare": "compare {other} {spoiled}",
    "published": "compare {spoiled} --published",
    "mean": "entailment mean {other} {spoiled}",
    "submit": "submit {spoiled} --check",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("reader", READERS)
def test_all_commands_refuse_report_alike(run, evaluated, tmp_path, reader, fault):
    spoil, message = FAULTS[fault]
    folders = {"spoiled": tmp_path / "spoiled", "other": tmp_path / "other"}
    for folder in folders.values():
        shutil.copytree(evaluated / "out", folder)
    spoil(folders["spoiled"])
    with pytest.raises((DataError, InvalidOption)) as caught:
        load_report(folders["spoiled"])
    assert message in str(caught.value)
    status, out, err = run(*READERS[reader].format(**folders).split())
    assert (status, out) == (2, "")
    assert " ".join(str(caught.value).split()) in " ".join(err.split())


def test_saving_a_report_keeps_files_of_the_user(tmp_path):
    (tmp_path / "report.html").write_text("mine")
    report = Report((), {}, Provenance(split="test"))
    with pytest.raises(InvalidOption, match=r"no evaluation wrote: report\.html"):
        report.save(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
    for _ in range(2):
        report.save(tmp_path / "new")


REFUSED = {
    "images-without-an-output": ("evaluate {model} --data-dir sample --images .", "name a folder for it with --output"),
    "images-in-no-folder": (
        "evaluate {model} --data-dir sample --images absent --output out",
        "absent is not a folder",
    ),
    "format-of-a-table": ("report {report} --format latex", "for a table, use cxc-eccv tables --format latex"),
    "format-misspelt": ("report {report} --format mtebb", "unknown format 'mtebb'; did you mean 'mteb'?"),
    "output-of-pages": ("report {report} --output x", "--output is for --format mteb"),
    "name-of-pages": ("report {report} --name x", "--name is for --format mteb"),
    "relationship-of-pages": (
        "report {report} --relationship other",
        "--relationship is for --format every-eval-ever",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_option_that_does_not_fit_is_refused(run, evaluated, tmp_path, monkeypatch, fault):
    monkeypatch.chdir(tmp_path)
    words, message = REFUSED[fault]
    status, out, err = run(*words.format(model=evaluated / "model.npz", report=evaluated / "out").split())
    assert (status, out) == (2, "")
    assert message in " ".join(err.split())
    assert not list(tmp_path.iterdir())
