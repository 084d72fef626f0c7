"""The folder that mteb reads without this package: mteb's numbers are ours."""

import ast
import importlib.util
import shutil

import numpy as np
import pytest
import yaml

pytest.importorskip("torch", reason="torch is not installed: pip install '.[mteb]'")
pytest.importorskip("mteb", reason="mteb is not installed: pip install '.[mteb]'")

import datasets
import mteb
import torch
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import ModelMeta

import cxc_eccv as ce
from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.mteb_layout import SUBSETS, mteb_files
from cxc_eccv.errors import InvalidOption, SourceMissing, UnknownName
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough

SIZE = 12


def vectors_of(modality, ids, levels=None):
    """A vector per item that depends on its id alone; of few values where ties are wanted."""
    every = [np.random.default_rng([len(modality), int(item)]).standard_normal(SIZE) for item in ids]
    return np.stack(every) if levels is None else np.stack([np.round(vector[:2] * levels) for vector in every])


class Model:
    """An encoder in mteb's sense that looks only at the ids of items, never at a photograph."""

    def __init__(self, levels=None):
        details = {"name": "org/model", "revision": "1", "modalities": ["text", "image"]}
        self.mteb_model_meta = ModelMeta.create_empty(overwrites=details)
        self.levels = levels

    def encode(self, inputs, *, task_metadata, prompt_type, **_):
        (modality,) = task_metadata.get_modalities(prompt_type)
        ids = [item for batch in inputs for item in batch["id"]]
        return torch.from_numpy(vectors_of(modality, ids, self.levels))

    def similarity(self, left, right):
        return torch.as_tensor(left) @ torch.as_tensor(right).T

    def similarity_pairwise(self, left, right):
        raise NotImplementedError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("mteb") / "layout"
    images = mirror_folder("sample") / "coco/images"
    summary = build_folder(place, layout="mteb", data_dir="sample", images=images, progress=False)
    assert "without photographs" not in str(summary)
    return place


