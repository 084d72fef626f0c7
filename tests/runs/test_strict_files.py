"""Archives, headers and tables that NumPy or pyarrow would read past: each is refused, with a printable message."""

import ast
import io
import json
import struct
import warnings
import zipfile
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cxc_eccv as ce
from cxc_eccv.builders.output import write_shards
from cxc_eccv.errors import CxcEccvError, InvalidOption, MalformedRun, MalformedSource
from cxc_eccv.parquet import array_of_npy, read_parquet
from cxc_eccv.report.folder import write_folder
from cxc_eccv.runs import RankingsRun, load_embeddings, load_run
from cxc_eccv.runs.array_files import write_safetensors
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.sources.reading import read_ids

IDS, VECTORS = np.array([21, 22, 23]), np.arange(1, 7, dtype=np.float32).reshape(3, 2)


def npy(array, change=lambda header: header):
    """An npy stream, its header changed as a Python value or as text."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    content = buffer.getvalue()
    length = int.from_bytes(content[8:10], "little")
    header = change(ast.literal_eval(content[10 : 10 + length].decode()))
    text = (header if isinstance(header, str) else repr(header)).encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return content[:8] + len(text).to_bytes(2, "little") + text + content[10 + length :]


def archive(path, members, **options):
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(path, "w", **options) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


def members(vectors=None):
    return [("caption_ids.npy", npy(IDS)), ("caption_embeddings.npy", npy(VECTORS) if vectors is None else vectors)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header: {**header, "shape": (3, 1)}, r"a header for 12 bytes, \(3, 1\) of float32, before 24 bytes"),
        (lambda header: {**header, "shape": (3, 3)}, "a header for 36 bytes"),
        (lambda header: {**header, "shape": (3, True)}, "not a tuple of whole numbers"),
        (lambda header: {**header, "shape": [3, 2]}, "not a tuple of whole numbers"),
        (lambda header: {**header, "shape": (-3, -2)}, "not a tuple of whole numbers"),
        (lambda header: {**header, "shape": (10**18, 10**18)}, "shape is too large"),
        (lambda header: {**header, "shape": (0, 10**30)}, "shape is too large"),
        (lambda header: {**header, "shape": (1,) * 70}, "shape is too large"),
        (lambda header: {**header, "fortran_order": 1}, "neither True nor False"),
        (lambda header: {**header, "more": 1}, "keys are not descr"),
        (lambda header: {"shape": (3, 2), "descr": "<f4"}, "keys are not descr"),
        (lambda header: {**header, "descr": "|O"}, "never unpickled"),
        (lambda header: {**header, "descr": "<V4"}, "expected numbers; save bfloat16"),
        (lambda header: {**header, "descr": [("a", "<f4")]}, "expected numbers"),
        (lambda header: {**header, "descr": "x\x1b[31m"}, "expected numbers"),
        (lambda header: {**header, "descr": "<M8[ns]"}, "expected numbers"),
        (lambda header: repr(header)[:-1], "a header that cannot be parsed"),
        (lambda header: repr(header) + "}", "a header that cannot be parsed"),
        (lambda header: repr({**header, "shape": "S"}).replace("'S'", f"({'9' * 5000},)"), "cannot be parsed"),
        (lambda header: "(" * 5000, "a header that cannot be parsed"),
        (lambda header: repr(header) + " " * 20_000, "expected at most 10000"),
    ],
)
def test_headers_that_do_not_say_what_follows(change, words, tmp_path):
    path = archive(tmp_path / "run.npz", members(npy(VECTORS, change)))
    with pytest.raises(MalformedRun, match=rf"run\.npz, caption_embeddings: .*{words}"):
        load_embeddings(path)
    (tmp_path / "ids.npy").write_bytes(npy(VECTORS, change))
    with pytest.raises(MalformedSource, match=r"ids\.npy"):
        read_ids(tmp_path / "ids.npy")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (npy(VECTORS) + b"\0", "before 25 bytes"),
        (npy(VECTORS)[:-1], "before 23 bytes"),
        (npy(VECTORS)[:20], "cut short within the header"),
        (npy(VECTORS)[:6] + b"\3\0" + npy(VECTORS)[8:], "npy format 3.0"),
        (b"no numbers at all", "magic string"),
        (b"", "magic string"),
    ],
)
def test_members_that_are_no_array(data, words, tmp_path):
    with pytest.raises(MalformedRun, match=words):
        load_embeddings(archive(tmp_path / "run.npz", members(data)))


def test_a_stream_must_hold_what_its_size_says():
    data = npy(VECTORS)
    with pytest.raises(ValueError, match="cut short after 23 of 24"):
        array_of_npy(io.BytesIO(data[:-1]), len(data))
    with pytest.raises(ValueError, match="bytes after the end"):
        array_of_npy(io.BytesIO(data + b"x"), len(data))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f8", ">f4", "<f2", "<i2", "|b1", "<U7"])
def test_arrays_are_read_as_numpy_reads_them(kind, order):
    array = np.arange(24).reshape(2, 3, 4).astype(kind, order=order)
    for one in (array, array[:0], array[0, 0, 0]):
        data = npy(one)
        read = array_of_npy(io.BytesIO(data), len(data))
        np.testing.assert_array_equal(read, np.load(io.BytesIO(data)))
        assert (read.dtype, read.shape, read.flags.writeable) == (one.dtype, one.shape, True)
    large = io.BytesIO()
    np.lib.format.write_array(large, array, version=(2, 0))
    np.testing.assert_array_equal(array_of_npy(io.BytesIO(large.getvalue()), len(large.getvalue())), array)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data + b"x", "bytes follow the archive's end"),
        (lambda data: b"x" + data, "there are bytes before the archive"),
        (lambda data: data[:-2] + b"\1\0x", "bytes follow the archive's end"),
        (lambda data: data.replace(b"PK\1\2", b"xPK\1\2", 1), "damaged"),
        (lambda data: _widen(data), "belong to no member"),
        (
            lambda data: data[:14] + b"\0\0\0\0" + data[18:],
            "the header of caption_ids.npy and the directory differ",
        ),
        (lambda data: data[:6] + b"\2" + data[7:], "the header of caption_ids.npy and the directory differ"),
        (lambda data: data[:-10], "damaged"),
    ],
)
def test_bytes_that_belong_to_nothing(damage, words, tmp_path):
    path = archive(tmp_path / "run.npz", members())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(MalformedRun, match=words):
        load_embeddings(path)


def _widen(data):
    """A byte between the last member and the directory, to which the last record points correctly."""
    start = data.index(b"PK\1\2")
    end = data.index(b"PK\5\6")
    return data[:start] + b"x" + data[start : end + 16] + struct.pack("<I", start + 1) + data[end + 20 :]


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_members_packed_as_numpy_does_not(method, tmp_path):
    with pytest.raises(MalformedRun, match="not compressed as by NumPy"):
        load_embeddings(archive(tmp_path / "run.npz", members(), compression=method))


def test_encrypted_members(tmp_path):
    path = archive(tmp_path / "run.npz", members())
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(mark) + place] |= 1
    path.write_bytes(data)
    with pytest.raises(MalformedRun, match="encrypted"):
        load_embeddings(path)


@pytest.mark.parametrize("name", ["caption_ids.npy", "caption_ids"])
def test_an_array_given_twice(name, tmp_path):
    with pytest.raises(MalformedRun, match="holds an array twice"):
        load_embeddings(archive(tmp_path / "run.npz", [*members(), (name, npy(IDS))]))


@pytest.fixture
def tensors(tmp_path):
    path = tmp_path / "run.safetensors"
    write_safetensors(path, {"caption_ids": IDS, "caption_embeddings": VECTORS}, {"similarity": "dot"})
    return path


def with_header(path, change, extra=b""):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"].pop("sha256")
    text = change(header)
    text = (text if isinstance(text, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :] + extra)
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header: header["caption_ids"].update(data_offsets=[8, 32]), "cut short or damaged"),
        (lambda header: header["caption_ids"].update(shape=[True]), "cut short or damaged"),
        (lambda header: header["caption_ids"].update(shape=[3.0]), "cut short or damaged"),
        (lambda header: header["caption_ids"].update(dtype="C64"), "cut short or damaged|type C64"),
        (lambda header: header["caption_ids"].pop("shape"), "cut short or damaged"),
        (lambda header: header["caption_ids"].update(dtype="F8_E4M3", shape=[24]), "type F8_E4M3; save one of F64"),
        (
            lambda header: json.dumps(header)[:-1] + f', "caption_ids": {json.dumps(header["caption_ids"])}}}',
            "found it twice",
        ),
        (
            lambda header: json.dumps(header).replace('"similarity"', '"similarity": "cosine", "similarity"'),
            "found it twice",
        ),
        (lambda header: json.dumps(header).replace("[3]", f"[{'3' * 5000}]"), "cut short or damaged"),
        (lambda header: "[" * 50_000, "cut short or damaged"),
        (lambda header: '{"a":' * 50_000, "cut short or damaged"),
        (lambda header: header["__metadata__"].update(similarity="cosin"), "its similarity is 'cosin'"),
    ],
)
def test_safetensors_headers_that_the_official_reader_refuses_or_should(tensors, change, words):
    assert load_run(with_header(tensors, lambda header: None)).similarity == "dot"
    write_safetensors(tensors, {"caption_ids": IDS, "caption_embeddings": VECTORS}, {"similarity": "dot"})
    with pytest.raises(MalformedRun, match=words):
        load_run(with_header(tensors, change))


@pytest.mark.parametrize("keep", [0, 5, 8, 60, -4])
def test_safetensors_cut_short(tensors, keep):
    tensors.write_bytes(tensors.read_bytes()[:keep])
    with pytest.raises(MalformedRun, match="cut short or damaged"):
        load_run(tensors)


def test_a_flipped_value_and_bytes_at_the_end_are_noticed(tensors):
    data = tensors.read_bytes()
    tensors.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(MalformedRun, match="does not match its checksum"):
        load_run(tensors)
    with pytest.raises(MalformedRun, match="cut short or damaged"):
        load_run(with_header(tensors, lambda header: None, extra=b"x"))


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


def test_lists_that_lack_values_are_noticed(tmp_path, monkeypatch):
    path = tmp_path / "run_i2t.parquet"
    rows = {"query_id": [1, 2], "item_ids": [[7, 8, 9], [8, 7]], "none": [[], None], "two": [[[1]], [[2], [3]]]}
    pq.write_table(pa.table(rows), path, write_page_checksum=True)
    whole = read_parquet(path)
    assert whole["item_ids"].to_pylist() == rows["item_ids"]
    short = pa.table({**{name: whole[name] for name in whole.column_names}, "item_ids": [[7, 8, 9], [8]]})
    monkeypatch.setattr("cxc_eccv.parquet.pq.read_table", lambda path, **_: short)
    with pytest.raises(pa.ArrowInvalid, match=r"column item_ids\.list\.element lacks some of its 5 values"):
        read_parquet(path)


@pytest.mark.parametrize(
    ("rows", "of_group", "words"),
    [
        (3, 2, "has 3 values in 2 rows"),
        (3, 4, "has 3 values in 4 rows"),
        (2, 3, "the footer announces 2 rows, but there are 3"),
    ],
)
def test_lengths_that_contradict_each_other(table, rows, of_group, words, monkeypatch):
    footer = pq.read_metadata(table)
    group = SimpleNamespace(num_rows=of_group, num_columns=4, column=footer.row_group(0).column)
    damaged = SimpleNamespace(num_rows=rows, num_row_groups=1, schema=footer.schema, row_group=lambda place: group)
    monkeypatch.setattr("cxc_eccv.parquet.pq.read_metadata", lambda path: damaged)
    with pytest.raises(pa.ArrowInvalid, match=words):
        read_parquet(table)


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


@pytest.mark.parametrize("scores", [("2e-400", "1e-400"), ("0.5", "1e-320"), ("0.5", "0.00001e-310")])
def test_scores_that_vanish_in_64_bits(scores, tmp_path):
    """They would tie."""
    path = tmp_path / "run_i2t.trec"
    path.write_text("".join(f"5 Q0 {7 + rank} {rank} {score} tag\n" for rank, score in enumerate(scores, 1)))
    with pytest.raises(MalformedRun, match=r"line \d: score \S+ is too small for float64"):
        load_run(path)


@pytest.mark.parametrize("zero", ["0", "-0.0", "0e5", "0.000"])
def test_true_zeros_are_scores(zero, tmp_path):
    (tmp_path / "run_i2t.trec").write_text(f"5 Q0 7 1 1.5 tag\n5 Q0 8 2 {zero} tag\n")
    assert load_run(tmp_path / "run_i2t.trec").lists["i2t"].scores.tolist() == [1.5, 0.0]


def page_is_checked(path):
    """Whether a value changed within an uncompressed or compressed page is noticed by its checksum."""
    data, footer = path.read_bytes(), pq.read_metadata(path)
    chunk = footer.row_group(0).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    last = start + chunk.total_compressed_size - 1
    path.write_bytes(data[:last] + bytes([data[last] ^ 1]) + data[last + 1 :])
    try:
        pq.read_table(path, page_checksum_verification=True)
    except OSError as error:
        return "CRC checksum verification failed" in str(error)
    finally:
        path.write_bytes(data)
    return False


def test_tables_of_datasets_reports_and_rankings_are_written_with_checksums(tmp_path, make_run, sample_library):
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    from cxc_eccv.runs.rankings import write_rankings

    write_rankings(tmp_path / "top.parquet", RankingsRun.from_dicts(i2t={1: [7, 8]}))
    assert page_is_checked(tmp_path / "top.parquet")
    shards = write_shards([pa.table({"n": [1, 2, 3]})], tmp_path, "test")
    write_folder(tmp_path, ce.evaluate(make_run(sample_library), "coco_5k", data_dir=sample_library, per_query=True))
    for name in (shards.files[0], "per_query.parquet"):
        assert page_is_checked(tmp_path / name), name


NASTY = "\x1b[31m\r\n\u202ex"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".json", ".parquet", ".trec"])
def test_names_from_files_reach_the_terminal_escaped(suffix, tmp_path):
    path = tmp_path / f"run_i2t{suffix}"
    if suffix == ".npz":
        archive(path, [(NASTY, npy(IDS))])
    elif suffix == ".safetensors":
        write_safetensors(path, {NASTY: IDS}, {})
    elif suffix == ".json":
        path.write_text(json.dumps({NASTY: {"5": [7]}}))
    elif suffix == ".parquet":
        pq.write_table(pa.table({NASTY: [7]}), path)
    else:
        path.write_text("5 Q0 7 1 \x1b[31m\u202ex tag\n")
    with pytest.raises(CxcEccvError) as caught:
        load_run(path)
    assert str(caught.value).isprintable()
    assert r"\x1b[31m" in str(caught.value)
    assert r"\u202ex" in str(caught.value)


def test_file_names_reach_the_terminal_escaped(tmp_path):
    for name, options in (("a\n\x1b[31m.npz", {}), ("a\n\x1b[31m.xyz", {}), ("a\x1b[31m.npz", {"direction": "i2t"})):
        path = tmp_path / name
        if options:
            np.savez(path, a=IDS)
        with pytest.raises((MalformedRun, InvalidOption)) as caught:
            load_run(path, **options)
        assert str(caught.value).isprintable()
        assert r"\x1b[31m" in str(caught.value)
