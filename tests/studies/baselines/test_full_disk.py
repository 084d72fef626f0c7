"""Baselines and training scripts on a disk that fills up."""

import pytest

from cxc_eccv.sources.library import Library

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("size", [1_000, 20_000])
def test_a_baseline_names_its_output_and_leaves_none(told, tmp_path, size):
    assert told(size, "baseline", "random", "--data-dir", "sample", "--output", tmp_path / "out").startswith(
        str(tmp_path / "out")
    )
    assert not list(tmp_path.iterdir())


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
