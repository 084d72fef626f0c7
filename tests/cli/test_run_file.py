"""``run.yaml``: a report is made again by one command, and a file with options is read strictly."""

import json
import shutil
import time

import pytest
import yaml
from label_files import random_pairs, write_label_file
from report_samples import near_run

import cxc_eccv as ce
from cxc_eccv.cli import run_file
from cxc_eccv.runs import save_embeddings

pytestmark = pytest.mark.thorough


@pytest.fixture
def evaluate(run, sample_library, tmp_path, monkeypatch):
    """Exit status, output and messages of evaluate in a folder with the embeddings of a model."""
    monkeypatch.chdir(tmp_path)
    save_embeddings("clip.npz", near_run(sample_library, noise=0.5, width=16))
    return lambda *words: run("evaluate", *words)


def report_of(folder):
    content = json.loads((folder / "report.json").read_text())
    content["provenance"].pop("command")
    return content


def test_the_same_report_again_from_another_folder(evaluate, tmp_path, monkeypatch):
    options = ("--tasks", "cxc,coco_5k", "--metrics", "recall_at_1", "--confidence", 0.9, "--seed", 3)
    options += ("--bounds", "--name", "clip.npz", "--data-dir", "sample")
    assert evaluate("clip.npz", *options, "--output", "first")[0] == 0
    report, text = report_of(tmp_path / "first"), (tmp_path / "first" / "run.yaml").read_text()
    written = yaml.safe_load(text)
    assert written.items() >= {"files": str(tmp_path / "clip.npz"), "split": "test", "seed": 3, "bounds": True}.items()
    assert written.items() >= {"name": "clip.npz", "data-dir": "sample", "output": str(tmp_path / "first")}.items()
    assert report["provenance"]["confidence"] == 0.9
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "first" / "run.yaml").rename("run.yaml")
    shutil.rmtree(tmp_path / "first")
    for folder, output in ((tmp_path / "first", ()), (tmp_path / "second", ("--output", "../second"))):
        assert evaluate("--config", "run.yaml", *output)[0] == 0
        assert report_of(folder) == report
    assert (tmp_path / "first" / "run.yaml").read_text() == text


def test_folder_of_data_is_written_wherever_it_was_named(evaluate, sample_copy, tmp_path, monkeypatch):
    for data, number in ((sample_copy, 1), ("sample", 2)):
        monkeypatch.setenv("CXC_ECCV_DATA", str(data))
        assert evaluate("clip.npz", "--tasks", "coco_5k/i2t", "--output", f"out{number}")[0] == 0
        assert yaml.safe_load((tmp_path / f"out{number}" / "run.yaml").read_text())["data-dir"] == str(data)


def test_places_are_absolute_and_names_are_not(evaluate, tmp_path, sample_library):
    (tmp_path / "labels").mkdir()
    write_label_file(tmp_path / "labels" / "mine.parquet", sample_library, *random_pairs(sample_library))
    words = ("--labels", "labels", "--sources", "coco,mine", "--images", "sample", "--data-dir", "sample")
    assert evaluate("clip.npz", *words, "--name", "labels", "--tasks", "coco_5k/i2t", "--output", "out")[0] == 0
    written = yaml.safe_load((tmp_path / "out" / "run.yaml").read_text())
    expected = {"labels": str(tmp_path / "labels"), "name": "labels", "images": "sample", "unjudged": "not_entailed"}
    assert written.items() >= expected.items()


def test_options_on_the_command_line_override_those_of_the_file(evaluate, tmp_path):
    (tmp_path / "run.yaml").write_text("files: absent.npz\ntasks: [cxc, coco_5k]\ndata-dir: absent\nseed: 0\n")
    words = ("clip.npz", "--config", "run.yaml", "--tasks", "coco_5k/i2t", "--data-dir", "sample", "--output", "out")
    assert evaluate(*words)[0] == 0
    assert {row["key"].rpartition("/")[0] for row in report_of(tmp_path / "out")["results"]} == {"coco_5k/i2t"}
    assert yaml.safe_load((tmp_path / "out" / "run.yaml").read_text())["seed"] == 0


