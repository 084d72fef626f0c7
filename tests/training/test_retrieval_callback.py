"""The callback in transformers' and sentence-transformers' Trainer, on the sample, with small random models."""

import functools
import math
import os
import socket
import subprocess
import sys

import pytest
import retrieval_callback_worker as worker
import tiny_models
import torch
from datasets import Dataset
from transformers import EarlyStoppingCallback, TrainerCallback, TrainingArguments

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, ModelError, SourceMissing
from cxc_eccv.training import RetrievalCallback

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:check this first:UserWarning"),
]

IMAGES = worker.IMAGES
KEY = "eval_cxc/t2i/recall_at_1"


class Recorder(TrainerCallback):
    """What a TensorBoard callback would write."""

    def __init__(self):
        self.logs = []

    def on_log(self, args, state, control, logs, **kwargs):
        self.logs.append({**logs, "step": state.global_step})


@functools.cache
def rows():
    _, tokenizer, processor = tiny_models.clip()
    texts = [tiny_models.TEXTS[number % 5] for number in range(8)]
    tokens = tokenizer(texts, padding=True, return_tensors="pt")
    pixels = processor(images=[tiny_models.picture(number) for number in range(8)], return_tensors="pt")
    parts = {**tokens, **pixels}
    return [{name: part[number] for name, part in parts.items()} for number in range(8)]


