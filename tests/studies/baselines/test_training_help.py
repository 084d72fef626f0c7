"""The --help and the usage errors of the training scripts."""

from importlib.util import find_spec

import pytest

from cxc_eccv.cli.app import main

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
pytestmark = pytest.mark.skipif(not HAS_TRAIN, reason="the train extra is not installed")


@pytest.mark.parametrize("name", ["char-gru", "dual-encoder", "entailment-classifier"])
def test_help_lists_the_options_of_a_script(name, helped):
    text = helped(main, "cxc-eccv", "train", name)
    assert f"Usage: cxc-eccv train {name} [OPTIONS]" in text
    for option in ("--train-on", "--report-on", "--output-dir", "--data-dir"):
        assert option in text
    assert "Default: " in text
    assert text.count("\n  --") <= 40
    assert ("TrainingArguments" in text) == (name != "char-gru")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("char-gru --epoch-count 3", "unknown options: --epoch-count 3; --help lists the options"),
        ("char-gru --report-on t2i", "invalid choice: 't2i' "),
        ("char-gru --preset flickr", "invalid choice: 'flickr'"),
        ("dual-encoder --no-pretraining --mode t2i", "invalid choice: 't2i'"),
        ("dual-encoder --loss sofmax", "invalid choice: 'sofmax'"),
        ("dual-encoder --held_out few", "invalid int value: 'few'"),
        ("entailment-classifier --branches texts", "invalid choice: 'texts'"),
        ("entailment-classifier --report-on t2i", "cxc-eccv: UnknownName: unknown corpus of labelled pairs 't2i'"),
    ],
)
def test_wrong_option_ends_with_one_message(arguments, message, capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        main(["train", *arguments.split(), "--output-dir", str(tmp_path / "out")])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