def load_tasks(folder):
    """The tasks of the folder's own file, by name."""
    spec = importlib.util.spec_from_file_location("mteb_tasks_of_a_folder", folder / "mteb_tasks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    classes = [item for name, item in vars(module).items() if name.endswith("Retrieval") and name[0] not in "_A"]
    return {task.metadata.name: task for task in classes}


@pytest.fixture(scope="module")
def tasks(folder):
    return load_tasks(folder)


def run(task, model):
    """mteb's scores, and its unrounded values of every query."""
    per_query = {}

    class Watched(task):
        def task_specific_scores(self, scores, *arguments, **options):
            per_query.update(scores)
            return super().task_specific_scores(scores, *arguments, **options)

    (result,) = mteb.evaluate(model, Watched(), cache=None, show_progress_bar=False).task_results
    ((scores,),) = result.scores.values()
    return scores, per_query


def our_scores(subset, library, levels=None):
    """Our values of a task and direction on the same vectors, by metric."""
    source, direction = subset.rsplit("-", 1)
    split = library.split("test")
    sides = {"image": split.image_ids, "text": split.caption_ids}
    pair = (Embeddings(ids, vectors_of(name, ids, levels)) for name, ids in sides.items())
    metrics = ("recall_at_k", "map_at_r", "r_precision", "mrr", "mrr_at_k")
    run = EmbeddingsRun(*pair, similarity="dot")
    report = ce.evaluate(run, f"{source}/{direction}", metrics=metrics, data_dir=library, progress=False)
    return {key.rpartition("/")[2]: value for key, value in report.scores.items()}


@pytest.mark.parametrize("subset", SUBSETS)
def test_mteb_has_our_numbers(subset, tasks, sample_library):
    ours = our_scores(subset, sample_library)
    theirs, per_query = run(tasks[SUBSETS[subset]], Model())
    for key, other in (("map_at_r", "map_at_r"), ("r_precision", "r_precision"), ("mrr", "mrr_at_1000")):
        assert theirs[other] == pytest.approx(ours[key], abs=1e-9)
    for k in (1, 5, 10):
        exact = np.mean([values[f"success_{k}"] for values in per_query.values()])
        assert exact == pytest.approx(ours[f"recall_at_{k}"], abs=1e-9)
        assert theirs[f"hit_rate_at_{k}"] == round(exact, 5), "mteb rounds its own"
    assert theirs["mrr_at_10"] == pytest.approx(ours["mrr_at_10"], abs=1e-9)
    assert theirs["main_score"] == theirs["hit_rate_at_1" if subset.startswith("cxc") else "map_at_r"]


@pytest.mark.parametrize("subset", ["eccv_caption-i2t", "cxc-t2t"])
def test_ties_count_against_map_at_r_there_too(subset, tasks, sample_library):
    ours = our_scores(subset, sample_library, levels=2)
    theirs, _ = run(tasks[SUBSETS[subset]], Model(levels=2))
    assert theirs["map_at_r"] == pytest.approx(ours["map_at_r"], abs=1e-9)
    assert theirs["r_precision"] == pytest.approx(ours["r_precision"], abs=1e-9)
    assert theirs["mrr_at_1000"] > ours["mrr"], "mteb's own breaks ties by id"


def test_tasks_are_described_as_mteb_asks(tasks, folder):
    assert not (folder / "eval.yaml").exists()  # the sample is no benchmark
    benchmark = yaml.safe_load(mteb_files(is_benchmark=True)["eval.yaml"])
    assert [task["id"] for task in benchmark["tasks"]] == list(tasks) == list(SUBSETS.values())
    assert benchmark["evaluation_framework"] == "mteb"
    assert {task["config"] for task in benchmark["tasks"]} <= set(datasets.get_dataset_config_names(str(folder)))
    for task in tasks.values():
        assert task.metadata.is_filled()
        assert task.ignore_identical_ids == (task.metadata.category in ("t2t", "i2i"))


def test_the_tasks_file_needs_mteb_and_numpy_only(folder):
    nodes = ast.walk(ast.parse((folder / "mteb_tasks.py").read_text()))
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {module.partition(".")[0] for module in modules} == {"__future__", "pathlib", "mteb"}


def test_mteb_computes_descriptive_statistics(tasks, sample_library, monkeypatch, tmp_path):
    monkeypatch.setattr(TaskMetadata, "descriptive_stat_path", tmp_path / "statistics.json")
    task = tasks["ECCVCaptionI2TRetrieval"]()
    statistics = task.calculate_descriptive_statistics()["test"]["hf_subset_descriptive_stats"]["eccv_caption-i2t"]
    table = sample_library.split("test").eccv("eccv", "i2t")
    assert statistics["relevant_docs_statistics"]["num_relevant_docs"] == table.num_rows
    assert statistics["relevant_docs_statistics"]["num_missing_corpus_ids"] == 1, "a positive outside the gallery"
    assert statistics["documents_text_statistics"]["unique_texts"] <= sample_library.split("test").caption_ids.size
    assert (tmp_path / "statistics.json").is_file()


@pytest.mark.parametrize("subset", ["cxc-i2t", "eccv_caption-t2i"])
def test_ir_measures_on_the_qrels_gives_our_recall(subset, folder, sample_library):
    ir_measures = pytest.importorskip("ir_measures", reason="the ir_measures package is not installed")
    rows, queries, corpus = (
        datasets.load_dataset(str(folder), f"{subset}-{part}", split="test") for part in ("qrels", "queries", "corpus")
    )
    qrels = [ir_measures.Qrel(row["query-id"], row["corpus-id"], row["score"]) for row in rows]
    sides = [("image" if "image" in part.column_names else "text", part["id"][:]) for part in (queries, corpus)]
    scores = vectors_of(*sides[0]) @ vectors_of(*sides[1]).T
    listed = [
        ir_measures.ScoredDoc(query, item, float(scores[row, column]))
        for row, query in enumerate(sides[0][1])
        for column, item in enumerate(sides[1][1])
    ]
    ours = our_scores(subset, sample_library)
    measures = {f"recall_at_{k}": ir_measures.Success @ k for k in (1, 5, 10)}
    measures |= {"r_precision": ir_measures.Rprec, "mrr": ir_measures.RR}
    theirs = ir_measures.calc_aggregate(measures.values(), qrels, listed)
    assert {key: theirs[measure] for key, measure in measures.items()} == pytest.approx(
        {key: ours[key] for key in measures}, abs=1e-9
    )


def test_without_photographs_captions_are_ranked(tmp_path):
    folder = tmp_path / "layout"
    summary = build_folder(folder, layout="mteb", data_dir="sample", progress=False)
    assert "mteb can run CxCT2TRetrieval only" in str(summary).splitlines()[-1]
    images = datasets.load_dataset(str(folder), "cxc-i2t-queries", split="test")
    assert images.column_names == ["id", "file_name"]
    tasks = load_tasks(folder)
    assert run(tasks.pop("CxCT2TRetrieval"), Model())[0]["map_at_r"] > 0
    for task in tasks.values():
        with pytest.raises(ValueError, match=r"was built without photographs\. Build it again: cxc-eccv build"):
            run(task, Model())


def test_what_the_layout_cannot_have_is_refused(tmp_path, sample_library):
    with pytest.raises(UnknownName, match="layout 'mtbe'; did you mean 'mteb'"):
        build_folder(tmp_path / "a", layout="mtbe", data_dir="sample")
    with pytest.raises(InvalidOption, match="the layout mteb has configs of its own"):
        build_folder(tmp_path / "a", layout="mteb", configs=["sts"], data_dir="sample")
    with pytest.raises(InvalidOption, match="no config has a row in the chosen splits"):
        build_folder(tmp_path / "a", layout="mteb", splits=["validation"], data_dir="sample", progress=False)
    images = shutil.copytree(mirror_folder("sample") / "coco/images", tmp_path / "images")
    next(images.rglob(sample_library.split("test").images["file_name"][0].as_py())).unlink()
    with pytest.raises(SourceMissing, match="59 of the 60 photographs found"):
        build_folder(tmp_path / "a", layout="mteb", images=images, data_dir="sample", progress=False)
    assert not (tmp_path / "a").exists()
