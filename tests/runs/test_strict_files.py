"""Damaged and hostile run files: each is refused, with a printable message."""

import io
import json
import os
import struct
import warnings
import zipfile
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cxc_eccv as ce
from cxc_eccv import parquet
from cxc_eccv.builders.output import write_shards
from cxc_eccv.errors import CxcEccvError, MalformedRun, MalformedSource
from cxc_eccv.parquet import read_parquet
from cxc_eccv.report.saving import write_folder
from cxc_eccv.runs import RankingsRun, load_embeddings, load_run
from cxc_eccv.runs.embeddings import write_safetensors
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.sources.reading import read_text

IDS, VECTORS = np.array([21, 22, 23]), np.arange(1, 7, dtype=np.float32).reshape(3, 2)


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def archive(path, members, **options):
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w", **options) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


def members(vectors=None):
    return [("caption_ids.npy", npy(IDS)), ("caption_embeddings.npy", npy(VECTORS) if vectors is None else vectors)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (npy(VECTORS) + b"\0", "bytes after the end of the array"),
        (npy(VECTORS)[:-1], "EOF: reading array data"),
        (npy(VECTORS)[:20], "EOF: reading array header"),
        (npy(VECTORS).replace(b"(3, 2)", b"(3, 9)"), "EOF: reading array data"),
        (npy(VECTORS).replace(b"(3, 2)", b"(3, 1)"), "bytes after the end of the array"),
        (npy(VECTORS).replace(b"(3, 2)", b"(3, (("), "a header that cannot be parsed"),
        (npy(VECTORS.astype(object)), r"never unpickled; .*np\.stack"),
        (b"no numbers at all", "magic string"),
        (b"", "EOF: reading magic string"),
    ],
)
def test_member_that_is_no_array_is_refused(data, words, tmp_path):
    with pytest.raises(MalformedRun, match=rf"run\.npz, caption_embeddings: .*{words}"):
        load_embeddings(archive(tmp_path / "run.npz", members(data)))


def test_header_of_python_2_is_refused():
    """One flipped bit makes such a header of another; NumPy only warns."""
    with pytest.raises(ValueError, match=r"a header that cannot be parsed \(.*Python 2"):
        parquet.read_npy(io.BytesIO(npy(IDS).replace(b"(3,), ", b"(3L,),")))


@pytest.mark.parametrize("name", ["run_i2t.txt", "run.json"])
def test_text_of_3_gb_is_refused_by_its_size(name, tmp_path):
    path = tmp_path / name
    path.touch()
    os.truncate(path, 3 * 2**30)  # takes no room on the disk
    with pytest.raises(MalformedRun, match="has 3,221,225,472 bytes, expected at most 2,147,483,648"):
        load_run(path)
    with pytest.raises(MalformedSource, match="found 3,221,225,472 bytes, expected at most"):
        read_text(path)


def test_encrypted_member_is_refused(tmp_path):
    path = archive(tmp_path / "run.npz", members())
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(mark) + place] |= 1
    path.write_bytes(data)
    with pytest.raises(MalformedRun, match="encrypted"):
        load_embeddings(path)


@pytest.mark.parametrize("name", ["caption_ids.npy", "caption_ids"])
def test_array_given_twice_is_refused(name, tmp_path):
    with pytest.raises(MalformedRun, match="holds an array twice"):
        load_embeddings(archive(tmp_path / "run.npz", [*members(), (name, npy(IDS))]))


@pytest.fixture
def small_limit(monkeypatch):
    """A limit of a megabyte, so that a file that expands beyond it is small too."""
    monkeypatch.setattr(parquet, "ALWAYS", 1 << 20)


def test_archive_that_expands_too_far_is_refused(tmp_path, small_limit):
    np.savez_compressed(tmp_path / "run.npz", image_ids=np.arange(9), image_embeddings=np.zeros((9, 1 << 17)))
    with pytest.raises(MalformedRun, match=r"run\.npz: .* expand to 9,437,"):
        load_run(tmp_path / "run.npz")


