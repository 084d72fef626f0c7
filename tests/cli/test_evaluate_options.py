"""``cxc-eccv evaluate``: per-query values beside the report, intervals, policies for pairs without a label."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from label_files import random_pairs, write_label_file
from typer.testing import CliRunner

import cxc_eccv as ce
from cxc_eccv.cli.app import app
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.runs import load_embeddings, save_embeddings
from cxc_eccv.sources.library import Library
from cxc_eccv.types.json_records import to_json

pytestmark = pytest.mark.thorough


@pytest.fixture
def file(make_run, sample_library, tmp_path):
    path = tmp_path / "model.npz"
    save_embeddings(path, make_run(sample_library, seed=3))
    return path


@pytest.fixture
def evaluate(file, tmp_path):
    """Runs the command on the sample and returns the report and its folder."""

    def run(*arguments):
        output = tmp_path / "out"
        command = ["evaluate", file, "--data-dir", "sample", "--output", output, "--overwrite", *arguments]
        result = CliRunner().invoke(app, [str(one) for one in command], catch_exceptions=True)
        if result.exception is not None:
            raise result.exception
        return json.loads((output / "report.json").read_text()), output

    return run


def test_values_of_queries_stand_beside_the_report(evaluate):
    report, output = evaluate()
    table = pq.read_table(output / "per_query.parquet")
    assert table.column_names == ["query_id", "task", "direction", "metric", "value", "best_rank", "cluster", "fold"]
    for result in report["results"]:
        if result["direction"] in ("", "sts", "sis", "sits"):
            continue
        rows = table.filter(
            (pc.field("task") == result["task"])
            & (pc.field("direction") == result["direction"])
            & (pc.field("metric") == result["metric"])
        )
        values = rows["value"].to_numpy()
        assert values.size == result["n_queries"]
        expected = np.median(values) if result["metric"] == "median_rank" else values.mean()
        assert result["value"] == pytest.approx(expected, rel=1e-12)
    assert not list(output.glob("*.part"))


def test_without_a_folder_nothing_is_written(file, tmp_path):
    result = CliRunner().invoke(app, ["evaluate", str(file), "--data-dir", "sample", "--tasks", "coco_5k"])
    assert result.exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_metrics_and_intervals(evaluate):
    report, _ = evaluate("--tasks", "cxc/i2t,cxc/sts", "--metrics", "ndcg_at_k,recall_at_3,spearman_all_pairs")
    assert set(report["scores"]) == {"cxc/i2t/ndcg_at_10", "cxc/i2t/recall_at_3", "cxc/sts/spearman_all_pairs"}
    bootstrap, _ = evaluate("--tasks", "coco_5k/i2t")
    binomial, _ = evaluate("--tasks", "coco_5k/i2t", "--intervals", "binomial")
    none, _ = evaluate("--tasks", "coco_5k/i2t", "--intervals", "none")
    assert binomial["scores"] == bootstrap["scores"] == none["scores"]
    methods = [one["results"][0].get("interval_method") for one in (bootstrap, binomial, none)]
    assert methods == ["binomial_images", "binomial", None]
    assert none["results"][2]["low"] is None
    assert [one["provenance"]["intervals"] for one in (bootstrap, binomial, none)] == ["bootstrap", "binomial", "none"]
    wider, folder = evaluate("--tasks", "coco_5k/i2t", "--confidence", 0.99)
    assert all(
        one["low"] <= other["low"] <= other["high"] <= one["high"]
        for one, other in zip(wider["results"], bootstrap["results"], strict=True)
    )
    assert "99% interval" in " ".join((folder / "report.md").read_text().split())


def test_predicted_labels_from_a_file(evaluate, make_run, sample_library, tmp_path):
    run = make_run(sample_library, seed=3)
    images, captions = (grid.ravel() for grid in np.meshgrid(run.images.ids, run.captions.ids, indexing="ij"))
    path = tmp_path / "labels.parquet"
    columns = {"image_id": images, "caption_id": captions, "label": np.ones(images.size, dtype=np.int64)}
    pq.write_table(pa.table(columns), path)
    report, _ = evaluate("--tasks", "entailment", "--judge", path)
    plain, _ = evaluate("--tasks", "entailment")
    left_out, _ = evaluate("--tasks", "entailment", "--unjudged", "leave_out")
    policies = [one["results"][0]["parameters"]["unjudged"] for one in (report, plain, left_out)]
    assert policies == ["classifier", "not_entailed", "leave_out"]
    assert report["scores"]["entailment/i2t/entail_at_10"] > 0.9 > plain["scores"]["entailment/i2t/entail_at_10"]
    assert report["results"][0]["coverage"] == plain["results"][0]["coverage"]


def test_similarity_option_overrides_that_of_the_file(evaluate, file):
    save_embeddings(file, dataclasses.replace(load_embeddings(file), similarity="dot"))
    by_file, folder = evaluate("--tasks", "coco_5k")
    assert "Similarity chosen by" in (folder / "report.md").read_text()
    by_option, _ = evaluate("--tasks", "coco_5k", "--similarity", "cosine")
    found = [[one["provenance"][name] for name in ("similarity", "similarity_from")] for one in (by_file, by_option)]
    assert found == [["dot", "the run"], ["cosine", "the caller"]]


FOR_EMBEDDINGS = "is for embeddings, and this run has scores; leave it out"

REFUSED = {
    "confidence-in-percent": (("model.npz", "--confidence", "99"), InvalidOption, "confidence is 99.0"),
    "unknown-intervals": (("model.npz", "--intervals", "normal"), UnknownName, "unknown kind of intervals 'normal'"),
    "unknown-similarity": (("model.npz", "--similarity", "l2"), UnknownName, "unknown similarity 'l2'"),
    "empty-name": (("model.npz", "--name", ""), InvalidOption, "the model's name is ''; give one line of text"),
    "unknown-source": (
        ("model.npz", "--labels", "mine.parquet", "--sources", "mein"),
        UnknownName,
        "did you mean 'mine'",
    ),
    "similarity-of-scores": (("scores.npz", "--similarity", "dot"), InvalidOption, FOR_EMBEDDINGS),
    "device-for-scores": (("scores.npz", "--device", "cpu"), InvalidOption, FOR_EMBEDDINGS),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_wrong_option_is_refused(file, tmp_path, sample_library, monkeypatch, fault):
    monkeypatch.chdir(tmp_path)
    run = load_embeddings(file)
    scores = run.images.vectors @ run.captions.vectors.T
    np.savez("scores.npz", image_ids=run.images.ids, caption_ids=run.captions.ids, scores=scores)
    write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library))
    words, error, message = REFUSED[fault]
    result = CliRunner().invoke(app, ["evaluate", *words, "--data-dir", "sample"])
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


def test_model_name_comes_from_option_or_file(evaluate, file):
    report, output = evaluate("--tasks", "cxc")
    assert "model" not in report["provenance"]
    save_embeddings(file, dataclasses.replace(load_embeddings(file), model="CLIP B/32"))
    report, output = evaluate("--tasks", "cxc")
    assert (report["provenance"]["model"], report["provenance"]["run"]["model"]) == ("CLIP B/32", "CLIP B/32")
    assert "CLIP B/32" in (output / "report.md").read_text().partition("\n## ")[0]
    report, _ = evaluate("--tasks", "cxc", "--name", "CLIP of last week")
    assert report["provenance"]["model"] == "CLIP of last week"
    assert report["provenance"]["run"]["model"] == "CLIP B/32"


def test_labels_that_no_source_uses_are_refused(evaluate, tmp_path, sample_library):
    split = sample_library.split("test")
    table = tmp_path / "matches.csv"
    table.write_text(f"image_id,caption_id\n{split.image_ids[0]},{split.caption_ids[9]}\n")
    remedy = rf"--labels {table}: no named source uses it; say --sources coco,matches, or leave --labels out"
    for tasks in ((), ("--tasks", "coco_5k")):
        with pytest.raises(InvalidOption, match=remedy):
            evaluate("--labels", table, "--sources", "coco", *tasks)
    report, _ = evaluate("--labels", table, "--sources", "coco,matches", "--tasks", "coco_5k")
    assert report["provenance"]["labels"]["sources"] == ["coco", "matches"]


def test_labels_of_task_annotated_are_used(evaluate, tmp_path, sample_library):
    """Without a source: its queries are those that the labels' makers searched."""
    labels = write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library))
    report, _ = evaluate("--labels", labels, "--sources", "coco", "--tasks", "annotated")
    assert {result["task"] for result in report["results"]} == {"annotated"}
    with pytest.raises(InvalidOption, match="no named source uses it"):
        evaluate("--labels", labels, "--sources", "coco", "--tasks", "coco_5k")


