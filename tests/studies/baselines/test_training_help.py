"""The --help of training scripts, as commands and under ``python -m``."""

import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from cxc_eccv.cli.app import main

ROOT = Path(__file__).parents[3]
TRAIN = [f"cxc_eccv.studies.baselines.{name}" for name in ("char_gru", "dual_encoder", "entailment_classifier")]
HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))


@pytest.mark.skipif(not HAS_TRAIN, reason="the train extra is not installed")
@pytest.mark.parametrize("name", TRAIN)
def test_the_training_scripts_list_their_own_options(name, helped):
    command = name.rpartition(".")[2].replace("_", "-")
    by_module = helped(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), name)
    text = helped(main, "cxc-eccv", "train", command)
    assert f"usage: cxc-eccv train {command} [OPTIONS]" in text
    for option in ("--train-on", "--report-on", "--output-dir", "--data-dir"):
        assert f"  {option}" in text
    assert "(default: " in text
    assert not re.search(r"\(default:\s+(None|\[\])\)", text)
    assert not re.search(r"--\w*_", text)
    assert "  --resume, --no-resume\n" in text
    assert by_module == text


@pytest.mark.skipif(not HAS_TRAIN, reason="the train extra is not installed")
def test_an_unknown_option_of_a_training_script_is_a_usage_error(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "char-gru", "--output-dir", "x", "--epoch-count", "3"])
    assert ended.value.code == 2
    assert "unknown options: --epoch-count 3; --help lists the options" in capsys.readouterr().err


@pytest.mark.skipif(not HAS_TRAIN, reason="the train extra is not installed")
@pytest.mark.parametrize("name", TRAIN)
def test_a_training_script_under_python_m_is_the_command(name, monkeypatch, capsys, tmp_path):
    """Its errors are one message."""
    options = ["--no-pretraining", "--mode", "t2i"] if name.endswith("dual_encoder") else ["--report-on", "t2i"]
    monkeypatch.setattr(sys, "argv", [name, *options, "--output-dir", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    err = capsys.readouterr().err
    assert ended.value.code == 2, err
    assert re.match(r"cxc-eccv: UnknownName: unknown (mode|split|corpus of labelled pairs) 't2i'", err)


def test_modules_that_run_are_the_known_ones():
    """A new ``__main__`` is to be added above."""
    homes = (ROOT / "cxc_eccv").rglob("__main__.py")
    assert sorted(".".join(path.parent.relative_to(ROOT).parts) for path in homes) == sorted(TRAIN)
