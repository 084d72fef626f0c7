"""The command line as a user meets it: offline, on the embedded sample."""

import json
import re
import shlex
import subprocess
import sys

import pytest
from command_line import run_command

from cxc_eccv import __version__
from cxc_eccv.cli import named_models
from cxc_eccv.errors import ExtraMissing


def test_the_version_is_printed():
    assert run_command("--version")[0].strip() == f"cxc-eccv {__version__}"


def test_help_is_quick_as_it_imports_nothing_heavy():
    heavy = ("numpy", "pyarrow", "scipy", "datasets", "evaluate", "torch", "transformers", "matplotlib")
    code = "import atexit, sys; from cxc_eccv.cli.app import main\n"
    code += f"atexit.register(lambda: print('imported:', [name for name in {heavy} if name in sys.modules]))\nmain()"
    done = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"


def test_demo_runs_the_whole_path(demo):
    scores = json.loads((demo / "report.json").read_text())["scores"]
    assert scores["coco_5k/i2t/recall_at_10"] > 0.6
    assert scores["coco_5k/t2i/recall_at_1"] > 10 / 60
    assert (demo / "dataset" / "README.md").is_file()
    page = (demo / "report.html").read_text()
    assert "data:image/jpeg;base64," in page
    assert "not in the folder" not in page
    assert "Most label-dependent" in page


def test_the_demo_prints_five_lines():
    """A newcomer reads what was done, on which data, the main numbers, and what to do next."""
    text, _ = run_command("demo")
    data, done, coco, eccv, further = text.splitlines()
    assert data == "Toy data, test split of the embedded sample (60 drawings): not results on COCO"
    assert done.startswith("Built a dataset")
    assert re.fullmatch(r"COCO 5K R@1: \d+\.\d% image to text, \d+\.\d% text to image", coco)
    assert re.fullmatch(r"ECCV Caption mAP@R: \d+\.\d% image to text, \d+\.\d% text to image", eccv)
    assert further.endswith("cxc-eccv demo --output demo")


@pytest.mark.parametrize("has_torch", [True, False], ids=["with torch", "without torch"])
def test_next_command_of_the_demo_works_offline(tmp_path, monkeypatch, has_torch):
    if has_torch:
        pytest.importorskip("torch")
        pytest.importorskip("accelerate")
    else:
        monkeypatch.setattr(named_models, "check_packages", lack_packages)
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "my demo"
    last = run_command("demo", "--output", folder)[0].splitlines()[-1]
    program, *arguments = shlex.split(last.removeprefix("Next: "))
    assert program.endswith("cxc-eccv")
    assert ("--model" in arguments) == has_torch
    text, _ = run_command(*arguments, cwd=tmp_path)
    name = "random-weights" if has_torch else "ridge.npz"
    assert text.startswith(f"{name}, test split of the embedded sample (60 drawings): not results on COCO")
    assert "COCO 5K R@1" in text
    assert max(map(len, text.splitlines())) < 2_000, "a box in a pipe is as wide as what it holds"


def lack_packages(model):
    raise ExtraMissing(f"{model} needs torch, which is not installed")


def test_random_model_is_small_and_says_so(demo):
    files = [path for path in (demo / "random-weights").iterdir() if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 300_000
    assert "nobody has trained" in (demo / "random-weights" / "README.md").read_text()


def test_build_then_load(tmp_path):
    text, _ = run_command(
        "build", "--output", tmp_path / "built", "--configs", "sits,sts", "--splits", "val", "--data-dir", "sample"
    )
    assert "sits/validation" in text
    assert sorted(path.parent.name for path in (tmp_path / "built").rglob("*.parquet")) == ["sits", "sts"]


def test_data_dir_is_accepted_before_or_after_command():
    """The one after the command wins."""
    expected, _ = run_command("list", "--data-dir", "sample")
    assert run_command("--data-dir", "sample", "list")[0] == expected
    assert run_command("--data-dir", "no_such_folder", "list", "--data-dir", "sample")[0] == expected
    assert run_command("list")[0] != expected, "a command must not see the options of the one before it"


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("evaluate", "absent.npz"), ["absent.npz"]),
        (("build", "--output", "x", "--data-dir", "no_such_folder"), ["no_such_folder"]),
        (("report", "--data-dir", "sample", "x"), ["No such option: --data-dir"]),
        (("build", "--output", "x", "--configs", "sts"), ["--data-dir", "CXC_ECCV_DATA"]),
    ],
    ids=["no-file", "folder", "no-raw-files-read", "no-data"],
)
def test_an_error_is_one_message_and_status_2(arguments, parts, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    data = ("--data-dir", "sample") if arguments[0] == "evaluate" else ()
    _, message = run_command(*arguments, *data, status=2)
    for part in parts:
        assert part in message
