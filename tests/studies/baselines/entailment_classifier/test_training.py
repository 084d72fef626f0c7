"""Whole training runs of the classifier of entailment on the embedded sample, and the parts of its script."""

import copy
import json
import shutil
import warnings

import numpy as np
import pyarrow as pa
import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import BertConfig, BertModel, ViTConfig, ViTModel

from cxc_eccv.cli.app import main
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError, UnknownName
from cxc_eccv.sources.download import sample_images
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderModel
from cxc_eccv.studies.baselines.entailment_classifier.data import (
    LengthSampler,
    PairCollator,
    PairItems,
    caption_images,
    hold_out,
)
from cxc_eccv.studies.baselines.entailment_classifier.loss import EntailmentTrainer, settle, soft_targets
from cxc_eccv.studies.baselines.entailment_classifier.model import make_model
from cxc_eccv.studies.baselines.entailment_classifier.options import (
    DataOptions,
    LossOptions,
    ModelOptions,
    TrainingOptions,
)
from cxc_eccv.studies.baselines.entailment_classifier.script import remember, train
from cxc_eccv.studies.entailment.classifier import EntailmentConfig
from cxc_eccv.studies.entailment.labelled import read_labelled, seen_by
from cxc_eccv.studies.entailment.measures import choose_threshold, measure_classifier
from cxc_eccv.studies.entailment.scoring import load_classifier
from cxc_eccv.studies.entailment.training_data import load_training_data
from cxc_eccv.studies.trainers.trainer import WholeTrainer

# Runs this short may learn nothing that a threshold could be chosen by, which is said.
pytestmark = [pytest.mark.filterwarnings("ignore:held-out pairs"), pytest.mark.thorough]

MODEL = ["--text-model", "sample", "--visual-text-model", "sample", "--image-model", "sample"]
COMMON = ["--data-dir", "sample", "--use-cpu", "--learning-rate", "1e-3"]
COMMON += ["--per-device-train-batch-size", "32", "--held-out", "12"]
RUN = [*MODEL, *COMMON, "--images", "sample", "--train-on", "cxc/val", "coco/val", "--num-train-epochs", "2"]
TEXT = [*COMMON, "--branches", "text", "--text-model", "sample", "--train-on", "cxc/val", "coco/val"]
TEXT += ["--num-train-epochs", "1"]
TINY = {"text_model": "sample", "visual_text_model": "sample", "image_model": "sample"}


def weights(folder):
    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "classifier"
    return folder, train([*RUN, "--output-dir", str(folder), "--report-on", "cxc/test"])


def test_defaults_are_the_papers(tmp_path):
    training = TrainingOptions(output_dir=str(tmp_path), use_cpu=True)
    assert (training.learning_rate, training.weight_decay, training.num_train_epochs) == (2e-5, 0.02, 5)
    assert (training.per_device_train_batch_size, training.head_learning_rate) == (96, None)
    assert training.optim.startswith("adamw")
    objective = LossOptions()
    assert objective == LossOptions(masking=True, mask_ratio=0.4, mask_share=0.25, soft_labels=0)
    assert (ModelOptions().choose_branches("val2014").branches, ModelOptions().head) == ("both", "softmax")
    assert not DataOptions().allow_test_data


def test_saved_classifier_scores_as_its_report(whole_run):
    folder, trained = whole_run
    classifier = load_classifier(folder, device="cpu")
    pairs = read_labelled("cxc/test", Library("sample"), images=str(sample_images()))
    said = classifier.score(*pairs.ask(classifier, str(sample_images())), progress=False)
    assert said == pytest.approx(trained.pairs.probabilities, abs=1e-6)
    rates = measure_classifier(pairs.labels, said, classifier.model.config.threshold, pairs.images)
    assert [rate.value for rate in rates] == [rate.value for rate in trained.pairs.report.rates]


