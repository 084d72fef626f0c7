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
