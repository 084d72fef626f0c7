"""Whole training runs on the embedded sample: schedule, selection, going on, bad input, other models, two processes."""

import json
import shutil
import sys
from types import SimpleNamespace

import pytest
import tiny_models
import torch
from dual_encoder_models import model, text_pairs, text_trainer
from safetensors.torch import load_file
from torchrun import torchrun
from transformers import (
    AutoModel,
    AutoProcessor,
    SiglipModel,
    SiglipProcessor,
    VisionTextDualEncoderProcessor,
    pipeline,
)

from cxc_eccv.encoding import encode
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError, TowerMissing, UnknownName
from cxc_eccv.sources.download import sample_images
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.data import PairReader
from cxc_eccv.studies.baselines.dual_encoder.loss import DualEncoderTrainer, Objective, staircase
from cxc_eccv.studies.baselines.dual_encoder.options import (
    DataOptions,
    ModelOptions,
    TrainingOptions,
)
from cxc_eccv.studies.baselines.dual_encoder.script import make_model, train
from cxc_eccv.studies.trainers.trainer import EpochCallback

pytestmark = pytest.mark.thorough

SAMPLE = ["--data-dir", "sample", "--use-cpu", "--learning-rate", "1e-3"]
SAMPLE += ["--train-on", "coco/train", "coco/restval"]
BACKBONES = ["--no-pretraining", "--text-model", "sample", "--image-model", "sample", "--train-text-model"]
LAYERS = ["--extra-layers", "1", "--extra-feed-forward", "32", "--normalize", "--scale", "10", "--loss", "softmax"]
IMAGES = ["--images", "sample"]
NO_SCORES = ["--eval-strategy", "no", "--save-strategy", "no", "--no-load-best-model-at-end"]


def weights(folder):
    return load_file(folder / "model.safetensors")


def log(folder, key):
    return [row[key] for row in json.loads((folder / "trainer_state.json").read_text())["log_history"] if key in row]


def test_defaults_are_the_papers(tmp_path):
    options = {"output_dir": str(tmp_path), "use_cpu": True}
    fine = TrainingOptions(**options)
    first = TrainingOptions(stage="pretrain", **options)
    assert (fine.learning_rate, first.learning_rate) == (5e-6, 1e-4)
    assert (fine.adam_beta1, fine.adam_beta2, fine.weight_decay) == (0.9, 0.999, 0.0)
    assert fine.per_device_train_batch_size == 64
    assert (fine.metric_for_best_model, fine.greater_is_better) == ("recall_at_10", True)
    assert (fine.max_grad_norm, first.max_grad_norm) == (0, 0)
    assert (fine.max_steps, fine.num_train_epochs, first.max_steps) == (-1, 3, 30_000)
    longer = TrainingOptions(stage="pretrain", num_train_epochs=2, **options)
    assert (longer.max_steps, longer.num_train_epochs) == (-1, 2)
    assert DataOptions().train_on == ["coco/train"]


def trainer_of(folder, **options):
    """A trainer of a tiny text model on twelve groups of captions, and its model before any step."""
    return text_trainer(folder, text_pairs(12), Objective("t2t", "softmax"), **options), model(freeze_text=False)


@pytest.mark.parametrize("clip", [None, 0.01])
def test_accumulated_steps_use_the_mean_gradient(tmp_path, clip):
    """Gradients are clipped only on request."""
    options = {} if clip is None else {"max_grad_norm": clip}
    trainer, start = trainer_of(tmp_path, gradient_accumulation_steps=3, max_steps=1, **options)
    start.train()
    for batch in trainer.get_train_dataloader():
        trainer.compute_loss(start, dict(batch)).backward()
    trainer.train()
    gradients = {name: one.grad / 3 for name, one in start.named_parameters() if one.grad is not None}
    norm = torch.sqrt(sum(one.square().sum() for one in gradients.values()))
    assert norm > 0.1
    factor = 1 if clip is None else clip / norm
    before = dict(start.named_parameters())
    after = dict(trainer.model.named_parameters())
    for name, gradient in gradients.items():
        torch.testing.assert_close(after[name], before[name] - 0.5 * factor * gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("data_seed", "expected"), [(None, 42), (0, 0), (7, 7)])