def test_half_precision_report_equals_the_saved_model(tmp_path):
    trained = train([*TEXT, "--bf16", "--output-dir", str(tmp_path), "--report-on", "cxc/test"])
    classifier = load_classifier(tmp_path, device="cpu")
    pairs = read_labelled("cxc/test", Library("sample"))
    said = classifier.score(*pairs.ask(classifier, None), progress=False)
    assert said == pytest.approx(trained.pairs.probabilities, abs=1e-6)


def test_printed_scoring_command_runs(whole_run):
    assert [status(command) for command in whole_run[1].scoring] == [0]


def test_every_report_names_the_training_data(whole_run):
    folder, trained = whole_run
    record = load_classifier(folder, device="cpu").model.config.training_data
    assert (record["trained_on_val"], record["trained_on_test"]) == (True, False)
    assert record["parts"] == ["cxc/val", "coco/val"]
    assert record["trained"] + record["held_out"] + record["beside_held_out"] == record["pairs"]
    assert record["held_out"] > 0
    assert "Trained on val data" in trained.pairs.report.cautions[0]
    assert "Trained on val data" in trained.about


def test_classifier_knows_its_training_pairs(whole_run, sample_library):
    """A report on them warns of lower numbers on other pairs."""
    folder, trained = whole_run
    classifier = load_classifier(folder, device="cpu")
    seen = seen_by(classifier)
    record = classifier.model.config.training_data
    pairs = read_labelled("cxc/val", sample_library).table
    uses = {use: int(found.sum()) for use, found in seen.among(pairs).items()}
    assert seen.complete
    assert 0 < uses["held_out"] <= record["held_out"]  # some have the words of a pair that is trained on
    assert not any(found.any() for found in seen.among(read_labelled("cxc/test", sample_library).table).values())
    assert not any("expect lower numbers" in caution for caution in trained.pairs.report.cautions)
    assert "expect lower numbers" in seen.warn(pairs)[0]


def test_test_data_needs_permission_and_is_recorded(tmp_path, capsys):
    command = ["train", "entailment-classifier", *TEXT, "--train-on", "cxc/test", "coco/test"]
    command += ["--output-dir", str(tmp_path / "it")]
    assert status(command) != 0
    assert "--allow-test-data" in capsys.readouterr().err
    assert status([*command, "--allow-test-data", "--report-on", "cxc/val"]) == 0
    printed = capsys.readouterr()
    assert "Trained on test data" in printed.out
    assert "training on 287 pairs, 33 held out" in printed.err
    assert "Left out: 63 (pairs of an image with its own caption)" in printed.err
    card = ModelCard.load(tmp_path / "it" / "README.md")
    assert "pipeline_tag" not in card.data.to_dict()  # none of transformers takes a premise and a hypothesis
    assert "textual-entailment" in card.data.tags
    assert all(words in card.text for words in ("Trained on test data", "| Accuracy |", "cxc-eccv entailment score"))
    assert str(tmp_path) not in card.content
    report = json.loads((tmp_path / "it" / "report" / "report.json").read_text())
    assert report["provenance"]["training_data"]["trained_on_test"] is True
    command = ["entailment", "score", "cxc/val", "--model", str(tmp_path / "it"), "--data-dir", "sample"]
    assert status(command) == 0
    assert "Trained on test data" in capsys.readouterr().out


def status(words):
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    return ended.value.code


def test_threshold_and_calibration_use_held_out_pairs():
    """The saved threshold passes what the chosen difference of logits passes."""
    config = EntailmentConfig()
    leads = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 3.0])
    labels = np.array([0.0, 0, 1, 0, 1, 1])
    settle(config, leads, labels, DataOptions())
    assert config.calibration_scale > 0
    probabilities = 1 / (1 + np.exp(-(config.calibration_scale * leads + config.calibration_offset)))
    # What the saved threshold lets through is what the chosen difference of logits did.
    assert ((probabilities >= config.threshold) == (leads >= choose_threshold(leads, labels))).all()
    settle(config, leads, labels, DataOptions(precision=0.6))
    assert (probabilities >= config.threshold).sum() == 4


