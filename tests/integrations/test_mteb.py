"""The tasks for mteb: its models, our numbers, and no result of one thing kept for another."""

import importlib
import json
import sys

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install '.[mteb]'")
pytest.importorskip("mteb", reason="mteb is not installed: pip install '.[mteb]'")

import mteb
import tiny_models
import torch
from command_line import run_command
from mteb.models import ModelMeta, SentenceTransformerEncoderWrapper
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, SourceMissing, UnknownName
from cxc_eccv.integrations import mteb_command as mteb_command_module
from cxc_eccv.integrations.mteb import mteb_task
from cxc_eccv.integrations.sentence_transformers import CxcEccvEvaluator
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings

# What mteb calls of sentence-transformers, and of itself.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dimension` method:FutureWarning"),
    pytest.mark.filterwarnings("ignore:check this first:UserWarning"),  # of random models
    pytest.mark.filterwarnings("ignore:The fill_missing parameter is deprecated:DeprecationWarning"),
]

get_tasks_module = importlib.import_module("mteb.get_tasks")  # a function has the same name

IMAGES = mirror_folder("sample") / "coco/images"


class Model:
    """An encoder in mteb's sense, whose vectors depend on the role of an item; it keeps what it was given."""

    def __init__(self, name="org/model", similarity="cosine"):
        details = {"name": name, "revision": "1", "modalities": ["text", "image"]}
        self.mteb_model_meta = ModelMeta.create_empty(overwrites=details)
        self.kind = similarity
        self.given = []
        self.vectors = {}

    def encode(self, inputs, *, task_metadata, hf_split, hf_subset, prompt_type=None, **options):
        batches = list(inputs)
        (modality,) = batches[0]
        items = [item for batch in batches for item in batch[modality]]
        role = None if prompt_type is None else prompt_type.value
        random = np.random.default_rng([len(str(role)), len(modality)])
        self.given.append((modality, role, len(batches[0][modality])))
        self.items = items
        self.vectors[modality] = random.standard_normal((len(items), 8)).astype(np.float32)
        return torch.from_numpy(self.vectors[modality])

    def similarity(self, left, right):
        left = torch.as_tensor(left)
        right = torch.as_tensor(right)
        if self.kind == "cosine":
            left, right = (torch.nn.functional.normalize(side) for side in (left, right))
        return -torch.cdist(left, right) if self.kind == "distance" else left @ right.T


def evaluate(model, task, **options):
    options = {"cache": None, "show_progress_bar": False, **options}
    return mteb.evaluate(model, task, **options).task_results[0]


def make_task(direction, **options):
    return mteb_task(direction, **{"data_dir": "sample", "images": IMAGES, **options})


class SparseModel(Model):
    """An encoder that returns its vectors as a sparse tensor, as those of SPLADE do."""

    def encode(self, inputs, **options):
        return super().encode(inputs, **options).to_sparse()


def test_sparse_vectors_score_as_dense_ones():
    scores = [evaluate(kind(similarity="dot"), make_task("t2t")).scores for kind in (Model, SparseModel)]
    assert scores[0] == scores[1]


ROLES = {
    "i2t": {"image": "query", "text": "document"},
    "t2i": {"text": "query", "image": "document"},
    "t2t": {"text": None},
    "i2i": {"image": None},
}
MAIN = {
    "test": {"i2t": "eccv_caption/i2t/map_at_r", "t2i": "eccv_caption/t2i/map_at_r"},
    "validation": {},
}


@pytest.mark.parametrize("split", ["test", "validation"])
@pytest.mark.parametrize("direction", ROLES)
def test_scores_are_those_of_the_vectors(direction, split, sample_library):
    model = Model()
    task = make_task(direction, split=split)
    result = evaluate(model, task, encode_kwargs={"batch_size": 7})
    (scores,) = result.scores[split]
    ids = {
        "image": sample_library.split(split).images["image_id"],
        "text": sample_library.split(split).captions["caption_id"],
    }
    sides = {name: Embeddings(ids[name].to_numpy(), vectors) for name, vectors in model.vectors.items()}
    run = EmbeddingsRun(sides.get("image"), sides.get("text"))
    report = ce.evaluate(run, data_dir=sample_library, split=split, progress=False)
    kinds = {"i2t": "sits", "t2t": "sts", "i2i": "sis"}
    own = [
        result
        for result in report.results
        if result.direction and result.direction in (direction, kinds.get(direction, direction))
    ]
    assert {key: value for key, value in scores.items() if "/" in key} == {result.key: result.value for result in own}
    assert scores["intervals"] == {result.key: [result.low, result.high] for result in own if result.low is not None}
    assert scores["main_score"] == scores[MAIN[split].get(direction, f"cxc/{direction}/recall_at_1")]
    assert result.get_score() == scores["main_score"]
    assert {modality: role for modality, role, _ in model.given} == ROLES[direction]
    assert {size for _, _, size in model.given} == {7}
    assert task.report.name == "org/model"