def test_data_seed_sets_the_order_of_images(tmp_path, data_seed, expected):
    trainer, _ = trainer_of(tmp_path, data_seed=data_seed)
    assert trainer.get_train_dataloader().batch_sampler.sampler.seed == expected


@pytest.mark.parametrize(("reached", "epoch"), [(None, 0), (0.5, 0), (1.0, 1), (1.9999999, 2), (2.75, 2)])
def test_a_sampler_is_told_the_epoch_that_begins(reached, epoch):
    sampler = SimpleNamespace(epoch=None)
    EpochCallback(sampler).on_epoch_begin(None, SimpleNamespace(epoch=reached), None)
    assert sampler.epoch == epoch


def test_the_schedule_steps_down_every_1000_steps():
    parameter = torch.nn.Parameter(torch.zeros(1))
    trainer = DualEncoderTrainer.__new__(DualEncoderTrainer)
    trainer.paper_schedule = True
    trainer.lr_scheduler = None
    trainer.optimizer = torch.optim.Adam([parameter], lr=1e-4)
    assert trainer.create_scheduler(30_000).lr_lambdas == [staircase]
    assert [staircase(step) for step in (0, 999)] == [1, 1]
    assert [staircase(step) for step in (1000, 1999, 2999)] == pytest.approx([0.999, 0.999, 0.999**2])
    assert staircase(30_000) == pytest.approx(0.999**30)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Two epochs of two steps with dropout, a checkpoint after every epoch."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    command = [*SAMPLE, *BACKBONES, *LAYERS, *IMAGES, "--num-train-epochs", "2", "--per-device-train-batch-size", "30"]
    command += ["--logging-steps", "1"]
    trained = train([*command, "--report-on", "test", "--output-dir", str(folder)])
    return folder, command, trained


def test_validation_is_scored_whole_by_the_librarys_metrics(whole_run, sample_library):
    from cxc_eccv.evaluation import evaluate

    folder, _, _ = whole_run
    values = log(folder, "eval_recall_at_10")
    assert len(values) == 2
    content = sample_library.split("validation")
    paths = [sample_images() / name for name in content.images["file_name"].to_pylist()]
    best = folder / f"checkpoint-{2 * (1 + values.index(max(values)))}"
    loaded = AutoModel.from_pretrained(best)
    images = zip(content.image_ids.tolist(), paths, strict=True)
    options = {"processor": AutoProcessor.from_pretrained(best), "device": "cpu", "progress": False}
    run = encode(loaded, images=images, captions=content.captions, **options)
    scores = evaluate(run, "cxc", split="validation", data_dir=sample_library, progress=False).scores
    mean = sum(scores[f"cxc/{way}/recall_at_10"] for way in ("i2t", "t2i", "t2t")) / 3
    assert max(values) == pytest.approx(mean, abs=0.01)


def test_run_saves_scores_processor_and_data_record(whole_run):
    folder, _, trained = whole_run
    report = trained.report
    assert "cxc/i2t/recall_at_1" in report.scores
    assert report.per_query.num_rows > 0
    assert report.name == "whole"
    assert report.provenance.others["training"]["seed"] == 42
    similarity = report.provenance.similarity, report.provenance.similarity_from
    assert similarity == ("cosine", "the run")  # --normalize
    assert isinstance(AutoProcessor.from_pretrained(folder), VisionTextDualEncoderProcessor)
    assert AutoModel.from_pretrained(folder).config.training_data == {"holds": {}}
    assert "Trained on" not in trained.about


def test_report_on_the_selecting_split_says_so(whole_run):
    folder, command, trained = whole_run
    assert "selecting_split" not in trained.report.doubts
    report = train([*command, "--report-on", "validation", "--output-dir", str(folder)]).report
    values = log(folder, "eval_recall_at_10")
    best = 2 * (1 + values.index(max(values)))
    chosen = f"coco/val chose the weights (step {best} of 4, by recall_at_10)"
    assert report.doubts["selecting_split"].startswith(chosen)
    assert report.provenance.others["training"]["step_kept"] == best
    assert report.provenance.others["training"]["selection_data"] == "coco/val"


