"""cxc-eccv train dual-encoder: as a user calls it."""

import sys

import pytest

from cxc_eccv.cli import main

pytestmark = pytest.mark.thorough

SAMPLE = ["--data-dir", "sample", "--no-pretraining", "--text-model", "sample", "--mode", "t2t", "--use-cpu"]
SAMPLE += ["--per-device-train-batch-size", "32"]
SHORT = ["--max-steps", "1", "--eval-strategy", "no", "--no-load-best-model-at-end", "--disable-tqdm"]


def called(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["cxc-eccv", "train", "dual-encoder", *arguments])
    main()


def test_trains_reports_and_keeps_the_model(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        called(monkeypatch, *SAMPLE, *SHORT, "--report-on", "test", "--output-dir", str(tmp_path))
    assert end.value.code in (None, 0)
    assert "R@10" in capsys.readouterr().out
    kept = {"config.json", "model.safetensors", "tokenizer.json", "report", "README.md"}
    assert kept <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mode", "t2i"], "unknown mode 't2i'"),
        (["--mode", "i2t", "--image-model", "sample"], "name it with --images"),
        (["--pretrained", "x"], "either --pretrained"),
        (["--report-on", "tests"], "unknown split 'tests'"),
        (["--resume"], "holds no complete checkpoint. Leave the option out"),
        (["--resume-from-checkpoint", "x"], "newest checkpoint of its --output-dir, as --resume demands"),
    ],
)
def test_bad_input_is_one_message_and_status_2(monkeypatch, tmp_path, capsys, arguments, words):
    with pytest.raises(SystemExit) as end:
        called(monkeypatch, *SAMPLE, *SHORT, "--output-dir", str(tmp_path), *arguments)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