def test_folder_of_labels_needs_one_source(evaluate, tmp_path, sample_library):
    pair = f"{sample_library.split('test').image_ids[0]},{sample_library.split('test').caption_ids[9]}"
    folder = tmp_path / "labels"
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.csv").write_text(f"image_id,caption_id\n{pair}\n")
    report, _ = evaluate("--labels", folder, "--sources", "one", "--tasks", "coco_5k")
    assert report["provenance"]["labels"]["sources"] == ["one"]


def test_labels_of_people_as_a_source_among_others(evaluate, tmp_path, sample_library, file):
    labels = write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library))
    plain, _ = evaluate("--tasks", "coco_5k")
    report, _ = evaluate("--tasks", "coco_5k", "--labels", labels, "--sources", "coco,cxc", "--sources", "mine")
    library = Library("sample", labels=[labels])
    wanted = ce.evaluate(load_embeddings(file), "coco_5k", data_dir=library, sources=("coco", "cxc", "mine"))
    assert report["scores"] == wanted.scores != plain["scores"]
    assert report["provenance"]["labels"] == to_json(wanted.provenance.labels)


def test_a_dataset_with_labels_of_people(tmp_path, sample_library):
    labels = write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library))
    command = ["build", "--output", tmp_path / "data", "--configs", "pairs", "--splits", "test", "--data-dir", "sample"]
    result = CliRunner().invoke(app, [*map(str, command), "--labels", str(labels)])
    assert result.exception is None
    assert "labels_mine_test" in json.loads((tmp_path / "data" / "manifest.json").read_text())["labels"]
