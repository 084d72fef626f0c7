"""cxc-eccv train dual-encoder: as a user calls it."""

import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install torch")

from cxc_eccv.cli import main

SAMPLE = ["--data_dir", "sample", "--no_pretraining", "--text_model", "sample", "--mode", "t2t", "--use_cpu"]
SAMPLE += ["--per_device_train_batch_size", "32"]
SHORT = ["--max_steps", "1", "--eval_strategy", "no", "--load_best_model_at_end", "False", "--disable_tqdm", "True"]


def called(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["cxc-eccv", "train", "dual-encoder", *arguments])
    main()


def test_trains_reports_and_keeps_the_model(monkeypatch, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        called(monkeypatch, *SAMPLE, *SHORT, "--report_on", "test", "--output_dir", str(tmp_path))
    assert end.value.code in (None, 0)
    assert "R@10" in capsys.readouterr().out
    assert {"config.json", "model.safetensors", "tokenizer.json", "report.json"} <= {p.name for p in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mode", "t2i"], "unknown mode 't2i'"),
        (["--mode", "i2t", "--image_model", "sample"], "name it with --images"),
        (["--pretrained", "x"], "either --pretrained"),
    ],
)
def test_bad_input_is_one_message_and_status_2(monkeypatch, tmp_path, capsys, arguments, words):
    with pytest.raises(SystemExit) as end:
        called(monkeypatch, *SAMPLE, *SHORT, "--output_dir", str(tmp_path), *arguments)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
