"""The --help and the usage errors of the training scripts."""

import re
from importlib.util import find_spec

import pytest

from cxc_eccv.cli.app import main

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
pytestmark = pytest.mark.skipif(not HAS_TRAIN, reason="the train extra is not installed")
SCRIPTS = ("char-gru", "dual-encoder", "entailment-classifier")


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_training_scripts_list_their_own_options(name, helped):
    text = helped(main, "cxc-eccv", "train", name)
    assert f"usage: cxc-eccv train {name} [OPTIONS]" in text
    for option in ("--train-on", "--report-on", "--output-dir", "--data-dir"):
        assert f"  {option}" in text
    assert "(default: " in text
    assert not re.search(r"\(default:\s+(None|\[\])\)", text)
    assert not re.search(r"--\w*_", text)
    assert "  --resume, --no-resume\n" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("char-gru --epoch-count 3", "unknown options: --epoch-count 3; --help lists the options"),
        ("char-gru --report-on t2i", "cxc-eccv: UnknownName: unknown split 't2i'"),
        ("dual-encoder --no-pretraining --mode t2i", "cxc-eccv: UnknownName: unknown mode 't2i'"),
        ("entailment-classifier --report-on t2i", "cxc-eccv: UnknownName: unknown corpus of labelled pairs 't2i'"),
    ],
)
def test_a_wrong_option_of_a_training_script_is_told_in_one_message(arguments, message, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments.split(), "--output-dir", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