def test_the_option_of_the_program_overrides_the_file_too(run, evaluate, tmp_path):
    (tmp_path / "run.yaml").write_text("files: clip.npz\ntasks: coco_5k/i2t\ndata-dir: absent\n")
    assert run("--data-dir", "sample", "evaluate", "--config", "run.yaml")[0] == 0
    assert "'absent' is not a folder" in evaluate("--config", "run.yaml")[2]


@pytest.mark.filterwarnings("default:.* was made with")
def test_other_version_or_labels_are_a_warning(evaluate, tmp_path, sample_library, monkeypatch):
    labels = write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library))
    words = ("--labels", "mine.parquet", "--tasks", "coco_5k/i2t", "--data-dir", "sample")
    assert evaluate("clip.npz", *words, "--output", "out")[0] == 0
    assert "warning" not in evaluate("--config", "out/run.yaml")[2]
    monkeypatch.setattr(run_file, "__version__", "99.0")
    status, _, err = evaluate("--config", "out/run.yaml")
    assert status == 0
    assert f"out/run.yaml was made with cxc_eccv {ce.__version__}, now 99.0. The numbers can differ." in err
    write_label_file(labels, sample_library, *random_pairs(sample_library, seed=1))
    assert "out/run.yaml was made with labels_mine_test " in evaluate("--config", "out/run.yaml")[2]


def test_other_edition_is_refused(evaluate, sample_copy, tmp_path):
    assert evaluate("clip.npz", "--tasks", "coco_5k/i2t", "--data-dir", "sample", "--output", "out")[0] == 0
    catalog = sample_copy / "catalog.toml"
    catalog.write_text(catalog.read_text().replace('edition = "sample"', 'edition = "other"'))
    status, out, err = evaluate("--config", "out/run.yaml", "--data-dir", sample_copy)
    assert (status, out) == (2, "")
    assert "out/run.yaml was made with the sample data, but this is the other data" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("taks: cxc", "UnknownName: unknown option in run.yaml 'taks'; did you mean 'tasks'?"),
        ("config: run.yaml", "unknown option in run.yaml 'config'"),
        ("seed: 1\nseed: 2", "seed is given twice; keep one"),
        ("seed: 1\nseed: 1", "seed is given twice; keep one"),
        ("seed: 1.5", "Invalid value for '--seed'"),
        ("seed: 0x10", "Invalid value for '--seed'"),
        ("bounds: 3", "bounds is '3'; give true or false"),
        ("split: [val, test]", "split is ['val', 'test']; give one value"),
        ("made-with: cxc_eccv 0", "made-with is 'cxc_eccv 0'; leave it out of your own files"),
        ("seed:", "seed is ''; give one value"),
        ("tasks: {cxc: i2t}", "tasks is {'cxc': 'i2t'}; give values"),
        ("tasks: !!python/name:os.system", "tasks is ''; give values"),
        ("- cxc", "expected the options of evaluate, one on a line"),
        ("tasks: [cxc", "cannot be read as YAML"),
        ("tasks: [[cxc]]", "tasks is [['cxc']]; give values"),
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_cannot_be_meant_is_refused(evaluate, tmp_path, text, message):
    (tmp_path / "run.yaml").write_text(text)
    started = time.perf_counter()
    status, out, err = evaluate("clip.npz", "--config", "run.yaml", "--data-dir", "sample")
    assert (status, out) == (2, "")
    assert message in err
    assert len(err) < 500
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize(("text", "seed"), [("010", 10), ("1_0", 10), ("'7'", 7)])
def test_value_counts_as_on_the_command_line(evaluate, tmp_path, text, seed):
    (tmp_path / "run.yaml").write_text(f"files: clip.npz\ntasks: coco_5k/i2t\nname: no\nseed: {text}\n")
    assert evaluate("--config", "run.yaml", "--data-dir", "sample", "--output", "out")[0] == 0
    assert report_of(tmp_path / "out")["provenance"]["seed"] == seed
    written = yaml.safe_load((tmp_path / "out" / "run.yaml").read_text())
    assert (written["seed"], written["name"]) == (seed, "no")


def test_a_file_that_is_not_there(evaluate):
    status, _, err = evaluate("--config", "absent.yaml")
    assert (status, "absent.yaml" in err) == (2, True)
