"""evaluate takes a run in every form that people have, with one report; a form that may mean two things is refused."""

import dataclasses
import gzip
import json

import numpy as np
import pytest
from command_line import run_command

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedRun, UnknownName
from cxc_eccv.runs import RankingsRun, ScoresRun
from cxc_eccv.runs.rankings import write_rankings

DIRECTIONS = ("i2t", "t2i")


@pytest.fixture(scope="module")
def split(sample_library):
    return sample_library.split("test")


@pytest.fixture(scope="module")
def scores(split):
    """(N, M) scores of one digit, so that many items tie."""
    random = np.random.default_rng(4)
    is_own = split.image_ids[:, None] == split.caption_image_ids
    return np.round(random.standard_normal(is_own.shape) + is_own, 1)


def make_dicts(split, scores, depth=None):
    """``{query: {item: score}}`` of both directions, the best items first or all in the order of the split."""
    dicts = {}
    for direction, matrix, queries, items in (
        ("i2t", scores, split.image_ids, split.caption_ids),
        ("t2i", scores.T, split.caption_ids, split.image_ids),
    ):
        rows = {}
        for query, row in zip(queries.tolist(), matrix, strict=True):
            listed = np.argsort(-row, kind="stable")[:depth] if depth else np.arange(row.size)
            rows[query] = dict(zip(items[listed].tolist(), row[listed].tolist(), strict=True))
        dicts[direction] = rows
    return dicts


def write_files(folder, dicts):
    """The same run as files: JSON of both directions, gzipped, of one direction each, and Parquet."""
    text = json.dumps(dicts)
    (folder / "run.json").write_text(text)
    (folder / "run.json.gz").write_bytes(gzip.compress(text.encode()))
    write_rankings(folder / "run.parquet", RankingsRun.from_dicts(**dicts))
    return [folder / "run.json", str(folder / "run.json.gz"), folder / "run.parquet"]


def rows(report):
    """Key to everything that the report says under it."""
    return {row.key: dataclasses.astuple(row) for row in report.results}


@pytest.mark.parametrize("depth", [None, 20])
def test_dicts_and_files_give_one_report(depth, split, scores, report_of, tmp_path):
    dicts = make_dicts(split, scores, depth)
    expected = report_of(**dicts)
    assert sum(row.ties > 0 for row in expected.results) > 10
    for form in (dicts, RankingsRun.from_dicts(**dicts), *write_files(tmp_path, dicts)):
        report = report_of(form)
        assert rows(report) == rows(expected)
        assert report.skipped == expected.skipped
        assert report.doubts == expected.doubts


def test_whole_dicts_equal_their_score_matrix(split, scores, report_of):
    """Ties, intervals and the values if ties help included."""
    expected = rows(report_of(ScoresRun(split.image_ids, split.caption_ids, scores), ["coco_5k", "eccv_caption"]))
    assert rows(report_of(**make_dicts(split, scores), tasks=["coco_5k", "eccv_caption"])) == expected


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_dict_needs_its_direction(direction, split, scores, report_of, tmp_path):
    one = make_dicts(split, scores, 20)[direction]
    expected = report_of(**{direction: one}, confidence=None)
    assert {row.direction for row in expected.results} == {direction}
    (tmp_path / "run.json").write_text(json.dumps(one))
    assert rows(report_of({direction: one}, confidence=None)) == rows(expected)
    for run in (one, tmp_path / "run.json"):
        assert rows(report_of(run, direction=direction, confidence=None)) == rows(expected)
    with pytest.raises(InvalidOption, match=r"does not say which; name it: evaluate\(i2t"):
        report_of(one)
    with pytest.raises(MalformedRun, match="--direction i2t"):
        report_of(tmp_path / "run.json")


