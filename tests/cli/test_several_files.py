"""``cxc-eccv evaluate`` with several files: each is a model of its own, and all are compared at the end."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_samples import near_run
from spoilt_runs import Good

from cxc_eccv.errors import InvalidOption
from cxc_eccv.runs import save_embeddings
from cxc_eccv.runs.load import group_files
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough

OPTIONS = ("--data-dir", "sample", "--tasks", "coco_5k,eccv_caption")


@pytest.fixture
def evaluate(run, sample_library, tmp_path, monkeypatch):
    """Evaluate in a folder with the embeddings of two models."""
    monkeypatch.chdir(tmp_path)
    for name, noise in (("clip", 0.5), ("blip", 0.9)):
        save_embeddings(f"{name}.npz", near_run(sample_library, noise=noise, width=16))
    return lambda *words: run("evaluate", *words, *OPTIONS)


def results_of(folder):
    return json.loads((folder / "report.json").read_text())["results"]


def test_each_file_is_a_model_in_the_comparison(evaluate, tmp_path):
    """Each has the results that it has when it is evaluated alone."""
    assert evaluate("clip.npz", "blip.npz", "--output", "both")[0] == 0
    for name in ("clip", "blip"):
        assert evaluate(f"{name}.npz", "--output", name)[0] == 0
        assert results_of(tmp_path / "both" / name) == results_of(tmp_path / name)
    compared = json.loads((tmp_path / "both" / "compare.json").read_text())
    assert (compared["baseline"], compared["models"]) == ("clip.npz", ["blip.npz"])


def test_changed_file_is_scored_again(evaluate, tmp_path, sample_library):
    assert evaluate("clip.npz", "blip.npz", "--output", "both")[0] == 0
    before = results_of(tmp_path / "both" / "blip")
    save_embeddings("blip.npz", near_run(sample_library, noise=2.0, width=16))
    assert evaluate("clip.npz", "blip.npz", "--output", "both")[0] == 0
    assert results_of(tmp_path / "both" / "blip") != before


def write_rankings(library, *names):
    images = library.split("test").images["image_id"].to_pylist()
    captions = library.split("test").captions["caption_id"].to_pylist()
    sides = {"i2t": (images, captions), "t2i": (captions, images)}
    for name in names:
        random = np.random.default_rng(len(name))
        for direction, (queries, items) in sides.items():
            lists = {query: random.permutation(items).tolist() for query in queries}
            Path(f"{name}_{direction}.json").write_text(json.dumps(lists))


def test_ranking_files_are_grouped_by_model_name(evaluate, tmp_path, sample_library):
    write_rankings(sample_library, "first", "other_one")
    files = ("first_i2t.json", "other_one_i2t.json", "first_t2i.json", "other_one_t2i.json")
    assert evaluate(*files, "--output", "all")[0] == 0
    assert evaluate(files[1], files[3], "--output", "one")[0] == 0
    assert results_of(tmp_path / "all" / "other_one") == results_of(tmp_path / "one")
    assert {row["direction"] for row in results_of(tmp_path / "all" / "first")} >= {"i2t", "t2i"}


def test_file_without_direction_needs_the_option(run, sample_library, tmp_path):
    lines = {
        direction: [
            f"{query} Q0 {item} {rank} {-rank} run"
            for query, items in lists.items()
            for rank, item in enumerate(items, 1)
        ]
        for direction, lists in Good.of(sample_library).rankings().items()
    }
    paths = [tmp_path / "run_i2t.trec", tmp_path / "run_t2i.trec"]
    for path, direction in zip(paths, lines, strict=True):
        path.write_text("\n".join(lines[direction]))
    status, out, _ = run("evaluate", *paths, "--data-dir", "sample")
    assert (status, "ECCV Caption" in out) == (0, True)
    nameless = paths[1].rename(tmp_path / "run.trec")
    status, _, error = run("evaluate", nameless, "--data-dir", "sample")
    assert status == 2
    assert "--direction i2t" in error
    status, out, _ = run("evaluate", nameless, "--direction", "t2i", "--data-dir", "sample")
    assert (status, "t2i" in out) == (0, True)
    both = (paths[0].rename(tmp_path / "other.trec"), nameless)
    status, out, _ = run("evaluate", *both, "--direction", "i2t", "--direction", "t2i", "--data-dir", "sample")
    assert (status, "the run has no i2t rankings" in " ".join(out.split())) == (0, False)


def test_faults_of_all_files_precede_scoring(evaluate, tmp_path, sample_library):
    run = near_run(sample_library, noise=0.5, width=16)
    save_embeddings("part.npz", replace(run, images=Embeddings(run.images.ids[1:], run.images.vectors[1:])))
    save_embeddings("text.npz", replace(run, images=None))
    for name, fault in (("part.npz", "lacks 1 of 60 images"), ("text.npz", "coco_5k cannot be computed")):
        status, _, err = evaluate("clip.npz", name, "--output", "both")
        assert (status, f"{name}: {fault}" in err) == (2, True), err
        assert not (tmp_path / "both").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("clip.npz", "blip.npz"), "several models: name a folder for their reports with --output"),
        (("clip.npz", "clip.npz", "--output", "out"), "two models have the same name"),
        (("clip.npz", "blip.npz", "--name", "a", "--output", "out"), "--name: 1 names for 2 models; give one for each"),
        (("clip.npz", "--direction", "i2t"), "clip.npz: a direction is for rankings; leave it out"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(evaluate, words, message):
    status, _, err = evaluate(*words)
    assert (status, message in err) == (2, True), err


@pytest.mark.parametrize(
    ("files", "directions", "groups"),
    [
        ("a.npz b.safetensors", "", {"a": ("a.npz",), "b": ("b.safetensors",)}),
        ("a_i2t.trec b_t2i.trec", "", {"a": ("a_i2t.trec", "b_t2i.trec")}),
        ("x.trec y.trec", "i2t t2i", {"x": ("x.trec", "y.trec")}),
        ("x.trec y.trec", "i2t", {"x": ("x.trec",), "y": ("y.trec",)}),
        ("c.npz b.t2i.trec b.i2t.run", "", {"c": ("c.npz",), "b": ("b.t2i.trec", "b.i2t.run")}),
        ("i2t.trec a_i2t.trec", "", {"i2t": ("i2t.trec",), "a": ("a_i2t.trec",)}),
    ],
)
def test_files_are_grouped_into_models(files, directions, groups, tmp_path):
    paths = [tmp_path / name for name in files.split()]
    for path in paths:
        path.touch()
    found = group_files(paths, directions.split())
    assert {name: tuple(path.name for path in of) for name, (of, _) in found} == groups


def test_number_of_directions_must_fit():
    with pytest.raises(InvalidOption, match="3 files and 2 directions: give one, or one for each file"):
        group_files([Path(name) for name in ("a.trec", "b.trec", "c.trec")], ["i2t", "t2i"])
