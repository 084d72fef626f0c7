"""``cxc-eccv shelf``: runs are kept, listed with what their models saw, and scored again under new labels."""

import json
import shutil

import pytest
from label_files import random_pairs, write_label_file
from report_samples import near_run

import cxc_eccv as ce
from cxc_eccv.shelf import add_run
from cxc_eccv.sources.library import Library

SAMPLE = ("--data-dir", "sample")


def save_noisy(path, library, noise):
    ce.save_embeddings(path, near_run(library, noise, seed=7, width=16))
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory, sample_library):
    """A shelf of a good model that has seen COCO's validation images, and of a bad one; read only."""
    folder = tmp_path_factory.mktemp("shelf")
    for name, noise, data in (("good", 0.5, ["coco_train", "coco_val"]), ("bad", 3, ["web"])):
        file = save_noisy(folder / f"{name}.npz", sample_library, noise)
        add_run(folder / "shelf", file, training_data=data, data_dir=sample_library, progress=False)
    return folder


@pytest.fixture
def shelf(built, tmp_path):
    return shutil.copytree(built / "shelf", tmp_path / "shelf")


def test_runs_are_listed_and_scored_under_new_labels(shelf, built, run, tmp_path, sample_library):
    _, out, _ = run("shelf", "list", shelf)
    assert "2 runs" in out
    assert "COCO train, COCO val" in out
    card = (shelf / "README.md").read_text()
    assert "| good | COCO train, COCO val | test | 200 | good.run.parquet |" in card
    labels = write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library))
    options = ("--labels", labels, "--sources", "coco,cxc,eccv,mine", "--output", tmp_path / "out")
    status, out, err = run(*SAMPLE, "shelf", "rescore", shelf, *options, "--baseline", "good", width=80)
    lines = [line for line in out.splitlines() if not line.startswith("wrote")]
    assert (status, max(map(len, lines)) <= 80) == (0, True)
    assert "ECCV Caption, labels coco + cxc + eccv + mine 1.0.0" in out
    assert "trained on web crawl: bad" in out
    assert "lacks" not in err
    compared = json.loads((tmp_path / "out" / "compare.json").read_text())
    row = next(row for row in compared["differences"] if (row["task"], row["direction"]) == ("eccv_caption", "t2i"))
    library = Library("sample", labels=[labels])
    for model in ("good", "bad"):
        run_of_model = ce.load_run(built / f"{model}.npz")
        report = ce.evaluate(run_of_model, data_dir=library, sources=("coco", "cxc", "eccv", "mine"), progress=False)
        assert row["value" if model == "bad" else "baseline_value"] == report.scores["eccv_caption/t2i/map_at_r"]
    assert row["significant"]
    assert "bad *" not in out
    assert "scores.csv" in {path.name for path in (tmp_path / "out").iterdir()}


def test_one_model_of_a_shelf_is_scored_alone(shelf, run):
    status, out, _ = run(*SAMPLE, "shelf", "rescore", shelf, "--tasks", "eccv_caption", "--without", "coco_val")
    assert (status, "bad" in out, "good" in out) == (0, True, False)


def copy_bad(shelf, name):
    shutil.copy(shelf / "bad.run.parquet", shelf / f"{name}.run.parquet")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda shelf: (shelf / "good.run.parquet").unlink(), "good.run.parquet: is missing"),
        (lambda shelf: copy_bad(shelf, "good"), "good.run.parquet: has changed"),
        (lambda shelf: copy_bad(shelf, "c"), "c.run.parquet: is not in the index"),
        (lambda shelf: (shelf / "good.run.parquet").write_bytes(b"PAR1"), "good.run.parquet: not readable Parquet"),
        (lambda shelf: (shelf / "shelf.json").write_text("{"), "shelf.json: is damaged"),
        (lambda shelf: (shelf / "shelf.json").unlink(), "is not a shelf: it has no shelf.json"),
    ],
)
def test_a_shelf_whose_files_are_not_those_of_its_index_is_refused(spoil, message, shelf, run):
    spoil(shelf)
    for command in (("list", shelf), ("rescore", shelf)):
        status, _, err = run(*SAMPLE, "shelf", *command)
        assert (status, message in err) == (2, True)


def test_what_a_shelf_does_not_take(shelf, run, tmp_path, sample_library):
    other = save_noisy(tmp_path / "good.npz", sample_library, 1)
    (tmp_path / "lists.json").write_text(json.dumps({"i2t": {"1": [2]}}))
    for file, options, message in (
        (other, (), "has good.run.parquet already"),
        (tmp_path / "lists.json", (), "a shelf takes run files, embeddings or scores"),
        (other, ("--name", "new", "--training-data", "unknown,web"), "unknown excludes other names"),
        (other, ("--name", "a", "--name", "b"), "2 names for 1 files"),
    ):
        status, _, err = run(*SAMPLE, "shelf", "add", shelf, file, *options)
        assert (status, message in err) == (2, True)
    again = run("shelf", "add", shelf, shelf / "bad.run.parquet", "--training-data", "coco_train")
    assert again[0] == 0
    assert "web crawl" not in run("shelf", "list", shelf)[1]
    status, _, err = run(*SAMPLE, "shelf", "rescore", shelf, "--without", "coco_train")
    assert (status, "no model is left without coco_train" in err) == (2, True)


def test_evaluate_keeps_a_run(run, tmp_path, sample_library):
    file = save_noisy(tmp_path / "a.npz", sample_library, 1)
    options = ("--training-data", "coco_train", "--tasks", "coco_5k")
    status, out, _ = run(*SAMPLE, "evaluate", file, *options, "--keep-run", tmp_path / "a.run.parquet")
    assert (status, "wrote" in out) == (0, True)
    assert ce.load_run(tmp_path / "a.run.parquet").kept["training_data"] == ["coco_train"]
    again = run(*SAMPLE, "evaluate", tmp_path / "a.run.parquet", "--tasks", "coco_5k")[1]
    assert [line for line in again.splitlines() if "R@" in line] == [line for line in out.splitlines() if "R@" in line]
    for further, message in ((("--limit", 5), "leave out --limit"), ((), "name the run file NAME.run.parquet")):
        path = tmp_path / ("b.run.parquet" if further else "b.parquet")
        status, _, err = run(*SAMPLE, "evaluate", file, "--keep-run", path, *further)
        assert (status, message in err) == (2, True)
