"""Whole training runs on the embedded sample: schedule, selection, going on, bad input, other models."""

import json
import shutil

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

import tiny_models  # noqa: E402 - after the check for torch
from dual_encoder_models import model  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from transformers import AutoModel, AutoProcessor, VisionTextDualEncoderProcessor  # noqa: E402

from cxc_eccv.baselines.demo import sample_images  # noqa: E402
from cxc_eccv.baselines.dual_encoder.arguments import DualEncoderTrainingArguments  # noqa: E402
from cxc_eccv.baselines.dual_encoder.script import train  # noqa: E402
from cxc_eccv.baselines.dual_encoder.trainer import DualEncoderTrainer, staircase  # noqa: E402
from cxc_eccv.encoding import encode  # noqa: E402
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError, TowerMissing, UnknownName  # noqa: E402

SAMPLE = ["--data_dir", "sample", "--use_cpu", "--disable_tqdm", "True", "--learning_rate", "1e-3"]
BACKBONES = ["--no_pretraining", "--text_model", "sample", "--image_model", "sample", "--train_text_model"]
LAYERS = ["--extra_layers", "1", "--extra_feed_forward", "32", "--normalize", "--scale", "10", "--loss", "softmax"]
IMAGES = ["--images", "sample"]
NO_SCORES = ["--eval_strategy", "no", "--save_strategy", "no", "--load_best_model_at_end", "False"]


def weights(folder):
    return load_file(folder / "model.safetensors")


def log(folder, key):
    return [row[key] for row in json.loads((folder / "trainer_state.json").read_text())["log_history"] if key in row]


def test_defaults_are_the_papers(tmp_path):
    options = {"output_dir": str(tmp_path), "use_cpu": True}
    fine, first = DualEncoderTrainingArguments(**options), DualEncoderTrainingArguments(stage="pretrain", **options)
    assert (fine.learning_rate, first.learning_rate) == (5e-6, 1e-4)
    assert (fine.adam_beta1, fine.adam_beta2, fine.weight_decay) == (0.9, 0.999, 0.0)
    assert fine.per_device_train_batch_size == 64
    assert (fine.metric_for_best_model, fine.greater_is_better) == ("recall_at_10", True)
    small = DualEncoderTrainingArguments(small_batch=True, **options)
    assert small.per_device_train_batch_size == 128
    with pytest.raises(UnknownName, match="finetune"):
        DualEncoderTrainingArguments(stage="fintune", **options)


def test_the_schedule_steps_down_every_1000_steps():
    parameter = torch.nn.Parameter(torch.zeros(1))
    trainer = DualEncoderTrainer.__new__(DualEncoderTrainer)
    trainer.paper_schedule, trainer.lr_scheduler = True, None
    trainer.optimizer = torch.optim.Adam([parameter], lr=1e-4)
    schedule = trainer.create_scheduler(30_000)
    rates = []
    for _ in range(3000):
        rates.append(schedule.get_last_lr()[0])
        trainer.optimizer.step()
        schedule.step()
    assert rates[999] == 1e-4
    assert rates[1000] == pytest.approx(1e-4 * 0.999)
    assert rates[2999] == pytest.approx(1e-4 * 0.999**2)
    assert staircase(30_000) == pytest.approx(0.999**30)


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Two epochs of two steps with dropout, a checkpoint after every epoch."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    command = [*SAMPLE, *BACKBONES, *LAYERS, *IMAGES, "--num_train_epochs", "2", "--per_device_train_batch_size", "30"]
    command += ["--logging_steps", "1"]
    report = train([*command, "--report_on", "test", "--output_dir", str(folder)])
    return folder, command, report


def test_validation_is_scored_whole_by_the_librarys_metrics(whole_run, sample_library):
    from cxc_eccv.evaluation import evaluate

    folder, _, _ = whole_run
    values = log(folder, "eval_recall_at_10")
    assert len(values) == 2
    content = sample_library.karpathy("validation")
    paths = _image_paths(content)
    best = folder / f"checkpoint-{2 * (1 + values.index(max(values)))}"
    loaded = AutoModel.from_pretrained(best)
    images = zip(content.image_ids.tolist(), paths, strict=True)
    options = {"processor": AutoProcessor.from_pretrained(best), "device": "cpu", "progress": False}
    run = encode(loaded, images=images, captions=content.captions, **options)
    scores = evaluate(run, "cxc", split="validation", data_dir=sample_library, progress=False).scores
    mean = sum(scores[f"cxc/{way}/recall_at_10"] for way in ("i2t", "t2i", "t2t")) / 3
    assert max(values) == pytest.approx(mean, abs=0.01)