@pytest.mark.parametrize("why", ["--precision", "calibration failed"])
def test_defaults_stay_where_no_threshold_is_possible(why):
    config = EntailmentConfig()
    leads = np.array([-3.0, -2.0, 1.0, 2.0, 3.0])
    if why == "--precision":
        with pytest.warns(UserWarning, match=r"no threshold reaches a precision of 0\.9.* stays 0\.5"):
            settle(config, leads, np.array([0.0, 0, 1, 1, 0]), DataOptions(precision=0.9))
    else:
        with pytest.warns(UserWarning, match=r"do not score higher.* stays 0\.5"):
            settle(config, leads, np.array([1.0, 1, 0, 0, 0]), DataOptions())
    assert (config.threshold, config.calibration_scale, config.calibration_offset) == (0.5, 1.0, 0.0)


def test_interrupted_run_resumes_to_the_same_result(whole_run, tmp_path):
    """Resuming with other options is refused."""
    folder, _ = whole_run
    first = min(folder.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    shutil.copytree(first, tmp_path / first.name)
    shutil.copy(folder / "run.json", tmp_path)
    train([*RUN, "--output-dir", str(tmp_path)])
    for name, value in weights(tmp_path).items():
        assert torch.equal(value, weights(folder)[name]), name
    with pytest.raises(CheckpointMismatch, match=r"soft_labels was 0\.0 and is 2\.0"):
        train([*RUN, "--soft-labels", "2", "--output-dir", str(tmp_path)])


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"branches": "text"}, (True, False, False)),
        ({"branches": "visual"}, (False, True, False)),
        ({"shared_text_encoder": True}, (False, True, True)),
    ],
)
def test_ablations_of_the_model(options, parts):
    found = make_model(ModelOptions(**TINY, **options), LossOptions())[0].config
    assert (found.text_config is not None, found.has_visual, found.shared_text) == parts


def test_ablations_of_the_objective_and_the_head():
    tiny = ModelOptions(**TINY, head="sigmoid")
    config = make_model(tiny, LossOptions(masking=False))[0].config
    assert (config.mask_share, config.head) == (0, "sigmoid")
    config = make_model(tiny, LossOptions(mask_share=0.5, mask_ratio=0.3))[0].config
    assert (config.mask_share, config.mask_ratio) == (0.5, 0.3)


NO_CHOICE = ["--eval-strategy", "no", "--no-load-best-model-at-end"]
NOTHING_CHOSEN = ["--held-out", "0", *NO_CHOICE]


def test_continued_classifier_remembers_earlier_training_data(whole_run, tmp_path, sample_library):
    folder, _ = whole_run
    start = tmp_path / "start"
    shutil.copytree(folder, start, ignore=shutil.ignore_patterns("checkpoint-*"))
    edit_config(start, threshold=0.3, calibration_scale=7.0, calibration_offset=2.0)
    command = [*COMMON, "--images", "sample", "--train-on", "coco/train", "--max-steps", "1", *NOTHING_CHOSEN]
    command += ["--pretrained", str(start), "--learning-rate", "0"]
    with pytest.warns(UserWarning, match=r"the threshold stays 0\.5, without calibration"):
        trained = train([*command, "--output-dir", str(tmp_path / "end")])
    for name, value in weights(tmp_path / "end").items():
        assert torch.equal(value, weights(folder)[name]), name
    config = load_classifier(tmp_path / "end", device="cpu").model.config
    # What was chosen for the weights that it went on from is not for these.
    assert (config.threshold, config.calibration_scale, config.calibration_offset) == (0.5, 1.0, 0.0)
    pairs = read_labelled("cxc/val", sample_library).table
    assert seen_by(load_classifier(tmp_path / "end", device="cpu")).among(pairs)["trained"].any()
    record = config.training_data
    assert (record["parts"], record["before"]["parts"]) == (["coco/train"], ["cxc/val", "coco/val"])
    assert (record["holds"], record["trained_on_val"], record["trained_on_test"]) == ({}, True, False)
    assert "The model it started from: trained on val data" in trained.about


