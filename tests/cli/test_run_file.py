"""``run.yaml``: a report is made again by one command, and a file with options is read strictly."""

import json

import pytest
import yaml
from report_samples import near_run

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


def test_the_same_report_again(evaluate, tmp_path):
    options = ("--tasks", "cxc,coco_5k", "--metrics", "recall_at_1", "--confidence", 0.9, "--seed", 3)
    options += ("--bounds", "--name", "no: 1", "--data-dir", "sample")
    assert evaluate("clip.npz", *options, "--output", "first")[0] == 0
    written = yaml.safe_load((tmp_path / "first" / "run.yaml").read_text())
    assert written.items() >= {"files": "clip.npz", "split": "test", "seed": 3, "bounds": True}.items()
    assert written.items() >= {"name": "no: 1", "data-dir": "sample"}.items()
    assert "output" not in written
    assert evaluate("--config", "first/run.yaml", "--output", "second")[0] == 0
    report = report_of(tmp_path / "second")
    assert report == report_of(tmp_path / "first")
    assert report["provenance"]["confidence"] == 0.9
    assert (tmp_path / "second" / "run.yaml").read_bytes() == (tmp_path / "first" / "run.yaml").read_bytes()


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
def test_another_version_is_a_warning(evaluate, tmp_path, monkeypatch):
    assert evaluate("clip.npz", "--tasks", "coco_5k/i2t", "--data-dir", "sample", "--output", "out")[0] == 0
    assert "warning" not in evaluate("--config", "out/run.yaml")[2]
    monkeypatch.setattr(run_file, "__version__", "99.0")
    status, _, err = evaluate("--config", "out/run.yaml")
    assert status == 0
    assert "out/run.yaml was made with cxc_eccv " in err
    assert "This is cxc_eccv 99.0 and the sample data, version" in err


ALIASES = "\n".join(f"a{n}: &a{n} [{', '.join(9 * [f'*a{n - 1}' if n else 'x'])}]" for n in range(9))
BOMB = "name: [" + ALIASES.replace("\n", ", ") + "]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("taks: cxc", "UnknownName: unknown option in run.yaml 'taks'; did you mean 'tasks'?"),
        ("config: run.yaml", "unknown option in run.yaml 'config'"),
        ("seed: 1\nseed: 2", "seed is given twice; keep one"),
        ("seed: 1.5", "Invalid value for '--seed'"),
        ("bounds: 3", "bounds is 3; give true or false"),
        ("name: yes", "name is True; give values, text in quotes"),
        ("split: [val, test]", "split is ['val', 'test']; give one value"),
        ("seed:", "seed is None; give one value"),
        ("tasks: {cxc: i2t}", "tasks is {'cxc': 'i2t'}; give values"),
        ("- cxc", "expected the options of evaluate, one on a line"),
        ("tasks: [cxc", "cannot be read as YAML"),
        ("tasks: " + "[" * 5_000, "cannot be read as YAML"),
        ("tasks: !!python/name:os.system", "cannot be read as YAML"),
        (BOMB, "name is [{'a0': ['x', 'x'"),
        ("# " + "x" * 100_000, "larger than 100,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(evaluate, tmp_path, text, message):
    (tmp_path / "run.yaml").write_text(text)
    status, out, err = evaluate("clip.npz", "--config", "run.yaml", "--data-dir", "sample")
    assert (status, out) == (2, "")
    assert message in err


def test_a_file_that_is_not_there(evaluate):
    status, _, err = evaluate("--config", "absent.yaml")
    assert (status, "absent.yaml" in err) == (2, True)