def check_continued(whole, step, folder, command):
    """From the checkpoint of a whole run, whose log is kept, training ends as that did."""
    shutil.copytree(whole / f"checkpoint-{step}", folder / f"checkpoint-{step}")
    shutil.copy(whole / "run.json", folder)
    path = folder / f"checkpoint-{step}" / "trainer_state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "log_history": [*state["log_history"], {"continued": step}]}))
    train([*command, "--output-dir", str(folder)])
    assert log(folder, "continued") == [step]
    assert log(folder, "loss") == log(whole, "loss")
    for name, value in weights(folder).items():
        assert torch.equal(value, weights(whole)[name]), name


def test_interrupted_run_resumes_to_the_same_result(whole_run, tmp_path, capsys):
    """An incomplete checkpoint is passed over with a warning."""
    folder, command, _ = whole_run
    (tmp_path / "checkpoint-4").mkdir()
    with pytest.warns(UserWarning, match="checkpoint-4 is incomplete"):
        check_continued(folder, 2, tmp_path, command)
    assert f"continuing from {tmp_path / 'checkpoint-2'}" in capsys.readouterr().err
    assert len(log(folder, "loss")) == 4


def test_ctrl_c_says_where_the_checkpoints_are(whole_run, tmp_path, monkeypatch):
    def interrupt(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("cxc_eccv.studies.trainers.trainer.WholeTrainer.training_step", interrupt)
    with pytest.raises(KeyboardInterrupt) as died:
        train([*whole_run[1], "--output-dir", str(tmp_path)])
    assert died.value.__notes__ == [
        f"Checkpoints saved so far are in {tmp_path}; the same command continues from the last one."
    ]


def test_in_the_middle_of_an_epoch_as_well(whole_run, tmp_path):
    _, command, _ = whole_run
    steps = [*command, "--save-strategy", "steps", "--save-steps", "1", "--eval-strategy", "no"]
    steps += ["--no-load-best-model-at-end"]
    train([*steps, "--output-dir", str(tmp_path / "whole")])
    check_continued(tmp_path / "whole", 3, tmp_path / "parts", steps)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12, about the threads of torch
def test_weights_do_not_depend_on_workers(whole_run, tmp_path, monkeypatch, capfd):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    folder, command, _ = whole_run
    command = [*command, "--dataloader-num-workers", "2"]
    check_continued(folder, 2, tmp_path / "parts", command)
    assert "huggingface/tokenizers" not in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_weights_from_start_do_not_depend_on_workers(whole_run, tmp_path):
    """By day the test above goes on with workers from the middle of a run without them."""
    folder, command, _ = whole_run
    train([*command, "--dataloader-num-workers", "2", "--output-dir", str(tmp_path)])
    for checkpoint in ("checkpoint-2", "checkpoint-4"):
        for name, value in weights(folder / checkpoint).items():
            assert torch.equal(value, weights(tmp_path / checkpoint)[name]), name


@pytest.mark.parametrize(("images", "workers"), [(0, 0), (999, 0), (1_000, 3), (100_000, 3)])
def test_workers_decode_where_there_are_images_enough(tmp_path, monkeypatch, images, workers):
    monkeypatch.setattr("cxc_eccv.studies.trainers.trainer.count_cores", lambda: 3)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    options = {"output_dir": str(tmp_path), "use_cpu": True}
    training, chosen = (TrainingOptions(**options, **more) for more in ({}, {"dataloader_num_workers": 1}))
    for arguments in (training, chosen):
        arguments.choose_workers(images)
    assert (training.dataloader_num_workers, training.dataloader_persistent_workers) == (workers, workers > 0)
    assert (chosen.dataloader_num_workers, chosen.dataloader_persistent_workers) == (1, True)


def test_another_run_does_not_go_on_from_it(whole_run):
    folder, command, _ = whole_run
    for option, change in (
        ("--scale 12", r"scale was 10\.0 and is 12\.0"),
        ("--max-grad-norm 1", r"max_grad_norm was 0\.0 and is 1\.0"),
        ("--no-dataloader-drop-last", "dataloader_drop_last was True and is False"),
    ):
        with pytest.raises(CheckpointMismatch, match=change):
            train([*command, *option.split(), "--output-dir", str(folder)])


@pytest.mark.parametrize(
    ("before", "words"),
    [(15, "a batch still has 30 items, and only dropout"), (30, "a batch has 30 items in place of 60, so an epoch")],
)
def test_a_run_resumes_on_another_number_of_processes(whole_run, tmp_path, capsys, before, words):
    folder, command, _ = whole_run
    shutil.copytree(folder, tmp_path / "run")
    record = tmp_path / "run" / "run.json"
    identity = json.loads(record.read_text())
    record.write_text(json.dumps({**identity, "world_size": 2, "per_device_train_batch_size": before}))
    shutil.rmtree(tmp_path / "run" / "checkpoint-4")
    train([*command, "--output-dir", str(tmp_path / "run")])
    assert f"this run had 2 processes and has 1: {words}" in capsys.readouterr().err
    assert json.loads(record.read_text()) == identity
    for name, value in weights(tmp_path / "run").items():
        assert torch.equal(value, weights(folder)[name]), name


@pytest.mark.parametrize("shards", ["pytorch_model_fsdp_0", "global_step4"])
def test_a_sharded_checkpoint_is_refused(whole_run, tmp_path, shards):
    folder, command, _ = whole_run
    (tmp_path / "checkpoint-4" / shards).mkdir(parents=True)
    shutil.copy(folder / "run.json", tmp_path)
    with pytest.raises(CheckpointMismatch, match=f"split among processes by FSDP or DeepSpeed .{shards}.*--pretrained"):
        train([*command, "--output-dir", str(tmp_path)])


def pairs_file(folder, count=60):
    """Images of the sample's train split with one caption each, as in Conceptual Captions."""
    table = Library("sample").split("train")
    names = dict(zip(table.image_ids.tolist(), table.images["file_name"].to_pylist(), strict=True))
    texts = dict(zip(table.captions["image_id"].to_pylist(), table.captions["text"].to_pylist(), strict=True))
    lines = [f"{names[number]}\t{text}" for number, text in list(texts.items())[:count]]
    (folder / "pairs.tsv").write_text("\n".join(lines))
    return ["--stage", "pretrain", "--pairs-file", str(folder / "pairs.tsv"), "--images", "sample", *BACKBONES, *LAYERS]


def test_pretraining_selects_by_recall_on_held_out_pairs(tmp_path):
    (tmp_path / "empty").mkdir()
    command = ["--use-cpu", "--data-dir", str(tmp_path / "empty"), *pairs_file(tmp_path)]
    command += ["--held-out", "20", "--per-device-train-batch-size", "20", "--num-train-epochs", "3"]
    train([*command, "--output-dir", str(tmp_path / "run")])
    assert json.loads((tmp_path / "run" / "run.json").read_text())["mode"] == "i2t"
    values = log(tmp_path / "run", "eval_recall_at_10")
    ways = [log(tmp_path / "run", f"eval_held_out/{way}/recall_at_10") for way in ("i2t", "t2i")]
    assert values == pytest.approx([sum(pair) / 2 for pair in zip(*ways, strict=True)])
    # Forty pairs are trained on: an epoch is two steps.
    best = tmp_path / "run" / f"checkpoint-{2 * (1 + values.index(max(values)))}"
    assert all(torch.equal(value, weights(best)[name]) for name, value in weights(tmp_path / "run").items())
    processor = AutoProcessor.from_pretrained(best)
    file = tmp_path / "pairs.tsv"
    lines = file.read_text()
    file.write_text(lines.replace("circle", "square"))
    with pytest.raises(CheckpointMismatch, match="pairs_file_sha256 was"):
        train([*command, "--output-dir", str(tmp_path / "run")])
    file.write_text(lines)
    _, held = PairReader(processor, "i2t", "sample", seed=42).read_file(file).hold_out(20)
    run = encode(
        AutoModel.from_pretrained(best),
        images=enumerate(held.image_paths),
        captions=[(place, group.texts[0]) for place, group in enumerate(held.groups)],
        processor=processor,
        device="cpu",
        progress=False,
    )
    similarities = run.images.vectors @ run.captions.vectors.T
    ranks = [(table > table.diagonal()[:, None]).sum(1) for table in (similarities, similarities.T)]
    assert max(values) == pytest.approx(sum((one < 10).mean() for one in ranks) / 2)


def test_tenth_of_pairs_is_held_out_by_default(tmp_path):
    command = [*SAMPLE[:-3], *pairs_file(tmp_path), "--output-dir", str(tmp_path / "run"), "--max-steps", "1"]
    train([*command, "--per-device-train-batch-size", "54"])
    assert json.loads((tmp_path / "run" / "run.json").read_text())["held_out"] == 6
    refused(InvalidOption, "54 images are too few for a", *command, "--per-device-train-batch-size", "55")
    refused(InvalidOption, "60 images are too few", *command, "--per-device-train-batch-size", "61", *NO_SCORES)
    refused(InvalidOption, "held_out=60 of 60 images", *command, "--held-out", "60")


def test_what_is_trained_on_does_not_select_unsaid(tmp_path):
    command = [*SAMPLE, *BACKBONES, *LAYERS, "--mode", "t2t", "--max-steps", "1", "--train-on", "coco/val"]
    with pytest.warns(UserWarning, match="coco/val is in the training data and selects the checkpoint; hold"):
        train([*command, "--per-device-train-batch-size", "30", "--output-dir", str(tmp_path)])


@pytest.mark.parametrize("mode", ["t2t", "i2t"])
def test_the_other_modes_train(tmp_path, mode):
    command = [*SAMPLE, *BACKBONES, *LAYERS, *NO_SCORES, "--mode", mode, "--max-steps", "2", "--logging-steps", "1"]
    images = [] if mode == "t2t" else IMAGES
    report = train([*command, *images, "--report-on", "test", "--output-dir", str(tmp_path)]).report
    assert all(value > 0 for value in log(tmp_path, "loss"))
    assert ("cxc/i2t/recall_at_1" in report.scores) is (mode == "i2t")


def test_siglip_trains_on_its_padded_lowercase_texts(tmp_path, monkeypatch):
    built, tokenizer, images = tiny_models.siglip(tiny_models.gemma_tokenizer(), positions=100)
    built.save_pretrained(tmp_path / "start")
    SiglipProcessor(images, tokenizer).save_pretrained(tmp_path / "start")
    seen = []
    forward = SiglipModel.forward
    monkeypatch.setattr(
        SiglipModel, "forward", lambda self, **batch: seen.append(batch["input_ids"]) or forward(self, **batch)
    )
    command = [*SAMPLE, *IMAGES, *NO_SCORES, "--pretrained", str(tmp_path / "start"), "--mode", "i2t"]
    train([*command, "--loss", "softmax", "--max-steps", "1", "--output-dir", str(tmp_path / "end")])
    assert [ids.shape for ids in seen] == [(64, 100)]
    capitals = tokenizer.convert_tokens_to_ids([letter.upper() for letter in tiny_models.LETTERS[:26]])
    assert not torch.isin(seen[0], torch.tensor(capitals)).any()


def test_padding_comes_after_the_text_in_training_too(tmp_path):
    built, tokenizer, images = tiny_models.dual()
    tokenizer.padding_side = "left"
    built.save_pretrained(tmp_path)
    VisionTextDualEncoderProcessor(images, tokenizer).save_pretrained(tmp_path)
    _, processing = make_model(ModelOptions(pretrained=str(tmp_path)), "i2t")
    batch = processing.tokenizer.pad([{"input_ids": [5]}, {"input_ids": [5, 6]}])
    assert batch["input_ids"] == [[5, 0], [5, 6]]


@pytest.mark.parametrize("kind", ["clip", "siglip", "dual"])
@pytest.mark.parametrize("mode", ["i2t", "t2t+i2t"])
def test_a_pretrained_pair_is_fine_tuned(tmp_path, kind, mode):
    built, tokenizer, images = getattr(tiny_models, kind)()
    built.save_pretrained(tmp_path / "start")
    VisionTextDualEncoderProcessor(images, tokenizer).save_pretrained(tmp_path / "start")
    command = [*SAMPLE, *IMAGES, *NO_SCORES, "--pretrained", str(tmp_path / "start"), "--mode", mode]
    trained = train([*command, "--loss", "softmax", "--max-steps", "1", "--output-dir", str(tmp_path / "end")])
    assert trained.pipeline_tag == (None if kind == "dual" else "zero-shot-image-classification")
    if kind == "clip":  # SigLIP's pipeline pads to more tokens than the tiny one has
        run = pipeline(trained.pipeline_tag, model=str(tmp_path / "end"), tokenizer=tokenizer, image_processor=images)
        assert len(run(tiny_models.picture(1), candidate_labels=["a dog", "a cat"])) == 2
    before = weights(tmp_path / "start")
    after = weights(tmp_path / "end")
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert "logit_scale" in moved
    assert any(name.startswith("vision_model") for name in moved)
    assert any(name.startswith("text_model") for name in moved)
    assert type(AutoModel.from_pretrained(tmp_path / "end")) is type(built)


def test_judged_pairs_of_the_split_are_positives(tmp_path):
    """Eight draws of captions, so that a pair that was rated is among them."""
    command = [*SAMPLE, *BACKBONES, *LAYERS, *NO_SCORES, "--mode", "t2t", "--max-steps", "8", "--logging-steps", "1"]
    command += ["--train-on", "coco/val", "--per-device-train-batch-size", "60"]
    train([*command, "--output-dir", str(tmp_path / "own")])
    train([*command, "--judged-positives", "val", "--output-dir", str(tmp_path / "judged")])
    assert log(tmp_path / "own", "loss") != log(tmp_path / "judged", "loss")
    command += ["--judged-positives", "test", "--output-dir", str(tmp_path / "none")]
    with pytest.raises(InvalidOption, match="no image that is trained on is in this split"):
        train(command)


def test_captions_beyond_model_positions_are_cut_and_counted(tmp_path):
    """The tokenizer of this model names no limit."""
    built, tokenizer, images = tiny_models.clip()
    tokenizer.model_max_length = 10**30
    built.save_pretrained(tmp_path / "start")
    VisionTextDualEncoderProcessor(images, tokenizer).save_pretrained(tmp_path / "start")
    names = [path.name for path in sorted(sample_images().iterdir())[:8]]
    lines = [f"{name}\t{'a long caption ' * (9 if place < 3 else 1)}" for place, name in enumerate(names)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines))
    command = [*SAMPLE, *IMAGES, *NO_SCORES, "--pretrained", str(tmp_path / "start"), "--mode", "i2t"]
    command += ["--pairs-file", str(tmp_path / "pairs.tsv"), "--per-device-train-batch-size", "8", "--max-steps", "1"]
    with pytest.warns(UserWarning, match="3 of 8 captions exceed the context of 80 tokens and are truncated"):
        train([*command, "--output-dir", str(tmp_path / "end")])


