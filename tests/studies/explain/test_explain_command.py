"""``cxc-eccv explain``: its files, what it says on a terminal, and that it refuses what evaluate refuses."""

import inspect
import json
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow.parquet as pq
import pytest

from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, load_run, save_embeddings
from cxc_eccv.runs.rankings import write_rankings
from cxc_eccv.studies.explain.commands.explain import explain as explain_command
from cxc_eccv.studies.explain.failed_queries import TASKS
from cxc_eccv.types import Embeddings

FILES = ["explain.html", "explain.json", "explain.md", "failures.parquet"]

pytestmark = [pytest.mark.usefixtures("wordnet"), pytest.mark.thorough]


@pytest.fixture
def files(make_run, sample_library, tmp_path):
    paths = [tmp_path / f"{name}.npz" for name in ("one", "other")]
    for seed, path in enumerate(paths):
        save_embeddings(path, make_run(sample_library, seed=seed))
    return paths


@pytest.fixture
def explain(command):
    return partial(command, "explain")


def content_of(folder):
    return json.loads((folder / "explain.json").read_text(encoding="utf-8"))


def test_numbers_by_the_names_of_the_format(explain, files, tmp_path, sample_library):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("mine")
    (out / "explain.json").write_text("of another program")
    assert "has files that no command wrote: explain.json" in explain(files[0], "--output", out)[2]
    (out / "explain.json").unlink()
    status, shown, _ = explain(files[0], "--output", out)
    assert status == 0
    assert sorted(path.name for path in out.glob("[!.]*")) == [*FILES, "mine.txt"]
    assert (out / "mine.txt").read_text() == "mine"
    content = content_of(out)
    assert (content["schema"], content["model"]) == (1, "one")
    scores = content["scores"]
    table = pq.read_table(out / "failures.parquet")
    report = evaluate(load_run(files[0]), ["coco_5k", "co_captions"], data_dir=sample_library)
    for direction, task in TASKS.items():
        failures = scores[f"{direction}/failures"]
        rate = failures / scores[f"{direction}/queries"]
        assert rate == pytest.approx(1 - report.scores[f"{task}/{direction}/recall_at_1"], abs=1e-12)
        assert table["direction"].to_pylist().count(direction) == failures
        for name in ("without_concepts", "concept_agreement", "concept_enumeration", "size_disagreement"):
            assert np.isfinite(scores[f"{direction}/{name}"])
        assert f"{failures:,}" in shown
    assert {"data", "run", "concepts", "wordnet", "split", "command"} <= content["provenance"].keys()
    assert content["provenance"]["run"]["sha256"]
    assert "instances" in " ".join(content["provenance"]["data"]["files"])
    assert b"explained" in table.schema.metadata


def test_terminal_begins_with_kinds_of_failures(explain, files, tmp_path):
    shown = explain(files[0], "--output", tmp_path / "out")[1]
    kinds, numbers = shown.split("Failures of one")
    scores = content_of(tmp_path / "out")["scores"]
    counts = {}
    for line in kinds.splitlines():
        for title in ("failures", "far off", "partly right", "near miss", "without a verdict"):
            if line.strip().startswith(f"{title} "):
                counts[title] = [int(count) for count in re.findall(r"(\d+) \(", line)]
    directions = ("t2i", "i2t", "t2t")
    assert counts["failures"] == [scores[f"{direction}/failures"] for direction in directions]
    assert [*map(sum, zip(*list(counts.values())[1:], strict=True))] == counts["failures"]
    assert counts["without a verdict"] == [scores[f"{direction}/without_concepts"] for direction in directions]
    assert "near miss: the retrieved image shows all key concepts" in " ".join(kinds.split())
    assert (tmp_path / "out" / "explain.md").read_text().index("near miss") > 0
    assert "CA" in numbers


def test_explain_compares_models_reproducibly(explain, files, tmp_path):
    """Equal inputs give equal bytes."""
    words = (*files, "--name", "A", "--name", "B", "--direction", "t2i", "--direction", "i2t", "--output")
    status, shown, _ = explain(*words, tmp_path / "o")
    assert status == explain(*words, tmp_path / "again")[0] == 0
    for file in FILES:
        assert (tmp_path / "o" / file).read_bytes() == (tmp_path / "again" / file).read_bytes()
    assert "B minus A" in shown
    assert "B minus A" in (tmp_path / "o" / "explain.html").read_text(encoding="utf-8")
    content = content_of(tmp_path / "o")
    assert content["model"] == "A"
    assert [other["model"] for other in content["others"]] == ["B"]
    rows = {row["key"]: row for row in content["paired"]}
    assert not any(key.startswith("t2t") for key in (*rows, *content["scores"]))
    assert "confidence" not in content["provenance"]
    assert rows["t2i/failure_rate"]["low"] < rows["t2i/failure_rate"]["high"]