def test_table_that_expands_too_far_is_refused(tmp_path, small_limit):
    pq.write_table(pa.table({"a": np.zeros(1 << 20, dtype=np.int64)}), tmp_path / "a.parquet")
    with pytest.raises(pa.ArrowInvalid, match=r"bytes that expand to 8,388,608, expected at most 1,"):
        read_parquet(tmp_path / "a.parquet")
    texts = pa.table({"a": [f"A caption number {number}." for number in range(20_000)]})
    pq.write_table(texts, tmp_path / "captions.parquet", compression="zstd")
    assert read_parquet(tmp_path / "captions.parquet").num_rows == 20_000


@pytest.fixture
def tensors(tmp_path):
    path = tmp_path / "run.safetensors"
    write_safetensors(path, {"caption_ids": IDS, "caption_embeddings": VECTORS}, {"similarity": "dot"})
    return path


@pytest.mark.parametrize("keep", [0, 5, 8, 60, -4])
def test_tensors_cut_short_are_refused(tensors, keep):
    tensors.write_bytes(tensors.read_bytes()[:keep])
    with pytest.raises(MalformedRun, match="cut short or damaged"):
        load_run(tensors)


def test_flipped_value_of_our_tensors_is_noticed(tensors):
    data = tensors.read_bytes()
    tensors.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(MalformedRun, match="does not match its checksum"):
        load_run(tensors)