def test_items_are_passed_unchanged_to_the_model(sample_library, tmp_path):
    """The task describes its size, revision and citation."""
    captions = Model()
    evaluate(captions, make_task("t2t"))
    assert captions.items == sample_library.split("test").captions["text"].to_pylist()
    for path in IMAGES.rglob("*.jpg"):
        tiny_models.picture(1, mode="L").save(tmp_path / path.name)
    images = Model()
    task = make_task("i2i", images=tmp_path)
    evaluate(images, task)
    assert {image.mode for image in images.items} == {"RGB"}
    task.load_data()
    assert task._calculate_descriptive_statistics_from_split("test") == {"num_samples": 60}
    assert task.metadata.revision == "sample 1.0.0"
    assert "chun2022eccv" in task.metadata.bibtex_citation


@pytest.fixture
def mteb_command(monkeypatch, tmp_path):
    """mteb's command with our tasks, in this process; every model is ``org/model``."""
    monkeypatch.setattr(get_tasks_module, "_TASKS_REGISTRY", dict(get_tasks_module._TASKS_REGISTRY))
    monkeypatch.setattr(mteb_command_module, "_TASKS_REGISTRY", get_tasks_module._TASKS_REGISTRY)
    monkeypatch.setattr(mteb, "get_model", lambda *_, **__: Model())
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["mteb", "--data-dir", "sample", *map(str, arguments)])
        mteb_command_module.main()

    return run


def test_mteb_command_and_report_write_equal_files(mteb_command, tmp_path, sample_library):
    """Numbers are those of mteb's run, but for the six digits it rounds to."""
    names = ["CxcEccvT2T.sample", "CxcEccvI2T.validation.sample"]
    options = ("run", "-m", "org/model", "--output-folder", "theirs", "-v", "0", "--no-co2-tracker", "-t", *names)
    mteb_command("--images", IMAGES, "--reports", "reports", *options)
    reports = sorted((tmp_path / "reports").glob("org__model/*"))
    assert [report.name for report in reports] == ["test_t2t", "validation_i2t"]
    for report in reports:
        run_command("report", report, "--format", "mteb", "--output", "ours")
    theirs, ours = (mteb.ResultCache(folder).load_results() for folder in ("theirs", "ours"))
    (their_model,), (our_model,) = theirs.model_results, ours.model_results
    assert our_model.model_name == their_model.model_name == "org/model"
    results = [{result.task_name: result for result in model.task_results} for model in (their_model, our_model)]
    assert sorted(results[0]) == sorted(results[1]) == sorted(names)
    for name, theirs in results[0].items():
        ours = results[1][name]
        assert ours.dataset_revision == theirs.dataset_revision == "sample 1.0.0"
        assert ours.get_score() == pytest.approx(theirs.get_score(), abs=1e-6)
        ((split, (our_scores,)),), ((_, (their_scores,)),) = ours.scores.items(), theirs.scores.items()
        assert split in ("test", "validation")
        assert our_scores.keys() | {"mteb_version"} == their_scores.keys() | {"mteb_version"}
        for key in our_scores:
            if "/" in key:
                assert our_scores[key] == pytest.approx(their_scores[key], abs=1e-6)
            elif key == "intervals":
                assert our_scores[key].keys() == their_scores[key].keys()


def test_what_mtebs_command_cannot_run_is_said(mteb_command, capsys):
    for arguments, message in (
        ((), "name a subcommand of mteb"),
        (("run", "-m", "org/model", "-t", "CxcEccvI2T.sample"), "i2t ranks images; name the folder"),
    ):
        with pytest.raises(SystemExit):
            mteb_command(*arguments)
        assert message in capsys.readouterr().err
    with pytest.raises(KeyError, match=r"Did you mean: 'CxcEccvT2T\.sample'"):
        mteb_command("run", "-m", "org/model", "-t", "CxcEccvT2T")