def test_start_without_record_is_recorded_as_unknown():
    known = {"trained_on_test": False, "trained_on_val": True}
    assert remember(known, None) == known | {"before": None}


def edit_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))


def test_nan_loss_ends_the_run(tmp_path):
    options = ["--learning-rate", "1e30", "--max-grad-norm", "0", "--output-dir", str(tmp_path)]
    with pytest.raises(ModelError, match=r"step 2: the loss is nan\. Start a new run with a lower learning rate"):
        train([*TEXT, *options])


def test_pairs_that_are_cut_in_training_are_counted(tmp_path, monkeypatch):
    from cxc_eccv.studies.baselines.entailment_classifier import sample

    monkeypatch.setattr(sample, "SAMPLE_CONTEXT", 24)
    with pytest.warns(UserWarning, match=r"of \d+ pairs to train on are longer than the context"):
        train([*TEXT, "--max-steps", "1", *NO_CHOICE, "--output-dir", str(tmp_path)])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ("--train-on cxc_st/val", UnknownName, "cxc_sts"),
        ("--report-on cxc/tests", UnknownName, "cxc/test"),
        ("--soft-labels -1", InvalidOption, "--soft-labels -1"),
        ("--held-out 1000", InvalidOption, "hold out fewer"),
        ("--held-out 0", InvalidOption, "no pairs are held out"),
        ("--no-text-data", InvalidOption, "of kind text, which this run does not use"),
    ],
)
def test_bad_arguments_are_named(tmp_path, options, error, words):
    with pytest.raises(error, match=words):
        train([*TEXT, *options.split(), "--output-dir", str(tmp_path)])


def test_held_out_images_have_no_training_pairs():
    library = Library("sample")
    data = load_training_data(library, ["cxc/val", "cxc_sts/val", "coco/val"]).pairs
    owners = caption_images(library)
    trained, held = hold_out(data, "cxc", 5, owners, 3)
    assert set(held["source"].to_pylist()) == {"cxc"}
    drawn = {tuple(row) for row in zip(*(held[name].to_pylist() for name in ("image_key", "caption_key")), strict=True)}
    images = {image for image, _ in drawn} | {owners[caption] for _, caption in drawn}
    kept = {owners[key] for key in trained["caption_key"].to_pylist()} | set(trained["image_key"].to_pylist())
    # Held out are the pairs that touch five images; those are in no pair that is trained on, whatever its corpus.
    assert len(images - kept) == 5
    assert all(image not in kept or owners[caption] not in kept for image, caption in drawn)
    assert hold_out(data, "cxc", 5, owners, 3)[1].equals(held)
    assert not hold_out(data, "cxc", 5, owners, 4)[1].equals(held)
    assert hold_out(data, "cxc", 0, owners, 3)[0].num_rows == data.num_rows


def test_soft_targets_follow_rating_else_label():
    pairs = pa.table({"label": [0, 1, 1], "rating": [2.5, 3.5, None]})
    assert soft_targets(pairs, 2.0) == pytest.approx([1 / (1 + np.e), np.e / (1 + np.e), 1.0])
    assert soft_targets(pairs, 0.0) == [0.0, 1.0, 1.0]


def test_sampler_batches_pairs_of_similar_length():
    """Each epoch has every pair once, in another order."""
    lengths = np.random.default_rng(0).integers(10, 300, 1_003)
    sampler = LengthSampler(lengths, 8, seed=5)
    first = list(sampler)
    assert sorted(first) == list(range(1_003))
    assert list(sampler) == first
    sampler.epoch = 1
    assert list(sampler) != first
    spans = [np.ptp(lengths[first[start : start + 8]]) for start in range(0, 1_000, 8)]
    assert np.mean(spans) < 15