def clip_trainer(folder, *callbacks, model=None, **options):
    model = tiny_models.clip()[0] if model is None else model
    for module in model.modules():
        if hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0.3
    settings = {"max_steps": 4, "eval_strategy": "steps", "eval_steps": 2, "per_device_train_batch_size": 4}
    settings |= {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"} | options
    return worker.ClipTrainer(
        model, TrainingArguments(folder, **settings), train_dataset=rows(), eval_dataset=[], callbacks=list(callbacks)
    )


def clip_callback(tasks="cxc/t2i", **options):
    return RetrievalCallback("sample", tasks, images=IMAGES, processor=tiny_models.clip()[1:], **options)


def logged(trainer):
    return {entry["step"]: entry[KEY] for entry in trainer.state.log_history if KEY in entry}


def test_scores_reach_the_history_and_every_logger(tmp_path):
    recorder = Recorder()
    trainer = clip_trainer(tmp_path, recorder)
    callback = clip_callback().add_to(trainer)
    trainer.train()
    assert list(logged(trainer)) == [2, 4]
    assert {entry["step"]: entry[KEY] for entry in recorder.logs if KEY in entry} == logged(trainer)
    assert callback.report.scores[KEY.removeprefix("eval_")] == logged(trainer)[4]


def test_scores_are_those_of_evaluate_model(tmp_path, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    trainer = clip_trainer(tmp_path)
    clip_callback("cxc").add_to(trainer)
    metrics = trainer.evaluate()
    tiny_models.save((trainer.model, *tiny_models.clip()[1:]), tmp_path / "model")
    options = {"data_dir": "sample", "split": "validation", "images": IMAGES, "progress": False}
    report = ce.evaluate_model(str(tmp_path / "model"), "cxc", **options)
    assert len(report.scores) == 22
    assert {key: metrics[f"eval_{key}"] for key in report.scores} == report.scores


def test_compiled_model_scores_like_the_plain_one(tmp_path):
    model = tiny_models.clip()[0]
    scores = []
    for each in (model, torch.compile(model, backend="eager")):
        trainer = clip_trainer(tmp_path, model=each)
        clip_callback().add_to(trainer)
        scores.append(trainer.evaluate()[KEY])
    assert scores[0] == scores[1]


def test_training_is_the_same_with_the_callback(tmp_path):
    weights = []
    callback = clip_callback(every=1)  # makes models, and so draws at random
    for is_scored in (False, True):
        trainer = clip_trainer(tmp_path, eval_strategy="no")
        if is_scored:
            callback.add_to(trainer)
        trainer.train()
        weights.append(trainer.model.state_dict())
    plain, scored = weights
    assert all(torch.equal(value, scored[name]) for name, value in plain.items())


def test_dropout_works_after_an_evaluation(tmp_path):
    trainer = clip_trainer(tmp_path)
    clip_callback().add_to(trainer)
    inputs = {name: part[None] for name, part in rows()[0].items() if name != "pixel_values"}
    trainer.model.train()
    trainer.model.vision_model.eval()
    modes = [module.training for module in trainer.model.modules()]
    trainer.callback_handler.on_evaluate(trainer.args, trainer.state, trainer.control, metrics={})
    assert [module.training for module in trainer.model.modules()] == modes
    first, second = (trainer.model.get_text_features(**inputs).pooler_output for _ in range(2))
    assert not torch.equal(first, second)


def test_no_file_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    trainer = clip_trainer(tmp_path / "run")
    clip_callback().add_to(trainer)
    trainer.train()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def scripted(callback, monkeypatch, values):
    """Replace the scores, one after the other, by values for which the best step is known."""
    import cxc_eccv.training.retrieval_callback as module

    values = iter(values)
    known = {}

    def name_scores(report):
        if id(report) not in known:
            known[id(report)] = report, {KEY: next(values)}
        return known[id(report)][1]

    monkeypatch.setattr(module, "_name_scores", lambda report: dict(name_scores(report)))
    return callback


def test_best_checkpoint_is_chosen_by_a_score(tmp_path, monkeypatch):
    best = {"metric_for_best_model": KEY, "load_best_model_at_end": True, "save_strategy": "steps", "save_steps": 1}
    trainer = clip_trainer(tmp_path, eval_steps=1, **best)
    scripted(clip_callback(), monkeypatch, [0.2, 0.9, 0.1, 0.3]).add_to(trainer)
    trainer.train()
    assert (trainer.state.best_metric, trainer.state.best_global_step) == (0.9, 2)


@pytest.mark.parametrize("where", ["before", "after", "in both"])
def test_early_stopping_works_in_any_order(tmp_path, monkeypatch, where):
    callback = scripted(clip_callback(), monkeypatch, [0.5, 0.4, 0.3, 0.2])
    stopping = EarlyStoppingCallback(early_stopping_patience=1)
    best = {"metric_for_best_model": KEY, "load_best_model_at_end": True, "save_strategy": "steps", "save_steps": 1}
    given = {"before": [stopping], "after": [], "in both": [stopping, callback]}[where]
    trainer = clip_trainer(tmp_path, *given, eval_steps=1, **best)
    callback.add_to(trainer)
    if where == "after":
        trainer.add_callback(stopping)
    trainer.train()
    assert list(logged(trainer)) == [1, 2]


def test_steps_of_its_own_need_no_evaluation(tmp_path):
    trainer = clip_trainer(tmp_path, eval_strategy="no")
    clip_callback(every=3).add_to(trainer)
    trainer.train()
    assert list(logged(trainer)) == [3]


def test_one_step_is_scored_once(tmp_path):
    trainer = clip_trainer(tmp_path)
    trainer.eval_dataset = {"one": [], "two": []}
    clip_callback(every=2).add_to(trainer)
    trainer.train()
    assert [entry["step"] for entry in trainer.state.log_history if KEY in entry] == [2, 4]


def test_doubt_is_told_once_and_not_before_training(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr("warnings.warn", lambda message, *_, **__: told.append(str(message)))
    trainer = clip_trainer(tmp_path)
    callback = clip_callback().add_to(trainer)
    trainer.evaluate()
    assert "random_order" in callback.report.doubts
    assert not [message for message in told if "check this first" in message]
    trainer.train()
    assert len([message for message in told if "check this first: Positives rank" in message]) == 1


def test_evaluation_after_training_scores_the_weights_anew(tmp_path):
    trainer = clip_trainer(tmp_path)
    clip_callback("cxc/t2i", metrics="median_rank").add_to(trainer)
    trainer.train()
    before = trainer.evaluate()
    with torch.no_grad():
        trainer.model.text_projection.weight.normal_()
    assert trainer.evaluate()["eval_cxc/t2i/median_rank"] != before["eval_cxc/t2i/median_rank"]


def test_a_second_training_is_scored_too(tmp_path):
    trainer = clip_trainer(tmp_path, max_steps=2)
    clip_callback().add_to(trainer)
    trainer.train()
    first = trainer.state.log_history
    trainer.train()
    assert trainer.state.log_history is not first
    assert list(logged(trainer)) == [2]


def change_weights(trainer):
    with torch.no_grad():
        trainer.model.text_projection.weight.normal_()


class Interruption(TrainerCallback):
    """Raises KeyboardInterrupt in an event of step 2."""

    def __init__(self, event):
        setattr(self, event, self.interrupt)

    def interrupt(self, args, state, control, **kwargs):
        if state.global_step == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("event", "every"), [("on_evaluate", None), ("on_step_end", 2), ("on_step_end", 3)])
def test_evaluation_after_interruption_scores_the_weights_anew(tmp_path, event, every):
    interruption = Interruption(event)
    trainer = clip_trainer(tmp_path, interruption)
    callback = clip_callback(metrics="mean_rank", every=every).add_to(trainer)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    interrupted = callback.report
    trainer.remove_callback(interruption)
    change_weights(trainer)
    metrics = trainer.evaluate()
    assert callback.report is not interrupted
    assert metrics["eval_cxc/t2i/mean_rank"] == callback.report.scores["cxc/t2i/mean_rank"]
    assert metrics["eval_cxc/t2i/mean_rank"] == trainer.evaluate()["eval_cxc/t2i/mean_rank"]


class FinalEvaluation(TrainerCallback):
    """Changes the weights at the end of training, as the best checkpoint does, and evaluates them."""

    def on_train_end(self, args, state, control, **kwargs):
        change_weights(self.trainer)
        self.metrics = self.trainer.evaluate()


def test_evaluation_at_the_end_scores_the_weights_anew(tmp_path):
    final = FinalEvaluation()
    final.trainer = trainer = clip_trainer(tmp_path, final, max_steps=2)
    clip_callback(metrics="mean_rank").add_to(trainer)
    trainer.train()
    key = "eval_cxc/t2i/mean_rank"
    trained = next(entry[key] for entry in trainer.state.log_history if key in entry)
    assert final.metrics[key] != trained
    assert final.metrics[key] == trainer.evaluate()[key]


def test_callback_of_another_trainer_is_refused(tmp_path):
    first = clip_trainer(tmp_path)
    second = clip_trainer(tmp_path)
    callback = clip_callback().add_to(first).add_to(first)
    with pytest.raises(InvalidOption, match=r"is in another Trainer.*make a RetrievalCallback for each Trainer"):
        callback.add_to(second)
    second.add_callback(callback)
    with pytest.raises(InvalidOption, match="was added to another Trainer"):
        second.evaluate()
    with pytest.raises(InvalidOption, match="was added to another Trainer"):
        second.train()
    assert second.state.global_step == 0
    first.remove_callback(callback)
    assert KEY in callback.add_to(second).trainer.evaluate()


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"eval_steps": 2}, "step 2"),
        ({"eval_steps": 3, "max_steps": 4}, "step 4"),
        ({"eval_steps": 3, "max_steps": 6}, None),
        ({"eval_steps": 4, "max_steps": 3}, None),
        ({"eval_steps": 0.5, "max_steps": 8}, "step 8"),
        ({"eval_steps": 2, "metric_for_best_model": "cxc/t2i/recall_at_1"}, "step 2"),
        ({"eval_steps": 2, "metric_for_best_model": "loss"}, None),
        ({"eval_steps": 2, "metric_for_best_model": None}, None),
        ({"eval_strategy": "epoch"}, "the end of an epoch"),
        ({"eval_strategy": "no"}, None),
    ],
)
def test_evaluation_without_the_best_score_is_refused(tmp_path, settings, place):
    trainer = clip_trainer(tmp_path, **{"metric_for_best_model": KEY, "max_steps": -1, **settings})
    if place is None:
        clip_callback(every=3).add_to(trainer)
        return
    with pytest.raises(InvalidOption, match=f"with every=3 the evaluation at {place} has no scores; leave out every"):
        clip_callback(every=3).add_to(trainer)