def test_partial_report_is_not_written_as_mteb(tmp_path):
    """The same holds for a report on other labels, or without a main score of mteb's tasks."""
    task = make_task("t2t", output=tmp_path)
    evaluate(Model(), task)
    (report,) = tmp_path.glob("org__model/*/report.json")
    content = json.loads(report.read_text())
    for facts, message in (
        ({"restriction": {"limit": 20, "images": {"used": 20, "of": 60}}}, "the report is on a part of the split"),
        (
            {"labels": {"sources": ["coco"], "policy": "union", "files": {}}},
            "the report is on the labels coco instead",
        ),
    ):
        edited = {**content, "provenance": {**content["provenance"], **facts}}
        (tmp_path / "report.json").write_text(json.dumps(edited))
        _, error = run_command("report", tmp_path, "--format", "mteb", "--output", tmp_path / "out", status=2)
        assert message in error
    kept = [row for row in content["results"] if row["key"] != "cxc/t2t/recall_at_1"]
    scores = {row["key"]: row["value"] for row in kept}
    (tmp_path / "report.json").write_text(json.dumps({**content, "results": kept, "scores": scores}))
    _, error = run_command("report", tmp_path, "--format", "mteb", "--output", tmp_path / "out", status=2)
    assert "no main score of mteb's tasks; evaluate one of these: eccv_caption/i2t/map_at_r" in error
    for options, message in (
        (["--format", "mteb"], "name their folder with --output"),
        (["--format", "mteb", "--output", tmp_path / "out", "--images", "."], "--images is for pages"),
    ):
        assert message in run_command("report", report.parent, *options, status=2)[1]
    assert not (tmp_path / "out").exists()


def test_no_kept_result_passes_for_another(tmp_path):
    names = {
        mteb_task(direction, data_dir=data, split=split, images=IMAGES).metadata.name
        for direction in ROLES
        for data in ("sample", tmp_path)
        for split in ("test", "validation")
    }
    assert len(names) == 16
    assert mteb_task("t2t", data_dir=tmp_path).metadata.name == "CxcEccvT2T"
    assert mteb_task("t2t", data_dir="sample", split="validation").metadata.name == "CxcEccvT2T.validation.sample"
    cache = mteb.ResultCache(tmp_path / "cache")
    kept = evaluate(Model(), make_task("t2t"), cache=cache)
    again = Model()
    assert evaluate(again, make_task("t2t"), cache=cache).get_score() == pytest.approx(kept.get_score(), abs=1e-5)
    assert again.given == []
    other = evaluate(again, make_task("t2t", split="validation"), cache=cache)
    assert again.given
    assert other.get_score() == other.scores["validation"][0]["main_score"]


def test_sentence_transformers_model_scores_as_its_evaluator(tmp_path):
    folder = str(tiny_models.save(tiny_models.clip(), tmp_path / "clip"))
    model = SentenceTransformer(modules=[Transformer(folder)], device="cpu")
    evaluator = CxcEccvEvaluator(split="test", data_dir="sample", images=IMAGES)
    expected = evaluator(model)
    wrapped = SentenceTransformerEncoderWrapper(model)
    # mteb takes a loaded model for one of text.
    wrapped.mteb_model_meta = wrapped.mteb_model_meta.model_copy(update={"modalities": ["text", "image"]})
    for direction in ROLES:
        task = make_task(direction)
        (scores,) = evaluate(wrapped, task).scores["test"]
        own = {key: value for key, value in scores.items() if "/" in key}
        assert own == pytest.approx({key: expected[key] for key in own}, abs=0.05)
        assert task.report.name == "SentenceTransformer"


def test_what_cannot_be_run_is_refused(tmp_path):
    with pytest.raises(UnknownName, match="direction 'i2x'"):
        mteb_task("i2x")
    with pytest.raises(UnknownName, match="split 'tset'; did you mean 'test'"):
        mteb_task("t2t", split="tset", data_dir="sample")
    with pytest.raises(InvalidOption, match="i2t ranks images; name the folder"):
        mteb_task("i2t", data_dir="sample")
    with pytest.raises(SourceMissing, match="0 of the 60 photographs found"):
        evaluate(Model(), make_task("i2t", images=tmp_path))
