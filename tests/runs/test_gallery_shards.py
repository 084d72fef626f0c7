"""Shards of a gallery in Parquet."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxc_eccv.errors import DataError, MalformedRun, MissingIds
from cxc_eccv.runs import find_positives, make_shard, read_shard
from cxc_eccv.types import Judgments

IDS = np.array([30, 10, 20])
VECTORS = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float16)


def write(path, ids=IDS, vectors=VECTORS, **options):
    pq.write_table(make_shard(ids, vectors), path, **options)
    return path


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_shard_keeps_ids_and_type(tmp_path, kind):
    ids, vectors = read_shard(write(tmp_path / "0.parquet", vectors=VECTORS.astype(kind), row_group_size=2))
    assert ids.tolist() == IDS.tolist()
    assert vectors.dtype == kind
    assert vectors.tolist() == VECTORS.tolist()


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2)])
def test_any_kind_of_list_is_read(tmp_path, kind):
    """As pandas, polars and datasets write vectors, in several chunks."""
    vectors = pa.chunked_array([pa.array(VECTORS[:2].tolist(), kind), pa.array(VECTORS[2:].tolist(), kind)])
    pq.write_table(pa.table({"text": ["a", "b", "c"], "embedding": vectors, "id": IDS}), tmp_path / "0.parquet")
    ids, found = read_shard(tmp_path / "0.parquet")
    assert (ids.tolist(), found.tolist()) == (IDS.tolist(), VECTORS.tolist())


FLOATS = pa.list_(pa.float32())


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"id": IDS}, r"has the columns \['id'\]; needs id and embedding"),
        ({"id": pa.array([1, None]), "embedding": pa.array([[1.0], [2.0]], FLOATS)}, "id: 1 rows are empty"),
        ({"id": [1, 2], "embedding": pa.array([[1.0], None], FLOATS)}, "embedding: 1 rows are empty"),
        ({"id": [1, 2], "embedding": pa.array([[1.0], [None]], FLOATS)}, "embedding: 1 numbers are empty"),
        ({"id": [1, 2], "embedding": pa.array([[1, 2, 3], [4]], FLOATS)}, r"vectors of \[1, 3\] numbers"),
        ({"id": [1, 2], "embedding": pa.array([[], []], FLOATS)}, r"vectors of \[0\] numbers"),
        ({"id": [1, 1], "embedding": pa.array([[1.0], [2.0]], FLOATS)}, "id 1 is in rows 0 and 1"),
        ({"id": ["1", "2"], "embedding": pa.array([[1.0], [2.0]], FLOATS)}, "ids must be integers"),
        ({"id": [1, 2], "embedding": [1.0, 2.0]}, "has type double, expected lists"),
        ({"id": [1, 2], "embedding": pa.array([[1], [2]], pa.list_(pa.int8()))}, "packed bits"),
    ],
)
def test_unclear_shards_are_refused(tmp_path, columns, words):
    pq.write_table(pa.table(columns), tmp_path / "0.parquet")
    with pytest.raises(MalformedRun, match=words):
        read_shard(tmp_path / "0.parquet")


def test_damaged_shard_is_refused(tmp_path):
    path = write(tmp_path / "0.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(MalformedRun, match=r"0\.parquet: no readable Parquet file, cut short or damaged"):
        read_shard(path)


def test_rows_of_a_shard_need_ids():
    with pytest.raises(MalformedRun, match="a shard of 2 ids has vectors of shape"):
        make_shard(IDS[:2], VECTORS)


def test_positives_are_found_in_their_shards(tmp_path):
    qrels = Judgments.from_pairs([1, 2], [10, 20, 30], [1, 1, 2], [10, 30, 10])
    paths = [write(tmp_path / "0.parquet", IDS[:2], VECTORS[:2]), write(tmp_path / "1.parquet", IDS[2:], VECTORS[2:])]
    found = find_positives(paths, qrels)
    assert dict(zip(found.ids.tolist(), found.vectors.tolist(), strict=True)) == {30: [1, 2], 10: [3, 4]}
    with pytest.raises(MissingIds, match="2 of 2 positives are in no shard, the first: 10"):
        find_positives(paths[1:], qrels)
    with pytest.raises(DataError, match="two shards have positives in common"):
        find_positives([*paths, paths[0]], qrels)