def _image_paths(content):
    return [sample_images() / name for name in content.images["file_name"].to_pylist()]


def test_the_best_checkpoint_is_kept(whole_run):
    folder, _, _ = whole_run
    values = log(folder, "eval_recall_at_10")
    best = weights(folder / f"checkpoint-{2 * (1 + values.index(max(values)))}")
    assert all(torch.equal(value, best[name]) for name, value in weights(folder).items())


def test_the_report_is_written_and_the_processor_saved_along(whole_run):
    folder, _, report = whole_run
    assert json.loads((folder / "report.json").read_text())["scores"] == report.scores
    assert "cxc/i2t/recall_at_1" in report.scores
    assert isinstance(AutoProcessor.from_pretrained(folder), VisionTextDualEncoderProcessor)


def test_an_interrupted_run_goes_on_to_the_same_result(whole_run, tmp_path):
    folder, command, _ = whole_run
    shutil.copytree(folder / "checkpoint-2", tmp_path / "checkpoint-2")
    shutil.copy(folder / "run.json", tmp_path)
    (tmp_path / "checkpoint-4").mkdir()
    with pytest.warns(UserWarning, match="checkpoint-4 is incomplete"):
        train([*command, "--output_dir", str(tmp_path)])
    assert log(tmp_path, "loss") == log(folder, "loss")
    assert len(log(folder, "loss")) == 4
    for name, value in weights(tmp_path).items():
        assert torch.equal(value, weights(folder)[name]), name


def test_in_the_middle_of_an_epoch_as_well(whole_run, tmp_path):
    _, command, _ = whole_run
    steps = [*command, "--save_strategy", "steps", "--save_steps", "1", "--eval_strategy", "no"]
    steps += ["--load_best_model_at_end", "False"]
    train([*steps, "--output_dir", str(tmp_path / "whole")])
    shutil.copytree(tmp_path / "whole" / "checkpoint-3", tmp_path / "parts" / "checkpoint-3")
    shutil.copy(tmp_path / "whole" / "run.json", tmp_path / "parts")
    train([*steps, "--output_dir", str(tmp_path / "parts")])
    assert log(tmp_path / "parts", "loss") == log(tmp_path / "whole", "loss")
    for name, value in weights(tmp_path / "parts").items():
        assert torch.equal(value, weights(tmp_path / "whole")[name]), name


def test_another_run_does_not_go_on_from_it(whole_run):
    folder, command, _ = whole_run
    with pytest.raises(CheckpointMismatch, match=r"scale was 10\.0 and is 12\.0"):
        train([*command, "--scale", "12", "--output_dir", str(folder)])


@pytest.mark.parametrize("mode", ["t2t", "i2t"])
def test_the_other_modes_train(tmp_path, mode):
    command = [*SAMPLE, *BACKBONES, *LAYERS, *NO_SCORES, "--mode", mode, "--max_steps", "2", "--logging_steps", "1"]
    images = [] if mode == "t2t" else IMAGES
    report = train([*command, *images, "--report_on", "test", "--output_dir", str(tmp_path)])
    assert all(value > 0 for value in log(tmp_path, "loss"))
    assert ("cxc/i2t/recall_at_1" in report.scores) is (mode == "i2t")


@pytest.mark.parametrize("kind", ["clip", "siglip", "dual"])
@pytest.mark.parametrize("mode", ["i2t", "t2t+i2t"])
def test_a_pretrained_pair_is_fine_tuned(tmp_path, kind, mode):
    built, tokenizer, images = getattr(tiny_models, kind)()
    built.save_pretrained(tmp_path / "start")
    processor = VisionTextDualEncoderProcessor(images, tokenizer)
    processor.save_pretrained(tmp_path / "start")
    command = [*SAMPLE, *IMAGES, *NO_SCORES, "--pretrained", str(tmp_path / "start"), "--mode", mode]
    train([*command, "--loss", "softmax", "--max_steps", "1", "--output_dir", str(tmp_path / "end")])
    before, after = weights(tmp_path / "start"), weights(tmp_path / "end")
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert "logit_scale" in moved
    assert any(name.startswith("vision_model") for name in moved)
    assert any(name.startswith("text_model") for name in moved)
    assert type(AutoModel.from_pretrained(tmp_path / "end")) is type(built)