def refused(error, words, *command):
    with pytest.raises(error, match=words):
        train([*SAMPLE, *command])


def test_bad_input_is_refused(tmp_path):
    text = tmp_path / "text"
    tiny_models.save(tiny_models.bert(), text)
    own = tmp_path / "own"
    model().save_pretrained(own)
    vit = tmp_path / "vit"
    tiny_models.save(tiny_models.vit(), vit)
    refused(InvalidOption, "either --pretrained", *IMAGES)
    refused(InvalidOption, "--images", *BACKBONES)
    absent = ("--no-pretraining", "--text-model", str(tmp_path / "absent"))
    refused(ModelError, "cannot load it|no model found", *absent, *IMAGES)
    refused(TowerMissing, "no dual encoder", "--pretrained", str(text), *IMAGES)
    refused(TowerMissing, "has no image tower", "--pretrained", str(own), *IMAGES)
    refused(TowerMissing, "has no text side", "--no-pretraining", "--text-model", str(vit), "--mode", "t2t")
    refused(TowerMissing, "has no image side", *BACKBONES, "--image-model", str(text), *IMAGES)
    refused(InvalidOption, "70 images are too few", *BACKBONES, "--per-device-train-batch-size", "71", *IMAGES)
    alone = [*SAMPLE[:-3], *BACKBONES, "--per-device-train-batch-size", "61", *IMAGES]
    with pytest.raises(InvalidOption, match="60 images are too few for a batch of 61"):  # coco/train, the default
        train(alone)
    refused(UnknownName, "coco/val", *BACKBONES, "--train-on", "coco/vall", "--mode", "t2t")
    refused(InvalidOption, "newest checkpoint of its --output-dir", "--resume-from-checkpoint", "x")
    refused(InvalidOption, "lower --per-device-train-batch-size", "--auto-find-batch-size")