def test_tensor_of_a_strange_type_is_refused(tmp_path):
    header = json.dumps({"caption_embeddings": {"dtype": "F8_E4M3", "shape": [2, 4], "data_offsets": [0, 8]}}).encode()
    (tmp_path / "run.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(MalformedRun, match="caption_embeddings: has type F8_E4M3; save vectors as float32"):
        load_run(tmp_path / "run.safetensors")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "run_i2t.parquet"
    columns = {"query_id": [1, 1, 2], "rank": [1, 2, 1], "item_id": [7, 8, 8], "score": [0.5, 0.5, 0.25]}
    pq.write_table(pa.table(columns), path, write_page_checksum=True, compression="none", use_dictionary=False)
    return path


def test_a_flipped_bit_in_a_page_is_noticed(table):
    data = table.read_bytes()
    assert load_run(table).lists["i2t"].items.tolist() == [7, 8, 8]
    place = data.index(struct.pack("<3q", 7, 8, 8))
    table.write_bytes(data[:place] + b"\x06" + data[place + 1 :])
    with pytest.raises(MalformedRun, match=r"not readable Parquet.*save it again"):
        load_run(table)


def test_a_footer_that_contradicts_itself_is_noticed(table):
    """The name of a column stands in the schema and beside its pages; scores would be gone, and the ties with them."""
    data = table.read_bytes()
    place = data.index(b"score", len(data) - int.from_bytes(data[-8:-4], "little") - 8)
    table.write_bytes(data[:place] + b"scove" + data[place + 5 :])
    assert pq.read_table(table).column_names[-1] == "scove"
    with pytest.raises(pa.ArrowInvalid, match="column scove has the values of score"):
        read_parquet(table)
    with pytest.raises(MalformedRun, match="column scove has the values"):
        load_run(table)


def test_lost_rows_are_noticed(table):
    """The footer has no checksum; its numbers of rows, 3, are zigzag-encoded as 6."""
    data = table.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for place in (place for place in range(footer, len(data) - 8) if data[place] == 6):
        table.write_bytes(data[:place] + b"\4" + data[place + 1 :])
        with suppress(MalformedRun):
            assert load_run(table).lists["i2t"].items.tolist() == [7, 8, 8]


def test_a_column_given_twice_is_noticed(tmp_path):
    pq.write_table(pa.table([[1], [2]], names=["item_id", "item_id"]), tmp_path / "run_i2t.parquet")
    with pytest.raises(MalformedRun, match="column item_id is there twice"):
        load_run(tmp_path / "run_i2t.parquet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"i2t": {"5": [true, 7]}}', r"ranking of query 5 is \[True, 7\]"),
        ('{"i2t": {"5": [1.0]}}', "found the number 1.0, expected whole numbers"),
        ('{"i2t": {"5": [1e3]}}', "found the number 1e3, expected whole numbers"),
        ('{"i2t": {"5": [NaN]}}', "found NaN, expected finite numbers"),
        ('{"i2t": {"5": [-Infinity]}}', "found -Infinity, expected finite numbers"),
        ('{"i2t": {"5": [1], "5": [2]}}', "key '5': found it twice"),
        ('{"i2t": {"5": [1], "05": [2]}}', "id 5 is in rows 0 and 1"),
        ('{"i2t": {"5": [%s]}}' % ("7" * 5000), "a number of thousands of digits"),
        ('{"i2t": {"%s": [7]}}' % ("7" * 5000), "not a whole number of 64 bits"),
        ('{"i2t": {"5": [9223372036854775808]}}', "ranking of query 5 is"),
        ('{"i2t": ' + "[" * 100_000, "nested too deep"),
        ('\ufeff{"i2t": {"5": [7]}}', "not JSON"),
    ],
)
def test_json_that_is_no_ranking(text, words, tmp_path):
    (tmp_path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(MalformedRun, match=words):
        load_run(tmp_path / "run.json")


@pytest.mark.parametrize("row", [[True, 7], (7, np.True_), [False]])
def test_truth_values_are_no_ids_in_dicts_either(row):
    with pytest.raises(MalformedRun, match="need a list of whole-number ids"):
        RankingsRun.from_dicts({5: row})
    assert RankedLists.of({5: (7, np.int64(8))}).items.tolist() == [7, 8]


@pytest.mark.parametrize("zero", ["0", "-0.0", "0e5", "0.000"])
def test_true_zeros_are_scores(zero, tmp_path):
    (tmp_path / "run_i2t.trec").write_text(f"5 Q0 7 1 1.5 tag\n5 Q0 8 2 {zero} tag\n")
    assert load_run(tmp_path / "run_i2t.trec").lists["i2t"].scores.tolist() == [1.5, 0.0]


def page_is_checked(path):
    """Whether a value changed within a page is noticed by its checksum."""
    data, chunk = path.read_bytes(), pq.read_metadata(path).row_group(0).column(0)
    last = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1
    path.write_bytes(data[:last] + bytes([data[last] ^ 1]) + data[last + 1 :])
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        pq.read_table(path, page_checksum_verification=True)
    return True


def test_tables_of_datasets_reports_and_rankings_are_written_with_checksums(tmp_path, make_run, sample_library):
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    from cxc_eccv.runs.rankings import write_rankings

    write_rankings(tmp_path / "top.parquet", RankingsRun.from_dicts(i2t={1: [7, 8]}))
    assert page_is_checked(tmp_path / "top.parquet")
    shards = write_shards([pa.table({"n": [1, 2, 3]})], tmp_path, "test")
    write_folder(tmp_path, ce.evaluate(make_run(sample_library), "coco_5k", data_dir=sample_library, per_query=True))
    for name in (shards.files[0], "per_query.parquet"):
        assert page_is_checked(tmp_path / name), name


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".json", ".parquet", ".xyz"])
def test_names_from_files_reach_the_terminal_escaped(suffix, tmp_path):
    nasty = "\x1b[31m\r\n\u202ex"
    path = tmp_path / f"a\n\x1b[31m_i2t{suffix}"
    if suffix == ".npz":
        archive(path, [(nasty, npy(IDS))])
    elif suffix == ".safetensors":
        write_safetensors(path, {nasty: IDS}, {})
    elif suffix == ".json":
        path.write_text(json.dumps({nasty: {"5": [7]}}))
    else:
        pq.write_table(pa.table({nasty: [7]}), path)
    with pytest.raises(CxcEccvError) as caught:
        load_run(path)
    assert str(caught.value).isprintable()
    assert str(caught.value).count(r"\x1b[31m") == 1 + (suffix != ".xyz")


@pytest.mark.parametrize("field", [30, 32])
def test_entry_that_hides_another_is_refused(field, tmp_path):
    """A damaged length of its extra field or comment; an array would be gone, such as the similarity."""
    path = archive(tmp_path / "run.npz", [*members(), ("similarity.npy", npy(np.array("dot")))])
    data = path.read_bytes()
    last = data.rindex(b"PK\1\2")
    before = data.rindex(b"PK\1\2", 0, last)
    length = struct.pack("<H", data.index(b"PK\5\6") - last)
    path.write_bytes(data[: before + field] + length + data[before + field + 2 :])
    with pytest.raises(MalformedRun, match=r"hides another|Corrupt extra field"):
        load_embeddings(path)
