"""What a run is trained on: branches by what there is to learn from, kinds of pairs, and pairs that choose."""

import shlex

import numpy as np
import pytest

from cxc_eccv.cli.app import main
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.entailment_classifier.data import caption_images, keep_apart, read_pairs
from cxc_eccv.studies.baselines.entailment_classifier.model import make_model
from cxc_eccv.studies.baselines.entailment_classifier.options import DataOptions, LossOptions, ModelOptions
from cxc_eccv.studies.baselines.entailment_classifier.script import find_scorable
from cxc_eccv.studies.entailment.training_data import load_training_data
from cxc_eccv.studies.trainers.options import CommandLine

TINY = {"text_model": "sample", "visual_text_model": "sample", "image_model": "sample"}


@pytest.fixture(scope="module")
def library():
    return Library("sample")


@pytest.fixture(scope="module")
def both():
    return make_model(ModelOptions(**TINY), LossOptions())[0].config


def read(library, config, **options):
    return read_pairs(library, DataOptions(**{"train_on": ["cxc/val", "coco/val"], **options}), 0, config)


def kinds(table):
    return dict(zip(*np.unique(table["kind"].to_pylist(), return_counts=True), strict=True))


def test_without_images_only_text_branch_is_trained():
    """A warning says that the visual branch is not trained."""
    assert ModelOptions().choose_branches("val2014").branches == "both"
    with pytest.warns(UserWarning, match="without --images only the text branch is trained"):
        assert ModelOptions().choose_branches(None).branches == "text"
    assert ModelOptions(branches="text").choose_branches(None).branches == "text"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"branches": "both"}, "--branches both trains a visual branch, which needs images"),
        ({"branches": "visual"}, "--branches visual"),
        ({"shared_text_encoder": True}, "--shared-text-encoder trains a visual branch"),
    ],
)
def test_a_visual_branch_without_images_is_refused(options, words):
    with pytest.raises(InvalidOption, match=words):
        ModelOptions(**options).choose_branches(None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        # Also what a classifier with both branches is given that a run goes on from.
        ({"images": None}, "trains the visual branch and the gate with the joint head: all pairs are text"),
        ({"train_on": ["cxc_sts/val"]}, "trains the visual branch and the gate with the joint head: all pairs are"),
        ({"used_as": ["cxc=text", "coco=visual"]}, "trains the gate with the joint head: all pairs are text or vis"),
        ({"used_as": ["visual"]}, "trains the text branch and the gate with the joint head: all pairs are visual"),
    ],
)
def test_model_part_without_training_data_is_refused(library, both, options, words):
    with pytest.raises(InvalidOption, match=words):
        read(library, both, **{"images": "sample", **options})