def test_judged_pairs_of_the_split_are_positives(tmp_path):
    """Twenty draws of captions, so that a pair that was rated is among them."""
    command = [*SAMPLE, *BACKBONES, *LAYERS, *NO_SCORES, "--mode", "t2t", "--max_steps", "20", "--logging_steps", "1"]
    command += ["--train_on", "coco/val", "--per_device_train_batch_size", "60"]
    train([*command, "--output_dir", str(tmp_path / "own")])
    train([*command, "--judged_positives", "val", "--output_dir", str(tmp_path / "judged")])
    assert log(tmp_path / "own", "loss") != log(tmp_path / "judged", "loss")


@pytest.mark.parametrize("recolour", [False, True])
def test_converted_images_are_told_once(tmp_path, monkeypatch, recolour):
    folder = tmp_path / "images"
    shutil.copytree(sample_images(), folder)
    for path, mode in zip(sorted(folder.glob("COCO_train2014_*")), ("L", "L", "P"), strict=False):
        with Image.open(path) as image:
            image.convert(mode).save(path, format="png")
    monkeypatch.setattr("cxc_eccv.baselines.dual_encoder.data.sample_images", lambda: folder)
    command = [*SAMPLE, *IMAGES, *BACKBONES, *LAYERS, *NO_SCORES, "--num_train_epochs", "2"]
    command += ["--per_device_train_batch_size", "35", "--dataloader_num_workers", "2"]
    with pytest.warns(UserWarning, match="converted") as told:
        train([*command, *(["--recolour"] if recolour else []), "--output_dir", str(tmp_path / "run")])
    messages = [str(one.message) for one in told if "converted" in str(one.message)]
    assert messages == ["3 of 70 training images are not RGB and are converted: L 2, P 1"]


def test_captions_beyond_the_models_positions_are_cut_and_counted_where_the_tokenizer_names_no_limit(tmp_path):
    built, tokenizer, images = tiny_models.clip()
    tokenizer.model_max_length = 10**30
    built.save_pretrained(tmp_path / "start")
    VisionTextDualEncoderProcessor(images, tokenizer).save_pretrained(tmp_path / "start")
    names = [path.name for path in sorted(sample_images().iterdir())[:8]]
    lines = [f"{name}\t{'a long caption ' * (9 if place < 3 else 1)}" for place, name in enumerate(names)]
    (tmp_path / "pairs.tsv").write_text("\n".join(lines))
    command = [*SAMPLE, *IMAGES, *NO_SCORES, "--pretrained", str(tmp_path / "start"), "--mode", "i2t"]
    command += ["--pairs_file", str(tmp_path / "pairs.tsv"), "--per_device_train_batch_size", "8", "--max_steps", "1"]
    with pytest.warns(UserWarning, match="3 of 8 captions are longer than the context of 80 tokens and are cut"):
        train([*command, "--output_dir", str(tmp_path / "end")])


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
    refused(ModelError, "cannot load it", "--no_pretraining", "--text_model", str(tmp_path / "absent"), *IMAGES)
    refused(TowerMissing, "no dual encoder", "--pretrained", str(text), *IMAGES)
    refused(TowerMissing, "has no image tower", "--pretrained", str(own), *IMAGES)
    refused(TowerMissing, "has no text side", "--no_pretraining", "--text_model", str(vit), "--mode", "t2t")
    refused(TowerMissing, "has no image side", *BACKBONES, "--image_model", str(text), *IMAGES)
    refused(InvalidOption, "70 images make no batch of 71", *BACKBONES, "--per_device_train_batch_size", "71", *IMAGES)
    refused(UnknownName, "coco/val", *BACKBONES, "--train_on", "coco/vall", "--mode", "t2t")


def test_a_checkpoint_that_does_not_fit_its_config_is_refused(tmp_path):
    model().save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for key, value, words in (("extra_layers", 2, "lacks"), ("extra_feed_forward", 24, "do not fit")):
        (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
        refused(ModelError, words, "--pretrained", str(tmp_path), "--mode", "t2t")


def test_training_on_what_is_reported_is_said(tmp_path):
    command = [*SAMPLE, *BACKBONES, *LAYERS, *NO_SCORES, "--mode", "t2t", "--max_steps", "1"]
    command += ["--per_device_train_batch_size", "30"]
    with pytest.warns(UserWarning, match="coco/test is trained on and reported"):
        train([*command, "--train_on", "coco/test", "--report_on", "test", "--output_dir", str(tmp_path)])
