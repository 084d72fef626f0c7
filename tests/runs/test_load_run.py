"""load_run: every form is told apart, read into the same run, and refused where it does not say enough."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxc_eccv.errors import InvalidOption, MalformedRun, NoSuchFile, UnknownName
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun, load_run, save_embeddings
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


FORMS = [write_json, write_two_json, write_long_parquet, write_from_zero, write_listed_parquet, write_trec]


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


@pytest.mark.parametrize("write", [write_trec, lambda folder: write_long_parquet(folder, drop=())])
def test_scores_come_along(write, tmp_path):
    lists = load_run(*write(tmp_path)).lists["i2t"]
    assert lists.query_ids.tolist() == [4, 5]
    np.testing.assert_allclose(lists.scores, [1 / 2, 1 / 3, 1 / 2, 1 / 3, 1 / 4])


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
    with pytest.raises(UnknownName, match="unknown direction 'i2c'"):
        RankingsRun({"i2c": run.lists["i2t"]})
    far = 10**15
    with pytest.raises(MalformedRun, match=f"query 2 lists item {far} twice, at ranks 1 and 3"):
        RankedLists.of({1: [5, far], 2: [far, 5, far]})
    lists = RankedLists.of({1: [5, 6], 2: [5, 6]})
    assert dataclasses.replace(lists, scores=np.array([2.0, 1.0, 9.0, 9.0])).scores is not None
    with pytest.raises(MalformedRun, match=r"query 2 has score 9\.5 at rank 2"):
        dataclasses.replace(lists, scores=np.array([2.0, 1.0, 9.0, 9.5]))
    with pytest.raises(MalformedRun, match="query 2 has score inf at rank 1"):
        dataclasses.replace(lists, scores=np.array([2.0, 1.0, np.inf, 9.5]))


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


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"scores": np.ones((1, 1))}, "holds scores but not image_ids and caption_ids"),
        ({"scores": np.ones((1, 1)), "image_embeddings": np.ones((1, 1))}, "holds both scores and image_embeddings"),
        ({"features": np.ones((1, 1))}, r"holds \['features'\]; needs image_ids with"),
        ({}, "holds no array"),
    ],
)
def test_archives_of_other_arrays_are_refused(arrays, words, tmp_path):
    np.savez(tmp_path / "run.npz", **arrays)
    with pytest.raises(MalformedRun, match=words):
        load_run(tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("run.json", "{}", "holds nothing; need"),
        ("run.json", "[1]", "holds a list; need"),
        ("run.json", "  ", "is empty"),
        ("run.json", '{"i2t": {"1": [2]}, "best": 3}', "key 'best' is neither a direction"),
        ("run.json", '{"i2t": [1]}', "run.json, i2t: is a list"),
        ("run.json", f'{{"i2t": {{"{2**70}": [1]}}}}', "not a whole number of 64 bits"),
        ("run.json", '{"1": [2]}', "does not say which direction"),
        ("i2t_or_t2i.json", '{"1": [2]}', "does not say which direction"),
        ("run.trec", "1 Q0 2 1 0.5 x", "does not say which direction"),
        ("i2t.trec", "1 Q0 2 first 0.5 x", "line 1: is '1 Q0 2 first .*; a line has query id"),
        ("i2t.trec", f"1 Q0 {2**70} 1 0.5 x", "line 1: is .* 64 bits"),
        ("i2t.trec", "1 Q0 2 1 0.5 x\n\n1 Q0 3 2 x", "line 3: is '1 Q0 3 2 x'"),
        ("i2t.trec", "1 Q0 2 1 high x", "line 1: is .*, the score a number"),
        ("i2t.trec", "1 Q0 2 1 0.5 x\n1 Q0 3 1 0.5 x", r"ranks of query 1 begin \[1, 1\]"),
        ("i2t.trec", "1 Q0 2 2 0.5 x\n1 Q0 3 3 0.5 x", r"ranks of query 1 begin \[2, 3\]"),
        ("i2t.trec", "1 Q0 2 1 0.5 x\n1 Q0 2 2 0.5 x", "lists item 2 twice, at ranks 1 and 2"),
    ],
)
def test_text_that_leaves_something_open_is_refused(name, text, words, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(MalformedRun, match=words):
        load_run(tmp_path / name)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"query_id": [1], "rank": [1]}, "has the columns query_id, rank, direction; needs query_id"),
        (
            {"query_id": [1, None], "rank": [1, 1], "item_id": [2, 3]},
            "column query_id: has 1 nulls, the first in row 1",
        ),
        ({"query_id": [1], "rank": [1.0], "item_id": [2]}, "column rank: has type double"),
        ({"query_id": [1], "rank": [1], "item_id": ["2"]}, "column item_id: has type string"),
        ({"query_id": [1], "item_ids": [["2"]]}, "column item_ids: has type string"),
        ({"query_id": [1], "item_ids": [[2, None]]}, "column item_ids: has 1 nulls, the first in row 1"),
        ({"query_id": [1], "item_ids": [2]}, "column item_ids: has type int64, expected lists"),
        ({"query_id": [1], "rank": [1], "item_id": [2], "score": ["a"]}, "column score: has type string"),
        (
            {"query_id": [1], "rank": [1], "item_id": [2], "Score": [0.5]},
            "column Score: holds .* there is no column score,",
        ),
        ({"query_id": [1], "item_ids": [[2]], "score": [[0.5]]}, "column score: holds .* there is no column scores,"),
        ({"query_id": [], "rank": [], "item_id": []}, "has no rows"),
        (
            {"query_id": pa.array([2**63], pa.uint64()), "item_ids": [[1]]},
            "column query_id: id 9223372036854775808 does not fit",
        ),
    ],
)
def test_tables_that_are_no_rankings_are_refused(columns, words, tmp_path):
    rows = len(columns["query_id"])
    pq.write_table(pa.table({**columns, "direction": pa.array(["i2t"] * rows, pa.string())}), tmp_path / "run.parquet")
    with pytest.raises(MalformedRun, match=words):
        load_run(tmp_path / "run.parquet")


def test_the_direction_is_an_option_where_the_file_does_not_say_it(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(T2I))
    assert as_dicts(load_run(tmp_path / "run.json", direction="t2i")) == {"t2i": T2I}
    with pytest.raises(UnknownName, match="unknown direction 't2x'"):
        load_run(tmp_path / "run.json", direction="t2x")
    pq.write_table(pa.table({"query_id": [30], "item_ids": [[4, 5]]}), tmp_path / "t2i.parquet")
    assert as_dicts(load_run(tmp_path / "t2i.parquet")) == {"t2i": {30: [4, 5]}}


def test_options_at_odds_with_the_files_are_refused(tmp_path):
    write_json(tmp_path)
    write_long_parquet(tmp_path)
    np.savez(tmp_path / "run.npz", caption_ids=[1], caption_embeddings=[[1.0]])
    for name in ("run.json", "run.parquet", "run.npz"):
        with pytest.raises(InvalidOption, match="direction"):
            load_run(tmp_path / name, direction="i2t")
    with pytest.raises(InvalidOption, match="got 2 files, but only rankings"):
        load_run(tmp_path / "run.npz", tmp_path / "run.json")
    with pytest.raises(InvalidOption, match="needs a file"):
        load_run()
    with pytest.raises(MalformedRun, match="both hold the rankings of i2t"):
        load_run(tmp_path / "run.json", tmp_path / "run.parquet")


def test_files_that_cannot_be_opened_or_name_other_directions(tmp_path):
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(MalformedRun, match="is a folder"):
        load_run(tmp_path / "folder.json")
    with pytest.raises(NoSuchFile, match="no such file"):
        load_run(tmp_path / "absent.trec")
    pq.write_table(pa.table({"query_id": [1], "item_ids": [[2]], "direction": ["I2T"]}), tmp_path / "run.parquet")
    with pytest.raises(UnknownName, match=r"run\.parquet.*'I2T'; did you mean|Known: i2t"):
        load_run(tmp_path / "run.parquet")
    (tmp_path / "i2t.trec").write_bytes(b"1 Q0 2 1 0.5 \xff")
    with pytest.raises(MalformedRun, match="byte 13 is not UTF-8"):
        load_run(tmp_path / "i2t.trec")


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


def test_rankings_of_one_model_say_what_it_is_called(tmp_path):
    one = parquet_of(tmp_path / "i2t.parquet", 1, 7, {"model": NAME})
    other = parquet_of(tmp_path / "t2i.parquet", 7, 1, None)
    run = load_run(one, other)
    assert (run.model, run.facts().model, load_run(other).model) == (NAME, NAME, None)
    parquet_of(other, 7, 1, {"model": "SigLIP"})
    with pytest.raises(MalformedRun, match=r"are of CLIP B/32, .* and SigLIP; give files of one model"):
        load_run(one, other)
    parquet_of(other, 7, 1, {"model": b"\xff"})
    with pytest.raises(MalformedRun, match="not UTF-8"):
        load_run(other)


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", ["one", "two"], 7])
def test_a_name_is_a_line_of_text(name, tmp_path):
    with pytest.raises(MalformedRun, match=r"run: the model's name is"):
        EmbeddingsRun(None, Embeddings([1], [[1.0]]), model=name)
    np.savez(tmp_path / "run.npz", caption_ids=[1], caption_embeddings=[[1.0]], model=name)
    with pytest.raises(MalformedRun, match=r"run\.npz(, model|: the model's name is)"):
        load_run(tmp_path / "run.npz")


def test_absent_file_suggests_the_nearest(tmp_path):
    (tmp_path / "clip_b32.npz").touch()
    with pytest.raises(FileNotFoundError, match=r"clip_b23\.npz: no such file; did you mean .*clip_b32\.npz\?"):
        load_run(tmp_path / "clip_b23.npz")
    with pytest.raises(NoSuchFile, match=r"clip_b32\.np: no such file; did you mean .*clip_b32\.npz\?"):
        load_run(tmp_path / "clip_b32.np")
    with pytest.raises(NoSuchFile, match=r"there is no folder .*models"):
        load_run(tmp_path / "models" / "clip.npz")