def run(words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:held-out pairs", "ignore:without --images")
def test_the_command_that_is_printed_runs(tmp_path, capsys):
    command = "train entailment-classifier --data-dir sample --use-cpu --text-model sample --max-steps 1"
    folder = str(tmp_path / "it")
    assert run([*command.split(), "--train-on", "cxc/val", "--held-out", "12", "--output-dir", folder]) == 0
    told = capsys.readouterr().out
    printed = [line.strip() for line in told.partition("score it:")[2].splitlines() if "cxc-eccv entailment" in line]
    assert len(printed) == 1
    assert run(shlex.split(printed[0])[1:]) == 0
    assert "Accuracy" in capsys.readouterr().out


def test_suggested_test_part_has_its_images(library, both, tmp_path):
    """Where the images are missing, the printed command has placeholders."""
    assert find_scorable(library, DataOptions(images="sample"), both) == ("cxc/test", "sample")
    assert find_scorable(library, DataOptions(images=str(tmp_path)), both) == ("PAIRS", "THEIR_IMAGES")


def test_corpus_is_used_as_the_requested_kinds(library):
    """A pair that is used twice is counted twice."""
    names = ["cxc/val", "coco/val"]
    plain = load_training_data(library, names, images="sample")
    used = {"cxc": ["visual", "multimodal"], "coco": ["text"]}
    data = load_training_data(library, names, images="sample", used_as=used)
    sizes = [plain.provenance["sources"][name]["pairs"] for name in names]
    assert kinds(data.pairs) == {"visual": sizes[0], "multimodal": sizes[0], "text": sizes[1]}
    assert data.provenance["sources"]["cxc/val"]["kinds"] == {"visual": sizes[0], "multimodal": sizes[0]}
    rows = data.pairs.to_pylist()
    wanted = plain.pairs.to_pylist()
    assert rows[: sizes[0]] == [row | {"kind": "visual", "premise": ""} for row in wanted[: sizes[0]]]
    assert rows[sizes[0] : 2 * sizes[0]] == wanted[: sizes[0]]
    assert rows[2 * sizes[0] :] == [row | {"kind": "text", "image": None} for row in wanted[sizes[0] :]]
    # What is trained on twice is counted twice, as in pairs.
    assert data.provenance["holds"]["coco/val"] == data.provenance["pairs"] == len(rows)


def test_pairs_unfit_for_kind_are_refused(library):
    with pytest.raises(InvalidOption, match=r"cxc/val as visual: no pair has an image as premise\. No folder of"):
        load_training_data(library, ["cxc/val"], used_as={"cxc": ["visual"]})
    with pytest.raises(InvalidOption, match="cxc_sts/val as multimodal: no pair has captions and an image as premise"):
        load_training_data(library, ["cxc_sts/val"], images="sample", used_as={"cxc_sts": ["multimodal"]})


def test_names_in_as_are_checked():
    command = ["--train-on", "cxc/val", "--as", "cxc=visual,multimodal"]
    assert CommandLine("classifier", DataOptions).read(command).kinds() == {"cxc": ["visual", "multimodal"]}
    given = DataOptions(["cxc/val"], used_as=["cxc=visual, multimodal,visual"], dev="coco/val").kinds()
    assert given == {"cxc": ["visual", "multimodal"]}
    assert DataOptions(["cxc/val"], used_as=["text"], dev="coco/val").kinds() == {"cxc": ["text"], "coco": ["text"]}
    with pytest.raises(UnknownName, match="did you mean 'visual'"):
        DataOptions(["cxc/val"], used_as=["cxc=visaul"]).kinds()
    with pytest.raises(UnknownName, match="did you mean 'cxc'"):
        DataOptions(["cxc/val"], used_as=["cxx=visual"]).kinds()


def test_dev_part_replaces_held_out_images(library, both):
    found = read(library, both, train_on=["coco/train", "coco/val"], dev="cxc/dev", images="sample")
    dev = load_training_data(library, ["cxc/val"], images="sample").pairs
    assert found.held.equals(dev)
    # Pairs of the other parts with an image that chooses are left out.
    assert set(found.trained["image_key"].to_pylist()).isdisjoint(dev["image_key"].to_pylist())
    facts = found.provenance
    assert (facts["dev"], facts["held_out"]) == ("cxc/dev", dev.num_rows)
    assert facts["trained"] + facts["held_out"] + facts["beside_held_out"] == facts["pairs"]
    assert facts["trained_on_val"]
    # Also beside pairs of a kind that is left out.
    part = {"train_on": ["coco/train", "coco/val"], "used_as": ["coco=text,multimodal"], "text_data": False}
    assert read(library, both, **part, dev="cxc/dev", images="sample").held.equals(dev)


def test_dev_part_with_all_images_is_refused(library, both):
    with pytest.raises(InvalidOption, match="all pairs to train on have an image of --dev"):
        read(library, both, train_on=["cxc/val"], dev="coco/val", images="sample")


def test_pairs_without_keys_stay_in_training(library):
    pairs = load_training_data(library, ["cxc/val", "cxc_sts/val"]).pairs
    nameless = pairs.set_column(7, "image_key", [[None] * pairs.num_rows]).set_column(
        8, "caption_key", [[None] * pairs.num_rows]
    )
    dev = np.arange(pairs.num_rows) < 5
    trained, held = keep_apart(nameless, dev, caption_images(library))
    assert (trained.num_rows, held.num_rows) == (pairs.num_rows - 5, 5)


def test_dev_and_what_else_chooses_are_not_mixed():
    with pytest.raises(InvalidOption, match="--dev and --held-out both choose"):
        DataOptions(dev="coco/val", held_out=3).check()
    with pytest.raises(InvalidOption, match="--dev cxc/dev is also in --train-on"):
        DataOptions(dev="cxc/dev").check()
