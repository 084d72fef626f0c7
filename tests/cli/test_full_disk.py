"""A disk that fills up is one message with path and remedy, and what was there before is as it was."""

import shutil
from pathlib import Path

import pytest
from full_disk import files_of_at_most, status

from cxc_eccv.sources.download import mirror_folder

pytestmark = pytest.mark.thorough

IMAGES = mirror_folder("sample") / "coco" / "images"
COMMANDS = {
    "build": ("build", "--data-dir", "sample", "--output", "OUT"),
    "evaluate": ("evaluate", "KEPT/ridge.npz", "--data-dir", "sample", "--tasks", "coco_5k", "--output", "OUT"),
    "report": ("report", "KEPT"),
    "compare": (
        *("compare", "KEPT", "KEPT/second", "--name", "a", "--name", "b", "--samples", "200"),
        *("--output", "KEPT"),
    ),
    "demo": ("demo", "--output", "OUT"),
    "demo again": ("demo", "--output", "KEPT"),
}


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, 1_000) for name in COMMANDS),
        ("build", 20_000),
        ("demo", 64_000),
    ],
)
def test_command_on_full_disk_keeps_the_old_output(demo, told, tmp_path, name, size):
    """The message names the output, and no hidden file is left behind."""
    kept = shutil.copytree(demo, tmp_path / "kept")
    if name == "compare":
        shutil.copytree(demo, kept / "second")
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


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_encode_resumes_once_the_disk_has_room(told, tmp_path, suffix):
    pytest.importorskip("transformers", reason="transformers is not installed: pip install '.[train]'")
    tiny_models = pytest.importorskip("tiny_models", reason="torch is not installed")
    words = ("encode", "--model", tiny_models.save(tiny_models.dual(), tmp_path / "model"), "--images", IMAGES)
    words = [*map(str, words), "--data-dir", "sample", "--output"]
    whole = tmp_path / f"whole{suffix}"
    output = tmp_path / f"run{suffix}"
    assert status(*words, str(whole)) == 0
    # Room for no shard; then for every shard, but not for all of them in one file.
    assert told(1_000, *words, output).startswith(f"{output}.parts/images-")
    assert told(whole.stat().st_size - 100, *words, output) == str(output)
    assert not output.exists()
    assert status(*words, str(output)) == 0
    assert output.read_bytes() == whole.read_bytes()
    kept = ["model", "run.encoding.json", output.name, "whole.encoding.json", whole.name]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept
