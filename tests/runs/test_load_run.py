"""load_run: every form is told apart, read into the same run, and refused where it does not say enough."""

import dataclasses
import gzip
import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun, load_run, save_embeddings
from cxc_eccv.runs.load import group_files
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import Embeddings
from cxc_eccv.types.provenance import ItemFacts

I2T = {5: [30, 10, 20], 4: [20, 10]}
T2I = {30: [4, 5], 10: [5], 20: [4, 5]}


def as_dicts(run):
    return {
        direction: dict(
            zip(
                lists.query_ids.tolist(),
                [row.tolist() for row in np.split(lists.items, lists.indptr[1:-1])],
                strict=True,
            )
        )
        for direction, lists in run.lists.items()
    }


def long_rows(direction, lists, first_rank=1):
    return [
        {"query_id": query, "direction": direction, "rank": rank, "item_id": item, "score": 1 / (1 + rank)}
        for query, items in lists.items()
        for rank, item in enumerate(items, first_rank)
    ]


def write_json(folder):
    (folder / "run.json").write_text(json.dumps({"i2t": I2T, "t2i": T2I}))
    return [folder / "run.json"]


def write_two_json(folder):
    (folder / "clip_i2t.json").write_text(json.dumps(I2T))
    (folder / "clip-t2i.json").write_text(json.dumps(T2I))
    return [folder / "clip_i2t.json", folder / "clip-t2i.json"]


def write_long_parquet(folder, first_rank=1, drop=("score",)):
    rows = long_rows("i2t", I2T, first_rank) + long_rows("t2i", T2I, first_rank)
    shuffled = [rows[place] for place in np.random.default_rng(0).permutation(len(rows))]
    pq.write_table(pa.Table.from_pylist(shuffled).drop_columns(list(drop)), folder / "run.parquet")
    return [folder / "run.parquet"]


def write_from_zero(folder):
    return write_long_parquet(folder, first_rank=0)


def write_listed_parquet(folder):
    table = {
        "query_id": pa.array([*I2T, *T2I], pa.int32()),
        "direction": pa.array(["i2t"] * len(I2T) + ["t2i"] * len(T2I)).dictionary_encode(),
        "item_ids": pa.array([*I2T.values(), *T2I.values()], pa.large_list(pa.uint32())),
    }
    pq.write_table(pa.table(table), folder / "run.parquet")
    return [folder / "run.parquet"]


def write_trec(folder):
    for direction, lists in (("i2t", I2T), ("t2i", T2I)):
        lines = [
            f"{row['query_id']}\tQ0  {row['item_id']} {row['rank']} {row['score']} clip"
            for row in reversed(long_rows(direction, lists))
        ]
        (folder / f"run.{direction}.trec").write_text("\n".join(lines) + "\n\n")
    return [folder / "run.i2t.trec", folder / "run.t2i.trec"]


def gzip_files(paths):
    """The same files, gzipped."""
    packed = [path.with_name(f"{path.name}.gz") for path in paths]
    for path, to in zip(paths, packed, strict=True):
        to.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def write_gzipped_json(folder):
    return gzip_files(write_two_json(folder))


def write_gzipped_trec(folder):
    return gzip_files(write_trec(folder))


def with_scores(lists):
    """The dicts of scores that have this order, their items in another one."""
    return {
        query: {item: 1 / (1 + rank) for rank, item in sorted(enumerate(row, 1))[::-1]} for query, row in lists.items()
    }


def write_scored_json(folder):
    (folder / "run.json").write_text(json.dumps({"i2t": with_scores(I2T), "t2i": with_scores(T2I)}))
    return [folder / "run.json"]


FORMS = [
    write_scored_json,
    write_gzipped_json,
    write_gzipped_trec,
    write_json,
    write_two_json,
    write_long_parquet,
    write_from_zero,
    write_listed_parquet,
    write_trec,
]


@pytest.mark.parametrize("write", FORMS)
def test_every_form_of_rankings_holds_the_same(write, tmp_path):
    paths = write(tmp_path)
    run = load_run(*paths)
    assert as_dicts(run) == as_dicts(RankingsRun.from_dicts(I2T, T2I))
    assert run.path == (paths[0] if len(paths) == 1 else None)
    facts = run.facts()
    assert facts.kind == "rankings"
    assert (facts.images, facts.captions) == (ItemFacts(2), ItemFacts(3))
    lists = facts.directions["i2t"]
    assert (lists.file, lists.queries, lists.shallowest, lists.deepest) == (paths[0].name, 2, 2, 3)
    assert len(facts.directions["t2i"].sha256) == 64


@pytest.mark.parametrize(
    "write", [write_trec, write_gzipped_trec, write_scored_json, lambda folder: write_long_parquet(folder, drop=())]
)
def test_scores_come_along(write, tmp_path):
    lists = load_run(*write(tmp_path)).lists["i2t"]
    scores = dict(zip(lists.query_ids.tolist(), np.split(lists.scores, lists.indptr[1:-1]), strict=True))
    np.testing.assert_allclose(scores[4], [1 / 2, 1 / 3])
    np.testing.assert_allclose(scores[5], [1 / 2, 1 / 3, 1 / 4])


