"""Options that shape a run, and options that do not."""

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    not all(find_spec(name) for name in ("torch", "transformers", "accelerate")),
    reason="the train extra is not installed",
)
if find_spec("transformers"):
    from cxc_eccv.studies.baselines.char_gru.options import COMMAND as CHAR_GRU
    from cxc_eccv.studies.baselines.dual_encoder.options import COMMAND as DUAL_ENCODER
    from cxc_eccv.studies.baselines.entailment_classifier.options import COMMAND as CLASSIFIER
    from cxc_eccv.studies.trainers.resuming import identify_run


def identity(command, *options):
    read = command.read(["--output-dir", "run", *options])
    return identify_run(read) if command is CHAR_GRU else read.identity


@pytest.mark.parametrize(
    "options",
    [
        ("--output-dir", "other"),
        ("--data-dir", "sample"),
        ("--report-on", "test"),
        ("--intervals", "none"),
        ("--image-features", "absent.npz", "--captions", "5", "--highest-rate", "1e-3"),
        ("--epochs", "64"),
        ("--ensemble", "3"),
    ],
)
def test_char_gru_ignores_options_without_weight(options):
    assert identity(CHAR_GRU, *options) == identity(CHAR_GRU)


@pytest.mark.parametrize(
    "options", [("--seed", "1"), ("--margin", "0.3"), ("--cycle-epochs", "2"), ("--captions", "2")]
)
def test_char_gru_is_identified_by_its_options(options):
    assert identity(CHAR_GRU, *options) != identity(CHAR_GRU)


@pytest.mark.parametrize(
    ("options", "differs"),
    [
        (("--report-on", "test"), False),
        (("--images", "photographs"), False),
        (("--logging-steps", "3"), False),
        (("--dataloader-num-workers", "2"), False),
        (("--margin", "0.5"), False),  # of the triplet losses
        (("--loss", "triplet_all"), True),
        (("--learning-rate", "1"), True),
        (("--chunk-size", "8"), True),
        (("--stage", "pretrain"), True),  # by what it sets
        (("--held-out", "3"), True),
    ],
)
def test_dual_encoder_is_identified_by_what_shapes_it(options, differs):
    plain = ("--no-pretraining", "--use-cpu")
    assert (identity(DUAL_ENCODER, *plain, *options) != identity(DUAL_ENCODER, *plain)) == differs


@pytest.mark.parametrize(
    ("options", "differs"),
    [
        (("--report-on", "cxc/test"), False),
        (("--precision", "0.9"), False),
        (("--images", "photographs"), True),
        (("--head-learning-rate", "1e-3"), True),
        (("--soft-labels", "1"), True),
    ],
)
def test_classifier_is_identified_by_what_shapes_it(options, differs):
    assert (identity(CLASSIFIER, "--use-cpu", *options) != identity(CLASSIFIER, "--use-cpu")) == differs


def test_classifiers_of_two_image_folders_are_one_run():
    folders = [identity(CLASSIFIER, "--use-cpu", "--images", folder) for folder in ("one", "two")]
    assert folders[0] == folders[1]


def test_option_lists_are_not_shared():
    first = CHAR_GRU.read(["--output-dir", "run"])
    first.train_on.append("coco/test")
    assert "coco/test" not in CHAR_GRU.read(["--output-dir", "run"]).train_on
