"""``annotate check`` and ``annotate report`` on a project of the sample, as a user meets them."""

import html
import json
import shutil

import pytest
from answer_tables import read_rows, write_rows
from command_line import run_command
from report_samples import near_run

from cxc_eccv.runs import save_embeddings
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.project_files import DECISIONS, read_decisions
from cxc_eccv.studies.asking.sheet_quality import Checks

pytestmark = pytest.mark.thorough

FILES = [".written.sha256", "annotation_report.html", "annotation_report.json"]


def run(name, *arguments, status=0):
    """What a command of the group prints; its messages if it fails."""
    given = ("annotate", name, *map(str, arguments), "--data-dir", "sample")
    return run_command(*given, status=status)[status > 0]


@pytest.fixture(scope="module")
def models(sample_library, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    runs = {"near": near_run(sample_library, 1.0), "far": near_run(sample_library, 1.6, seed=1)}
    paths = [folder / f"{name}.npz" for name in runs]
    for path, run in zip(paths, runs.values(), strict=True):
        save_embeddings(path, run)
    return paths


@pytest.fixture(scope="module")
def answered(models, sample_library, tmp_path_factory):
    """A folder with 36 pairs on six sheets that two people answered; the second misses a known positive of sheet 1."""
    place = tmp_path_factory.mktemp("answered")
    folder = place / "mine"
    asked = place / "asked"

    run("propose", folder, *models, "--budget", 36, "--size", 6)
    run("export", folder, "--output", asked, "--images", "sample", "--format", "jsonl")
    sheets = Project.open(folder, sample_library).questions
    roles = {(number, own.pair_id): own.role for number, sheet in enumerate(sheets) for own in sheet}
    rows = read_rows(asked / "questions.jsonl")
    for worker in ("ann", "ben:b"):
        filled = []
        for number, row in enumerate(rows):
            role = roles[row["sheet"], row["pair_id"]]
            careless = worker == "ben:b" and row["sheet"] == 1
            yes = not careless if role == "known positive" else role == "candidate" and number % 3 == 0
            filled.append({**row, "worker": worker, "answer": "yes" if yes else "no", "details": {}, "seconds": 5})
        write_rows(place / f"{worker[:3]}.jsonl", filled)
    run("import", folder, place / "ann.jsonl", place / "ben.jsonl", "--format", "jsonl")
    return folder


@pytest.fixture
def project(answered, tmp_path):
    return shutil.copytree(answered, tmp_path / "mine")


def test_before_anybody_answered_the_report_says_so(models, tmp_path):
    run("propose", tmp_path / "mine", models[0], "--budget", 36)
    out = run("report", tmp_path / "mine", models[0], "--output", tmp_path / "out")
    assert "No answers yet: cxc-eccv annotate import reads them." in out
    assert "There are no labels yet" in out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    content = json.loads((tmp_path / "out" / "annotation_report.json").read_text())
    assert (content["schema"], content["scheme"], content["sheets"]) == (1, "eccv", [])


def test_sheet_accepted_by_hand_counts_afterwards(project, sample_library):
    out = run("check", project)
    assert "to be checked by hand, as sheet:worker: 1:ben:b" in out
    assert "the known positive was answered as a negative" in out
    assert not (project / DECISIONS).exists()
    assert "Agreement of pairs of workers" in run("report", project)
    run("merge", project)
    before = (project / "labels.parquet").read_bytes()
    assert "12 accepted, 0 to be checked by hand" in run("check", project, "--accept", "1:ben:b")
    assert "The merged labels are out of date" in run("report", project)
    run("merge", project)
    assert (project / "labels.parquet").read_bytes() != before
    assert "labels are out of date" not in run("report", project)
    judged = Project.open(project, sample_library).verdicts
    sheets = [f"{own.sheet}:{own.worker}" for own in judged.itertuples()]
    run("check", project, *(part for sheet in sheets for part in ("--reject", sheet)))
    assert "The merged labels are out of date" in run("report", project)


def test_rejected_sheet_can_be_accepted_later(project):
    run("check", project, "--reject", "0:ann", "--reject", "1:ben:b")
    assert "10 accepted, 0 to be checked by hand, 2 rejected" in run("check", project)
    run("check", project, "--accept", "0:ann")
    assert "11 accepted, 0 to be checked by hand, 1 rejected" in run("check", project)
    assert read_decisions(project).checks == Checks(by_hand={(0, "ann"): True, (1, "ben:b"): False})
    assert "1 accepted, 10 to be checked by hand" in run("check", project, "--least-seconds", 1000)
    assert "less than 1000 seconds" in run("report", project)


def test_a_person_is_rejected_and_taken_back(project):
    out = run("check", project, "--reject", " BEN:b")
    assert "sheets of ben:b: rejected, were accepted" in out
    assert "6 accepted, 0 to be checked by hand, 6 rejected" in out
    assert "the worker is rejected" not in out
    out = run("check", project, "--accept", "ben:b")
    assert "sheets of ben:b: accepted, were rejected" in out
    assert "12 accepted" in out


def test_page_shows_images_of_sheets_to_check(project, tmp_path):
    run("report", project, "--output", tmp_path / "out", "--images", "sample")
    page = (tmp_path / "out" / "annotation_report.html").read_text()
    assert page.count('<img src="data:image/jpeg') == 8
    doubted = json.loads((tmp_path / "out" / "annotation_report.json").read_text())["doubted"]
    assert [row["turned_down"] for row in doubted if row["answers"]] == [1]  # on the sheet that is to be checked
    run("report", project, "--output", tmp_path / "bare")
    assert "<img" not in (tmp_path / "bare" / "annotation_report.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--accept", "3:"], "name a sheet and its worker, as 3:ann, or a worker"),
        (["--accept", "0:ann", "--reject", "0:ann"], "named twice"),
        (["--least-seconds", "-1"], "least_seconds=-1.0"),
    ],
)
def test_impossible_decision_changes_nothing(project, options, message):
    assert message in run("check", project, *options, status=2)
    assert not (project / DECISIONS).exists()


def test_what_the_labels_change_for_every_model(project, models, tmp_path):
    run("merge", project)
    out = run("report", project, *models, "--output", tmp_path / "out")
    for text in ("What changed: COCO 5K, i2t", "R-Precision", "near", "far", "may fall although the ranking"):
        assert text in out
    content = json.loads((tmp_path / "out" / "annotation_report.json").read_text())
    assert content["changes"]["after"] == [*content["changes"]["before"], "mine"]
    assert {row["model"] for row in content["changes"]["changes"]} == {"near", "far"}
    assert content["provenance"]["command"].startswith("cxc-eccv annotate report mine near.npz far.npz")
    page = (tmp_path / "out" / "annotation_report.html").read_text()
    assert "Changes of every model's scores" in html.unescape(page)


def test_sources_tasks_and_metrics_can_be_chosen(project, models, tmp_path):
    run("merge", project)
    chosen = ["--sources", "coco", "--tasks", "eccv_caption/t2i", "--metrics", "map_at_r"]
    out = run("report", project, models[0], *chosen, "--output", tmp_path / "out")
    assert "positives of coco; after: of coco and mine" in out
    rows = json.loads((tmp_path / "out" / "annotation_report.json").read_text())["changes"]["changes"]
    assert [(row["task"], row["direction"], row["metric"]) for row in rows] == [("eccv_caption", "t2i", "map_at_r")]
    assert "give different sources" in run("report", project, models[0], "--sources", "mine", status=2)
