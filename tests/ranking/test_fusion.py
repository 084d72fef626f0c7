"""Fusion: equal to a loop over lists, of every kind of run, with the tie rule of ranks; bad input is refused."""

import numpy as np
import pytest

from cxc_eccv.errors import InvalidOption, MissingIds, UnknownName
from cxc_eccv.ranking import fusion
from cxc_eccv.ranking.fusion import fuse
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun, load_run
from cxc_eccv.types import Embeddings

IMAGES, CAPTIONS = np.arange(10, 17), np.arange(50, 73)


def vectors(seed):
    random = np.random.default_rng(seed)
    images, captions = (random.standard_normal((ids.size, 8)).astype(np.float32) for ids in (IMAGES, CAPTIONS))
    return EmbeddingsRun(Embeddings(IMAGES, images), Embeddings(CAPTIONS, captions))


def score_matrix(seed):
    """Few distinct scores, so that lists have ties."""
    return ScoresRun(IMAGES, CAPTIONS, np.random.default_rng(seed).integers(0, 5, (7, 23)).astype(np.float32))


def slow_lists(run, direction, depth):
    """Query to [(item, score)], best first."""
    if isinstance(run, ScoresRun):
        scores = run.scores
    else:
        images, captions = (side.vectors / np.linalg.norm(side.vectors, axis=1, keepdims=True) for side in
                            (run.images, run.captions))  # fmt: skip
        scores = images @ captions.T
    queries, items, scores = (IMAGES, CAPTIONS, scores) if direction == "i2t" else (CAPTIONS, IMAGES, scores.T)
    return {
        query: sorted(zip(items.tolist(), row.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))[:depth]
        for query, row in zip(queries.tolist(), scores, strict=True)
    }


def slow_fusion(lists, method, weights):
    fused = {}
    for one, weight in zip(lists, weights, strict=True):
        for query, pairs in one.items():
            largest, least = pairs[0][1], pairs[-1][1]
            for item, score in pairs:
                rank = sum(other >= score for _, other in pairs)
                scaled = weight * (score - least) / (largest - least) if largest > least else 0
                of_query = fused.setdefault(query, {})
                of_query[item] = of_query.get(item, 0) + (1 / (60 + rank) if method == "rrf" else scaled)
    return fused


@pytest.mark.parametrize("method", ["rrf", "sum"])
@pytest.mark.parametrize("depth", [3, 100])
@pytest.mark.parametrize("at_once", [5, 1000])
def test_fusion_equals_a_loop_over_lists(method, depth, at_once, monkeypatch):
    monkeypatch.setattr(fusion, "QUERIES_AT_ONCE", at_once)
    runs, weights = [vectors(0), score_matrix(1), vectors(2)], (1.0, 0.5, 2.0)
    fused = fuse(runs, method, depth=depth, weights=weights if method == "sum" else None)
    assert [*fused.lists] == ["i2t", "t2i"]
    for direction, lists in fused.lists.items():
        expected = slow_fusion([slow_lists(run, direction, depth) for run in runs], method, weights)
        assert lists.query_ids.tolist() == sorted(expected)
        for place, query in enumerate(lists.query_ids.tolist()):
            part = slice(lists.indptr[place], lists.indptr[place + 1])
            found = dict(zip(lists.items[part].tolist(), lists.scores[part].tolist(), strict=True))
            assert found == pytest.approx(expected[query], abs=1e-5)  # scores are float32
            assert (np.diff(lists.scores[part]) <= 0).all()


def test_queries_are_matched_by_id_and_equal_sums_are_equal():
    one = RankingsRun.from_dicts({2: [7, 8, 9], 1: [9, 8, 7]})
    other = RankingsRun.from_dicts({1: [7, 9, 8], 2: [8, 9, 7]})
    third = RankingsRun.from_dicts({1: [8, 7, 9], 2: [9, 7, 8]})
    lists = fuse([one, other, third]).lists["i2t"]
    assert lists.query_ids.tolist() == [1, 2]
    assert len(set(lists.scores.tolist())) == 1  # every item has the ranks 1, 2, 3 in some order
    assert lists.items.tolist() == [7, 8, 9] * 2


def test_directions_within_a_modality_leave_out_the_query():
    lists = fuse([vectors(0), vectors(1)], depth=5).lists
    assert [*lists] == ["i2t", "t2i", "t2t", "i2i"]
    assert not (np.repeat(lists["t2t"].query_ids, lists["t2t"].depths) == lists["t2t"].items).any()


@pytest.mark.parametrize(
    ("runs", "options", "error", "message"),
    [
        ([{1: [2]}], {}, InvalidOption, "two or more runs, got 1"),
        ([{1: [2]}] * 2, {"method": "max"}, UnknownName, "method of fusion"),
        ([{1: [2]}] * 2, {"method": "sum"}, InvalidOption, "i2t: has ranks but no scores.*rrf"),
        ([{1: [2]}] * 2, {"weights": [1, 2]}, InvalidOption, "weights are for the method sum"),
        ([{1: [2]}] * 2, {"method": "sum", "weights": [1]}, InvalidOption, "2 runs need 2 positive weights, not 1"),
        ([{1: [2]}] * 2, {"method": "sum", "weights": [1, 0]}, InvalidOption, "positive weights, not 1, 0"),
        ([{1: [2]}, {1: [2], 4: [2]}], {}, MissingIds, "1 are in only one of them, the first: 4"),
    ],
)
def test_what_cannot_be_fused_is_refused(runs, options, error, message):
    with pytest.raises(error, match=message):
        fuse([RankingsRun.from_dicts(lists) for lists in runs], **options)


def test_runs_without_a_common_direction_are_refused():
    with pytest.raises(InvalidOption, match="no direction in common"):
        fuse([RankingsRun.from_dicts({1: [2]}), RankingsRun.from_dicts(t2i={2: [1]})])


def test_the_command_writes_rankings_that_load(tmp_path):
    from cxc_eccv.cli.app import main
    from cxc_eccv.runs.rankings import write_rankings

    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for file, run in zip(files, (vectors(0), vectors(1)), strict=True):
        write_rankings(file, fuse([run, run], depth=4))
    with pytest.raises(SystemExit) as ended:
        main(["fuse", *map(str, files), "--method", "sum", "--output", str(tmp_path / "fused.parquet")])
    assert not ended.value.code
    fused = load_run(tmp_path / "fused.parquet")
    expected = fuse([load_run(file) for file in files], "sum")
    assert fused.model == expected.model == "sum of rrf of run 1, run 2, rrf of run 1, run 2"
    np.testing.assert_array_equal(fused.lists["t2t"].items, expected.lists["t2t"].items)