@pytest.fixture
def bad_files(make_run, sample_library, tmp_path):
    run = make_run(sample_library)
    ids = run.captions.ids
    vectors = run.captions.vectors
    turned = {"adversarial_size_ids": ids[:3], "adversarial_size_embeddings": 0 * vectors[:3]}
    runs = {
        "zero": EmbeddingsRun(run.images, Embeddings(ids, np.append(0 * vectors[:1], vectors[1:], axis=0))),
        "short": EmbeddingsRun(run.images, Embeddings(ids[1:], vectors[1:])),
        "altered": EmbeddingsRun(None, None, further=turned),
    }
    for name, own in runs.items():
        save_embeddings(tmp_path / f"{name}.npz", own)
    for name, queries in (("whole", ids), ("first", ids[::5])):
        tops = RankingsRun.from_dicts(t2i=dict.fromkeys(queries.tolist(), run.images.ids))
        write_rankings(tmp_path / f"{name}.parquet", replace(tops, corpus="a mean"))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one.npz", "--output", "other.npz"], r"other\.npz"),
        (["one.npz", "--images", "folder"], "name a folder for it with --output"),
        (["one.npz", "--adversarial", "absent.npz"], "absent.npz.* no such file"),
        (["one.npz", "--adversarial", "other.npz"], "other.npz has no altered queries"),
        (["one.npz", "--adversarial", "altered.npz"], r"3 of 3 altered queries \(size\) have a zero vector"),
        (["whole.parquet", "--adversarial", "altered.npz"], "altered queries need vectors"),
        (["one.npz", "other.npz", "--seed", "-1"], "seed"),
        (["one.npz", "--size-threshold", "0"], "threshold is 0.0; give a number above 0"),
        (["whole.parquet", "--similarity", "dot"], "similarity='dot' is for embeddings"),
        (["whole.parquet", "first.parquet"], "have different t2i queries, 300 and 60. Give .* --query-position"),
        (["short.npz"], "cxc-eccv evaluate --allow-missing scores the part"),
        (["one.npz", "--annotations", "absent.json"], "absent.json"),
        (["one.npz", "other.npz", "--adversarial", "one.npz"], "--adversarial is for one model"),
        (["one.npz", "--concepts", "cocoa"], "source of concepts 'cocoa'"),
        (["one.npz", "--direction", "i2i"], "direction 'i2i'"),
        (["one.npz", "--split", "tset"], "split 'tset'"),
        (["one.npz", "--name", "A", "--name", "B"], "1 models need as many different names, not A, B"),
        (["one.npz", "--similarity", "euclid"], "euclid"),
        (["one.npz", "--concepts", "visual-genome", "--annotations", "absent"], "objects.json is not a file"),
        (["one.npz", "one.npz", "--direction", "t2i"], "--name"),
    ],
)
def test_inputs_are_checked_before_any_work(explain, files, bad_files, words, message, monkeypatch):
    """And every option that a message names is one of explain, or of another command that it names too."""
    monkeypatch.setattr("cxc_eccv.studies.explain.explanation.explain_run", None)
    places = [bad_files / word if "." in word else word for word in words]
    status, shown, said = explain(*places)
    said = " ".join(said.split())
    assert (status, shown) == (2, "")
    assert re.search(message, said), said
    own = {f"--{name.replace('_', '-')}" for name in inspect.signature(explain_command).parameters}
    named = set(re.findall(r"(?<![\w/])--[a-z][\w-]+", re.sub(r"cxc-eccv (evaluate|encode)[^.;]*", "", said)))
    assert named <= own | {"--query-position"}


def test_zero_vector_error_suggests_dot_similarity(explain, files, bad_files):
    status, _, said = explain(bad_files / "zero.npz")
    assert status == 2
    assert "or compare by dot product: --similarity dot (similarity='dot')" in " ".join(said.split())


def test_rankings_of_two_directions_are_one_model(explain, sample_library, tmp_path):
    content = sample_library.split("test")
    random = np.random.default_rng(0)
    paths = []
    sides = {"i2t": (content.image_ids, content.caption_ids), "t2i": (content.caption_ids, content.image_ids)}
    for direction, (queries, items) in sides.items():
        paths.append(tmp_path / f"clip_{direction}.json")
        lists = {str(query): random.permutation(items)[:12].tolist() for query in queries.tolist()}
        paths[-1].write_text(json.dumps({direction: lists}))
    status, shown, _ = explain(*paths, "--output", tmp_path / "out")
    assert status == 0
    assert "others" not in content_of(tmp_path / "out")
    assert content_of(tmp_path / "out")["not_computed"]["t2t"] == "the run has no t2t rankings"
    assert "t2t: the run has no t2t rankings." in " ".join(shown.split())