def test_eval_fraction_missing_the_score_fails_first(tmp_path):
    """The metric for the best model has no value at an evaluation between the callback's steps."""
    trainer = clip_trainer(tmp_path, metric_for_best_model=KEY, eval_steps=0.5, max_steps=6)
    clip_callback(every=2).add_to(trainer)
    with pytest.raises(InvalidOption, match="the evaluation at step 3 has no scores"):
        trainer.train()
    assert trainer.state.global_step == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every is 0"),
        ({"every": "3"}, "every is '3'"),
        ({"images": 7}, "images is 7, expected the folder"),
        ({"encoding": {"batch_size": 8}}, "encoding is .*, expected an Encoding"),
        ({"library": 7}, "the data folder is 7"),
        ({"tasks": 7}, "tasks is 7"),
        ({"per_query": "no"}, "per_query is 'no'"),
    ],
)
def test_option_of_another_type_is_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        RetrievalCallback(**{"library": "sample", **options})


def test_what_is_no_trainer_is_refused():
    with pytest.raises(InvalidOption, match="trainer is 'clip', expected a Trainer"):
        clip_callback().add_to("clip")


def test_mixed_precision_is_scored(tmp_path):
    trainer = clip_trainer(tmp_path, bf16=True, max_steps=2)
    clip_callback().add_to(trainer)
    trainer.train()
    assert math.isfinite(logged(trainer)[2])