def test_checkpoint_not_fitting_its_config_is_refused(tmp_path):
    model().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for key, value, words in (("extra_layers", 2, "lacks"), ("extra_feed_forward", 24, "do not fit")):
        (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
        refused(ModelError, words, "--pretrained", str(tmp_path), "--mode", "t2t")


def test_training_on_val_and_test_stays_recorded(tmp_path, sample_library):
    command = [*SAMPLE, *LAYERS, *NO_SCORES, "--mode", "t2t", "--max-steps", "1", "--per-device-train-batch-size", "30"]
    first = tmp_path / "first"
    second = tmp_path / "second"
    told = train([*command, *BACKBONES, "--train-on", "coco/train", "coco/test", "--output-dir", str(first)])
    assert told.about.endswith("Trained on test data: 60 images of coco/test.")
    config = AutoModel.from_pretrained(first).config
    assert config.training_data == {"holds": {"coco/test": 60}}
    assert config.training_data["holds"]["coco/test"] == sample_library.split("test").image_ids.size
    again = [*command, "--pretrained", str(first), "--train-on", "coco/val", "--report-on", "test"]
    with pytest.warns(UserWarning, match="coco/test is in the training data and reported"):
        told = train([*again, "--output-dir", str(second)])
    record = {"holds": {"coco/val": 60}, "before": {"holds": {"coco/test": 60}}}
    assert told.report.provenance.others["training_data"] == record
    assert "Trained on val data: 60 images of coco/val." in told.about
    assert told.about.endswith("The model it started from: trained on test data: 60 images of coco/test.")


TRAIN = ["--no-python", sys.executable, "-c", "from cxc_eccv.cli.app import main; main()", "train", "dual-encoder"]
RECOLOURED = ["--data-dir", "sample", "--images", "sample", "--text-model", "sample", "--image-model", "sample"]
RECOLOURED += ["--train-on", "coco/train", "coco/restval"]
RECIPE = ["--recolour", "--no-pretraining", "--train-text-model", "--extra-layers", "0", "--pooling", "mean"]
RECIPE += ["--image-pooling", "max", "--normalize", "--scale", "15", "--loss", "softmax", "--learning-rate", "3e-3"]
RECIPE += ["--num-train-epochs", "2", "--use-cpu", "--logging-steps", "1"]


@pytest.mark.slow
def test_two_processes_have_losses_and_scores_of_one(tmp_path):
    from cxc_eccv.studies.baselines.dual_encoder.script import train

    one = ["--per-device-train-batch-size", "34", "--output-dir", str(tmp_path / "one")]
    two = ["--per-device-train-batch-size", "17", "--output-dir", str(tmp_path / "two")]
    train([*RECOLOURED, *RECIPE, *one])
    torchrun(*TRAIN, *RECOLOURED, *RECIPE, "--ddp-backend", "gloo", *two)
    logs = [json.loads((tmp_path / run / "trainer_state.json").read_text())["log_history"] for run in ("one", "two")]
    losses = [[row["loss"] for row in log if "loss" in row] for log in logs]
    assert len(losses[0]) == 4
    # Adam divides by the size of a gradient, so that the rounding of the smallest ones grows with the steps.
    assert losses[1][:2] == pytest.approx(losses[0][:2], rel=1e-5)
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    scores = [[row["eval_recall_at_10"] for row in log if "eval_recall_at_10" in row] for log in logs]
    assert len(scores[0]) == 2
    assert scores[1] == pytest.approx(scores[0], abs=0.01)


@pytest.mark.slow
def test_a_run_of_two_processes_resumes_on_one(tmp_path, capsys):
    """Real processes; by day test_a_run_resumes_on_another_number_of_processes changes the record of one."""
    command = [*SAMPLE, *BACKBONES, *LAYERS, *IMAGES, "--extra-dropout", "0", "--num-train-epochs", "2"]
    command += ["--logging-steps", "1", "--eval-strategy", "no", "--no-load-best-model-at-end"]
    command += ["--output-dir", str(tmp_path), "--per-device-train-batch-size"]
    torchrun(*TRAIN, *command, "15", "--ddp-backend", "gloo")
    whole = log(tmp_path, "loss")
    shutil.rmtree(tmp_path / "checkpoint-4")
    path = tmp_path / "checkpoint-2" / "trainer_state.json"
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "log_history": [*state["log_history"], {"continued": 2}]}))
    train([*command, "30"])
    told = capsys.readouterr().err
    assert f"continuing from {tmp_path / 'checkpoint-2'}" in told
    assert "this run had 2 processes and has 1: a batch still has 30 items" in told
    assert log(tmp_path, "continued") == [2]
    assert len(whole) == 4
    assert log(tmp_path, "loss") == pytest.approx(whole, rel=1e-3)
