"""Small files that claim to hold more than any real one are refused before their content is in memory."""

import gzip
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxc_eccv import parquet
from cxc_eccv.errors import MalformedRun, MalformedSource
from cxc_eccv.parquet import read_parquet
from cxc_eccv.runs import load_run
from cxc_eccv.sources import reading
from cxc_eccv.sources.reading import parse_json, read_bytes
from cxc_eccv.types import strict_json

LIMIT = 1 << 20


@pytest.fixture
def small_limit(monkeypatch):
    """A limit of a megabyte, so that a bomb is small too."""
    monkeypatch.setattr(parquet, "ALWAYS", LIMIT)


@pytest.fixture
def peak():
    """What Arrow and Python have taken at most since the test began; Arrow by its own count."""
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    yield lambda: max(tracemalloc.get_traced_memory()[1], pa.total_allocated_bytes() - before)
    tracemalloc.stop()


def write_parquet(path, column):
    table = pa.table({"a": column})
    with pq.ParquetWriter(path, table.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
    return path


def repeated(text, times):
    kind = pa.string() if isinstance(text, str) else pa.binary()
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array([text], kind))


ZEROS = pa.array(np.zeros(LIMIT, dtype=np.int64))
BOMBS = {
    "numbers": ZEROS,
    "nulls": pa.nulls(LIMIT, pa.int64()),
    "a list": pa.ListArray.from_arrays([0, LIMIT], ZEROS),
    "texts": repeated("x" * 10_000, 1_000),
    "bytes": repeated(b"x" * 10_000, 1_000),
    "lists of texts": pa.ListArray.from_arrays([0, 1_000], repeated("x" * 10_000, 1_000)),
    "structs": pa.StructArray.from_arrays([repeated("x" * 10_000, 1_000)], ["t"]),
}


@pytest.mark.parametrize("name", BOMBS)
def test_parquet(name, tmp_path, small_limit, peak):
    path = write_parquet(tmp_path / "bomb.parquet", BOMBS[name])
    assert path.stat().st_size < 30_000
    with pytest.raises(pa.ArrowInvalid, match=r"bytes that expand to .*, expected at most 1,"):
        read_parquet(path)
    assert peak() < 2 * LIMIT


def test_a_real_table_is_larger_than_its_file_and_read(tmp_path, small_limit):
    texts = pa.array([f"A caption number {number}." for number in range(20_000)])
    assert read_parquet(write_parquet(tmp_path / "captions.parquet", texts)).num_rows == 20_000


def test_npz(tmp_path, small_limit, peak):
    """The directory says what the members hold; no array of it is made."""
    np.savez_compressed(tmp_path / "bomb.npz", image_ids=np.arange(9), image_embeddings=np.zeros((9, 1 << 17)))
    before = peak()
    with pytest.raises(MalformedRun, match=r"bomb\.npz: .* expand to 9,437,.*save a file of real vectors or scores"):
        load_run(tmp_path / "bomb.npz")
    assert peak() == before


def test_gzip(tmp_path, small_limit, peak):
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" * (20 * LIMIT)))
    before = peak()
    with pytest.raises(MalformedSource, match=r"bomb\.json\.gz: found 20,.* bytes that expand to 2,097,152"):
        read_bytes(path)
    assert peak() == before


def test_json(tmp_path, monkeypatch):
    monkeypatch.setattr(strict_json, "MOST_CONTAINERS", 99)
    monkeypatch.setattr(reading, "MOST_VALUES", 199)
    with pytest.raises(MalformedSource, match="found 101 lists and objects, expected at most 99"):
        parse_json(f"[{'[],' * 99}[]]", tmp_path / "a.json")
    with pytest.raises(MalformedSource, match="more than 199 values"):
        parse_json(f"[{'1,' * 200}1]", tmp_path / "a.json")
    assert len(parse_json(f"[{'1,' * 199}1]", tmp_path / "a.json")) == 200