@pytest.fixture(scope="module")
def text_only():
    return make_model(ModelOptions(branches="text", text_model="sample"), LossOptions())


@pytest.fixture
def one_pair():
    table = pa.table({"premise": ["a red heart"], "hypothesis": ["a heart"], "image": pa.array([None], pa.string())})
    return PairItems(table, [1.0], {})


def test_padding_does_not_change_the_logits(text_only, one_pair):
    """Batches are padded to few lengths."""
    model, processor = text_only
    batch = PairCollator(processor, looks=False)([one_pair[0]])
    assert batch["input_ids"].shape == batch["attention_mask"].shape == (1, 16)
    plain = processor(["a red heart"], None, ["a heart"], [1.0])
    with torch.no_grad():
        assert torch.allclose(model.eval()(**batch).logits, model(**plain).logits, atol=1e-6)


def test_padding_uses_the_encoders_padding_token(text_only, one_pair):
    """RoBERTa's is 1, and its positions are counted by it: 0 would be read as a word."""
    processor = copy.deepcopy(text_only[1])
    processor.tokenizer.pad_token = "[SEP]"
    batch = PairCollator(processor, looks=False)([one_pair[0]])
    padding = batch["input_ids"][batch["attention_mask"] == 0]
    assert len(padding)
    assert set(padding.tolist()) == {processor.tokenizer.pad_token_id} != {0}


def plain_training(folder, **options):
    never = {"use_cpu": True, "eval_strategy": "no", "load_best_model_at_end": False}
    return TrainingOptions(output_dir=str(folder), **never, **options)


def test_an_evaluation_leaves_the_model_in_training(text_only, one_pair, tmp_path):
    model, processor = text_only
    collate = PairCollator(processor, looks=False)
    options = {"model": model, "args": plain_training(tmp_path), "data_collator": collate}
    trainer = EntailmentTrainer(held=None, threshold_for="f_half", **options)
    for training in (True, False):
        model.train(training)
        trainer.leads(one_pair)
        assert model.training is training


def test_new_layers_have_their_own_learning_rate(text_only, tmp_path):
    model = text_only[0]
    training = plain_training(tmp_path, learning_rate=1e-5, head_learning_rate=1e-3)
    trainer = EntailmentTrainer(held=None, threshold_for="f_half", model=model, args=training)
    rates = {id(value): group["lr"] for group in trainer.create_optimizer().param_groups for value in group["params"]}
    for name, value in model.named_parameters():
        assert rates[id(value)] == (1e-3 if name.startswith("text_head") else 1e-5), name
    decays = {id(value): group["weight_decay"] for group in trainer.optimizer.param_groups for value in group["params"]}
    named = dict(model.named_parameters())
    assert decays[id(named["text_head.1.weight"])] == 0.02
    assert decays[id(named["text_head.1.bias"])] == 0


def test_checkpoints_of_renamed_backbones_are_taken_up_whole(tmp_path):
    """ViT's weights are written under older names, which plain loading leaves aside with a warning."""
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    text = BertModel(BertConfig(vocab_size=9, **size))
    image = ViTModel(ViTConfig(image_size=8, patch_size=4, **size))
    saved = DualEncoderModel.from_backbones(text, image, freeze_text=False)
    saved.save_pretrained(tmp_path)
    assert set(weights(tmp_path)) != set(saved.state_dict())
    other = DualEncoderModel.from_backbones(BertModel(text.config), ViTModel(image.config), freeze_text=False)
    trainer = WholeTrainer(model=other, args=plain_training(tmp_path / "out"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trainer.read_weights(str(tmp_path))
    for name, value in other.state_dict().items():
        assert torch.equal(value, saved.state_dict()[name]), name