def test_lists_lose_only_what_ties_say(split, scores, report_of):
    """The order of lists is trusted: with positives behind all that tie, they give the values of the scores."""
    dicts = make_dicts(split, scores)
    owners = dict(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    lists = {}
    for query, row in dicts["t2i"].items():
        lists[query] = sorted(row, key=lambda item: (-row[item], item == owners[query]))
    options = {"tasks": "coco_5k/t2i", "confidence": None}
    assert report_of(t2i=lists, **options).scores == report_of(t2i=dicts["t2i"], **options).scores


@pytest.mark.parametrize("name", ["scores", "embeddings", "directions"])
def test_arrays_equal_their_file(name, split, scores, report_of, tmp_path):
    arrays = {"image_ids": split.image_ids, "caption_ids": split.caption_ids, "model": "CLIP"}
    if name == "scores":
        arrays["scores"] = scores
    elif name == "directions":
        arrays["scores_i2t"] = scores
        arrays["scores_t2i"] = scores.T
    else:
        random = np.random.default_rng(0)
        arrays["image_embeddings"] = random.standard_normal((split.image_ids.size, 4))
        arrays["caption_embeddings"] = random.standard_normal((split.caption_ids.size, 4))
        arrays["similarity"] = "dot"
    np.savez(tmp_path / "run.npz", **arrays)
    expected = report_of(tmp_path / "run.npz", confidence=None)
    with np.load(tmp_path / "run.npz") as archive:
        nested_lists = {name: np.asarray(value).tolist() for name, value in arrays.items()}
        for form in (arrays, archive, nested_lists):
            report = report_of(form, confidence=None)
            assert rows(report) == rows(expected)
            assert report.provenance.model == "CLIP"
            assert report.provenance.similarity == expected.provenance.similarity


def test_tensors_are_arrays_too(split, report_of):
    torch = pytest.importorskip("torch")
    vectors = torch.ones((split.caption_ids.size, 4), dtype=torch.bfloat16, requires_grad=True)
    texts = {"caption_ids": torch.tensor(split.caption_ids), "caption_embeddings": vectors}
    assert report_of(texts, "cxc/t2t", confidence=None).scores["cxc/t2t/recall_at_1"] == 0


REFUSED = {
    "nothing": ({}, InvalidOption, "nothing to evaluate: give a file, dicts"),
    "two dicts without names": ({"run": {1: [2]}, "tasks": {2: [1]}}, InvalidOption, r"evaluate\(i2t=\{\.\.\.\}, t2i"),
    "a run and a dict": ({"run": {1: [2]}, "i2t": {1: [2]}}, InvalidOption, "either a run or these dicts"),
    "a dict and a direction": ({"i2t": {1: [2]}, "direction": "i2t"}, InvalidOption, "name their directions"),
    "directions and a direction": (
        {"run": {"i2t": {1: [2]}}, "direction": "i2t"},
        InvalidOption,
        r"names its directions \(i2t\); leave out",
    ),
    "a run and a direction": (
        {"run": RankingsRun.from_dicts({1: [2]}), "direction": "i2t"},
        InvalidOption,
        "is for a dict or a file of one direction",
    ),
    "an unknown direction": ({"run": {1: [2]}, "direction": "t2v"}, UnknownName, "unknown direction 't2v'; did you"),
    "an unknown key": ({"run": {"txt2img": {1: [2]}}}, MalformedRun, "the run: key 'txt2img' is neither a direction"),
    "names of files": (
        {"run": {"COCO_val2014_000000000042.jpg": {1: 0.5}}, "direction": "i2t"},
        MalformedRun,
        "the last number in the names of COCO's files",
    ),
    "an empty dict": ({"run": {}}, MalformedRun, "the run is an empty dict"),
    "an empty dict of a direction": ({"i2t": {}}, MalformedRun, "i2t: holds no query"),
    "no results of a query": ({"i2t": {1: {}}}, MalformedRun, "the ranking of query 1 is empty"),
    "lists and scores": (
        {"i2t": {1: [2], 3: {4: 0.5}}},
        MalformedRun,
        "query 3 has a dict of scores, query 1 has none",
    ),
    "lists beside scores": ({"i2t": {1: [2]}, "t2i": {2: {1: 0.5}}}, MalformedRun, "give both directions in one form"),
    "a matrix for a dict": (
        {"i2t": np.eye(2)},
        MalformedRun,
        r"i2t is an array of shape \(2, 2\) without ids; .*'scores_i2t': array",
    ),
    "scores without ids": ({"run": {"scores": np.eye(2), "image_ids": [1, 2]}}, MalformedRun, "but not caption_ids"),
    "scores and vectors": (
        {"run": {"scores": np.eye(2), "image_embeddings": np.eye(2)}},
        MalformedRun,
        "run: holds both scores and image_embeddings",
    ),
    "vectors without ids": ({"run": {"image_embeddings": np.eye(2)}}, MalformedRun, "but not 'image_ids'"),
    "arrays and a direction": (
        {"run": {"image_ids": [1], "image_embeddings": np.eye(1)}, "direction": "i2i"},
        InvalidOption,
        "is for rankings; leave it out",
    ),
}


@pytest.mark.parametrize(("given", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_form_that_is_no_run_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        ce.evaluate(**given, data_dir="sample")


def test_command_reads_gzipped_run_of_one_direction(split, scores, tmp_path):
    one = make_dicts(split, scores, 20)["t2i"]
    path = tmp_path / "clip.json.gz"
    path.write_bytes(gzip.compress(json.dumps(one).encode()))
    _, message = run_command("--data-dir", "sample", "evaluate", path, status=2)
    assert "clip_i2t.json.gz" in message
    assert "--direction i2t" in " ".join(message.split())
    run_command("--data-dir", "sample", "evaluate", path, "--direction", "t2i", "--output", tmp_path / "report")
    report = ce.load_report(tmp_path / "report")
    assert report.scores == ce.evaluate(t2i=one, data_dir="sample").scores
    assert report.provenance.run.directions["t2i"].file == "clip.json.gz"
