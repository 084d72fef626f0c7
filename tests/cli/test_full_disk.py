"""A disk that fills up is one message with path and remedy, and what was there before is as it was."""

import contextlib
import re
import resource
import shutil
from pathlib import Path

import pytest

from cxc_eccv.cli import main
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library

IMAGES = mirror_folder("sample") / "coco" / "images"
COMMANDS = {
    "build": ("build", "--data-dir", "sample", "--output", "OUT"),
    "evaluate": ("evaluate", "KEPT/ridge.npz", "--data-dir", "sample", "--tasks", "coco_5k", "--output", "OUT"),
    "report": ("report", "KEPT"),
    "compare": (
        *("compare", "KEPT", "KEPT", "--names", "a,b", "--data-dir", "sample", "--samples", "200"),
        *("--output", "KEPT"),
    ),
    "baseline": ("baseline", "random", "--data-dir", "sample", "--output", "OUT"),
    "demo": ("demo", "--output", "OUT"),
    "demo again": ("demo", "--output", "KEPT"),
}


@contextlib.contextmanager
def files_of_at_most(size):
    """What a full disk does, in this process alone: no file grows beyond so many bytes."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def status(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


@pytest.fixture
def told(monkeypatch, capsys):
    """The one message of a command whose files grow to at most so many bytes."""
    monkeypatch.setattr("warnings.showwarning", None)

    def run(size, *arguments):
        capsys.readouterr()
        with files_of_at_most(size):
            ended = status(*map(str, arguments))
        err = capsys.readouterr().err
        assert ended == 2, err
        assert "Traceback" not in err
        assert err.count("cxc-eccv: ") == 1, err
        line = err[err.index("cxc-eccv: ") :].strip()
        assert line.endswith("Free some space there, or choose another place."), line
        return re.fullmatch(r"cxc-eccv: WriteFailed: cannot write (.+?): .*", line)[1]

    return run


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What the demo leaves."""
    folder = tmp_path_factory.mktemp("disk") / "demo"
    assert status("demo", "--output", str(folder)) == 0
    return folder


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, 1_000) for name in COMMANDS),
        ("build", 20_000),
        ("baseline", 20_000),
        ("demo", 48_000),
        ("demo", 64_000),
    ],
)
def test_a_command_names_its_output_and_leaves_the_old_one(demo, told, tmp_path, name, size):
    kept = shutil.copytree(demo, tmp_path / "kept")
    before = contents(kept)
    words = [word.replace("OUT", str(tmp_path / "out")).replace("KEPT", str(kept)) for word in COMMANDS[name]]
    place = told(size, *words)
    assert place.startswith(str(kept if "KEPT" in COMMANDS[name][1:][-1] else tmp_path / "out"))
    hidden = [part for part in Path(place).relative_to(tmp_path).parts if part.startswith(".")]
    assert not hidden, "a hidden file is nothing to a user"
    assert contents(kept) == before
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert not [path for path in kept.iterdir() if path.name.startswith(".")]


def test_a_report_that_cannot_be_written_is_printed(demo, tmp_path, capsys):
    with files_of_at_most(20_000):
        ended = status("evaluate", str(demo / "ridge.npz"), "--data-dir", "sample", "--output", str(tmp_path / "out"))
    assert (ended, list(tmp_path.iterdir())) == (2, [])
    assert "R@10" in capsys.readouterr().out


def test_sts(told, tmp_path):
    folder = tmp_path / "mirror"
    folder.mkdir()
    for subtask in ("fnwn", "headlines", "onwn"):
        path = folder / Library(folder).catalog.entry(f"sts2013_{subtask}").path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{n % 6}\ta dog {n}\ta dog {n % 4}\n" for n in range(12)), encoding="utf-8")
    words = ("sts", "--baseline", "bow", "--tasks", "sts2013", "--data-dir", folder, "--allow-modified")
    assert told(1_000, *words, "--output", tmp_path / "out") == str(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["mirror"]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_encode_keeps_its_shards_and_goes_on_when_there_is_room(told, tmp_path, suffix):
    pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")
    tiny_models = pytest.importorskip("tiny_models", reason="torch is not installed")
    words = ("encode", "--model", tiny_models.save(tiny_models.dual(), tmp_path / "model"), "--images", IMAGES)
    words = [*map(str, words), "--data-dir", "sample", "--output"]
    whole, output = tmp_path / f"whole{suffix}", tmp_path / f"run{suffix}"
    assert status(*words, str(whole)) == 0
    # Room for no shard; then for every shard, but not for all of them in one file.
    assert told(1_000, *words, output).startswith(f"{output}.parts/images-")
    assert told(whole.stat().st_size - 100, *words, output) == str(output)
    assert not output.exists()
    assert status(*words, str(output)) == 0
    assert output.read_bytes() == whole.read_bytes()
    kept = ["model", "run.encoding.json", output.name, "whole.encoding.json", whole.name]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


SCRIPTS = {
    "dual-encoder": (
        *("--data-dir", "sample", "--no-pretraining", "--text-model", "sample", "--mode", "t2t", "--use-cpu"),
        *("--per-device-train-batch-size", "32", "--max-steps", "1", "--eval-strategy", "no"),
        *("--no-load-best-model-at-end", "--disable-tqdm"),
    ),
    "char-gru": (
        *("--data-dir", "sample", "--train-on", "coco/val", "--held-out", "4", "--hidden-size", "8"),
        *("--images", "30", "--cycle-epochs", "1", "--epochs", "2"),
    ),
}


@pytest.mark.parametrize(
    ("script", "size"),
    [
        ("dual-encoder", 10),  # the record of the run
        ("dual-encoder", 20_000),  # safetensors' weights
        ("dual-encoder", 12_000_000),  # torch's state of the optimiser
        ("char-gru", 10),
        ("char-gru", 20_000),
        ("char-gru", 40_000),
    ],
)
def test_training_names_its_folder(told, tmp_path, script, size):
    for name in ("torch", "transformers", "accelerate"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'cxc_eccv[train]'")
    out = tmp_path / "out"
    assert told(size, "train", script, *SCRIPTS[script], "--output-dir", out) == str(out)