@pytest.mark.parametrize("split", ["validation", "test"])
def test_test_split_warns_of_leakage(recwarn, split):
    clip_callback("cxc", split=split)
    said = [str(warning.message) for warning in recwarn if "test split during training" in str(warning.message)]
    assert len(said) == (split == "test")


def test_eccv_caption_says_which_split_it_has(tmp_path):
    with pytest.raises(InvalidOption, match="eccv_caption has no validation split, only test"):
        clip_callback("eccv_caption").add_to(clip_trainer(tmp_path))


def test_missing_images_fail_before_training(tmp_path):
    trainer = clip_trainer(tmp_path)
    with pytest.raises(InvalidOption, match="give their folder with images"):
        RetrievalCallback("sample").add_to(trainer)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceMissing):
        RetrievalCallback("sample", images=tmp_path / "empty").add_to(trainer)


def test_missing_processor_fails_before_the_first_step(tmp_path):
    trainer = clip_trainer(tmp_path)
    RetrievalCallback("sample", images=IMAGES).add_to(trainer)
    with pytest.raises(ModelError, match="pass processor="):
        trainer.train()
    assert trainer.state.global_step == 0


def test_callback_without_trainer_fails_before_the_first_step(tmp_path):
    trainer = clip_trainer(tmp_path, clip_callback())
    with pytest.raises(InvalidOption, match=r"add it by callback.add_to\(trainer\)"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_sharded_weights_are_refused(tmp_path):
    trainer = clip_trainer(tmp_path)
    trainer.is_fsdp_enabled = True
    with pytest.raises(InvalidOption, match="FSDP or ZeRO-3"):
        clip_callback().add_to(trainer)


def test_sentence_transformers_trainer_logs_and_chooses(tmp_path):
    st = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(tiny_models.save(tiny_models.bert(), tmp_path / "bert")))
    model = st.SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu")
    data = Dataset.from_dict({"anchor": tiny_models.TEXTS[:4], "positive": tiny_models.TEXTS[1:]})
    settings = {"max_steps": 2, "eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    settings |= {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "per_device_train_batch_size": 2}
    settings |= {"metric_for_best_model": "eval_cxc/t2t/recall_at_1", "load_best_model_at_end": True}
    arguments = st.SentenceTransformerTrainingArguments(str(tmp_path / "run"), **settings)
    loss = MultipleNegativesRankingLoss(model)
    trainer = st.SentenceTransformerTrainer(model, arguments, train_dataset=data, eval_dataset=data, loss=loss)
    callback = RetrievalCallback("sample").add_to(trainer)
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "eval_cxc/t2t/recall_at_1" in entry]
    assert [entry["step"] for entry in logs] == [1, 2]
    assert "eval_cxc/sts/bootstrap_spearman" in logs[0]
    assert trainer.state.best_metric == max(entry["eval_cxc/t2t/recall_at_1"] for entry in logs)
    assert callback.report.skipped["cxc/i2t"] == "the run has no images"


def test_two_processes_score_together_and_one_logs(tmp_path, warm_python):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    alone = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""}
    command = [*warm_python, worker.__file__, str(tmp_path), port]
    done = subprocess.run(command, env=os.environ | alone, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert [entry["step"] for entry in first["history"]] == [1, 2]
    assert first["history"] == second["history"]
    assert KEY in first["seen"]
    assert second["seen"] == []
    assert all(torch.equal(value, second["weights"][name]) for name, value in first["weights"].items())