@pytest.mark.parametrize(
    "score", [int, np.float16, np.int64, np.array, Fraction], ids=["int", "float16", "int64", "0-d array", "fraction"]
)
def test_scores_may_be_any_numbers(score):
    lists = RankedLists.of({"5": {"30": score(1), np.int32(10): score(3), 20: score(2)}})
    assert lists.items.tolist() == [10, 20, 30]
    assert lists.scores.tolist() == [3.0, 2.0, 1.0]


def test_scores_of_tensors_are_read():
    torch = pytest.importorskip("torch")
    row = {7: torch.tensor(0.25, dtype=torch.bfloat16), 8: torch.tensor(0.5, requires_grad=True)}
    assert RankedLists.of({1: row}).scores.tolist() == [0.5, 0.25]


def test_gzipped_files_of_models_are_told_apart(tmp_path):
    paths = gzip_files(write_two_json(tmp_path))
    ((name, (files, _)),) = group_files(paths)
    assert (name, files) == ("clip", tuple(paths))
    other = tmp_path / "blip_i2t.json.gz"
    other.write_bytes(paths[0].read_bytes())
    assert [name for name, _ in group_files([*paths, other])] == ["clip", "blip"]


def test_dicts_take_what_users_have():
    array = RankingsRun.from_dicts({np.int64(5): np.array([30, 10, 20]), "4": (20, 10)}).lists["i2t"]
    assert array.query_ids.tolist() == [5, 4]
    assert array.items.dtype == np.int32
    assert RankedLists.of({5: [2**40]}).items.dtype == np.int64
    assert array.items.tolist() == [30, 10, 20, 20, 10]
    run = RankingsRun.from_dicts(i2t={1: [7]}, t2t={8: [9, 7]}, i2i={2: [1]})
    assert run.ids("images").tolist() == [1, 2]
    assert run.ids("captions").tolist() == [7, 8, 9]
    assert run.why_not("t2i") == "the run has no t2i rankings"
    lists = RankedLists.of({1: [5, 6], 2: [5, 6]})
    assert dataclasses.replace(lists, scores=np.array([2.0, 1.0, 9.0, 9.0])).scores is not None


def test_npz_files_are_told_apart(tmp_path):
    run = EmbeddingsRun(Embeddings([1], [[1.0, 2.0]]), Embeddings([7], [[1.0, 0.0]]))
    for suffix in (".npz", ".safetensors"):
        save_embeddings(tmp_path / f"e{suffix}", run)
        assert load_run(tmp_path / f"e{suffix}").kind == "embeddings"
    np.savez(tmp_path / "s.npz", image_ids=[1], caption_ids=[7, 8], scores=np.ones((1, 2), np.float16))
    scores = load_run(str(tmp_path / "s.npz"))
    assert isinstance(scores, ScoresRun)
    assert scores.scores.dtype == np.float16
    assert scores.facts().images == ItemFacts(1)
    assert scores.facts().file == "s.npz"


def test_direction_option_is_used_where_file_has_none(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(T2I))
    assert as_dicts(load_run(tmp_path / "run.json", direction="t2i")) == {"t2i": T2I}
    pq.write_table(pa.table({"query_id": [30], "item_ids": [[4, 5]]}), tmp_path / "t2i.parquet")
    assert as_dicts(load_run(tmp_path / "t2i.parquet")) == {"t2i": {30: [4, 5]}}


NAME = "CLIP B/32, ours \u2013 épée"


def test_a_file_says_what_its_model_is_called(tmp_path):
    sides = Embeddings([1], [[1.0]]), Embeddings([7], [[1.0]])
    for suffix in (".npz", ".safetensors"):
        save_embeddings(tmp_path / f"run{suffix}", EmbeddingsRun(*sides, model=NAME))
        run = load_run(tmp_path / f"run{suffix}")
        assert (run.model, run.facts().model) == (NAME, NAME)
        save_embeddings(tmp_path / f"run{suffix}", EmbeddingsRun(*sides))
        run = load_run(tmp_path / f"run{suffix}")
        assert (run.model, run.facts().model) == (None, None)
    np.savez(tmp_path / "scores.npz", image_ids=[1], caption_ids=[7], scores=[[0.5]], model=[NAME])
    run = load_run(tmp_path / "scores.npz")
    assert (run.model, run.facts().model) == (NAME, NAME)


def parquet_of(path, queries, item, metadata):
    columns = {"query_id": [queries], "rank": [1], "item_id": [item]}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    return path


def test_rankings_of_one_model_carry_its_name(tmp_path):
    one = parquet_of(tmp_path / "i2t.parquet", 1, 7, {"model": NAME})
    other = parquet_of(tmp_path / "t2i.parquet", 7, 1, None)
    run = load_run(one, other)
    assert (run.model, run.facts().model, load_run(other).model) == (NAME, NAME, None)


@pytest.mark.parametrize("zero", ["0", "-0.0", "0e5", "0.000"])
def test_true_zeros_are_scores(zero, tmp_path):
    (tmp_path / "run_i2t.trec").write_text(f"5 Q0 7 1 1.5 tag\n5 Q0 8 2 {zero} tag\n")
    assert load_run(tmp_path / "run_i2t.trec").lists["i2t"].scores.tolist() == [1.5, 0.0]
