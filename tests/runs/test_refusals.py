"""Refusals of runs: a table per kind, of what is given and what the message says."""

import gzip
import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.numpy
from damaged_files import BINARY, TENSORS, TEXT
from damaged_files import IMAGES as IDS

from cxc_eccv.errors import CxcEccvError, InvalidOption, MalformedRun, NoSuchFile, UnknownName
from cxc_eccv.ranking.large_gallery import LargeGallery
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, load_embeddings, load_run
from cxc_eccv.runs.embeddings import write_safetensors
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import Embeddings, Judgments

IMAGES = np.array([11, 12])
CAPTIONS = np.array([21, 22, 23])


def write(path, content):
    """Write bytes, a text, arrays or the columns of a table, whichever the ending asks for."""
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif path.suffix == ".npz":
        np.savez(path, **content)
    elif path.suffix == ".safetensors":
        write_safetensors(path, content, {})
    else:
        pq.write_table(pa.table(content), path)
    return path


def cut(data):
    return data[: len(data) * 3 // 5]


def change_array(data):
    return data.replace(IDS.tobytes(), (IDS + 1).tobytes())


def change_page(data):
    """The bytes of a table with one changed bit in the last page of the first column."""
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    first = chunk.dictionary_page_offset or chunk.data_page_offset
    last = first + chunk.total_compressed_size - 1
    return data[:last] + bytes([data[last] ^ 1]) + data[last + 1 :]


def end_with_ff(data):
    return data + b"\xff"


DAMAGED = [
    ("stored.npz", cut, "no readable archive, cut short .*File is not a zip file.*save it again"),
    ("stored.npz", change_array, "image_ids.npy does not match its checksum"),
    ("stored.npz", lambda data: b"no zip file", "not a zip file"),
    ("ours.safetensors", cut, "no readable safetensors file, cut short or damaged .*save it again"),
    ("ours.safetensors", lambda data: b"", "no readable safetensors file"),
    ("long.parquet", cut, "no readable Parquet file, cut short or damaged .*magic bytes"),
    ("long.parquet", change_page, "no readable Parquet file.*CRC checksum"),
    ("run.json", cut, "no JSON, cut short or damaged .*line 1 column .*save it again"),
    ("run.json", lambda data: b"[" * 100_000, "nested too deep"),
    ("run.json", end_with_ff, "text that is not UTF-8"),
    ("run_i2t.trec", end_with_ff, "text that is not UTF-8"),
    ("run.json", lambda data: b"  ", "is empty"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGED)
def test_damaged_file_is_refused(name, damage, message, tmp_path):
    path = tmp_path / name
    write_good = (BINARY | TENSORS | TEXT)[name]
    write(path, damage(write_good(tmp_path, name)))
    with pytest.raises(MalformedRun, match=rf"{name}: .*{message}"):
        load_run(path)


def with_value(value, dtype=np.float32):
    vectors = np.ones((3, 3), dtype=dtype)
    vectors[1, 2] = value
    return vectors


GOOD = {
    "image_ids": IMAGES,
    "image_embeddings": np.arange(6, dtype=np.float32).reshape(2, 3),
    "caption_ids": CAPTIONS,
    "caption_embeddings": np.ones((3, 3), dtype=np.float32),
}
OTHER_TYPE = r"has type {}, .* np\.unpackbits .* bfloat16 numbers read as int16"

CHANGED = [
    ({"adversarial_size_embeddings": with_value(np.nan)}, "adversarial_size_embeddings: value nan in row 1, column 2"),
    ({"adversarial_size_ids": np.ones(3)}, "adversarial_size_ids is .*whole-number ids"),
    ({"adversarial_a_embeddings": np.ones(3)}, r"adversarial_a_embeddings: has shape \(3,\)"),
    ({"adversarial_size": np.ones(3)}, "adversarial_size: is neither ids"),
    ({"adversarial_a_embeddings": np.eye(3).astype("int8")}, OTHER_TYPE.format("int8")),
    ({"caption_embeddings": with_value(1e300, np.float64)}, r"1e\+300 .*scale the vectors"),
    (
        {"caption_embeddings": np.array([[1.0], [1e-60], [-3e-60]])},
        r"caption_embeddings.*row 1 \(id 22\) is 1e-60.* 2 of 3 vectors.*Multiply all vectors",
    ),
    ({"caption_embeddings": np.full((3, 3), 1e-40)}, "id 21.* 3 of 3 vectors"),
    ({"caption_embeddings": np.full((3, 3), 1e-44, np.float32)}, "id 21.* 3 of 3 vectors"),
    ({"caption_embeddings": np.eye(3).astype("int16")}, OTHER_TYPE.format("int16")),
    ({"caption_embeddings": np.eye(3).astype("bool")}, OTHER_TYPE.format("bool")),
    ({"caption_embeddings": np.eye(3).astype("complex64")}, OTHER_TYPE.format("complex64")),
    ({"caption_embeddings": np.ones((3, 3), dtype=object)}, r"caption_embeddings: .*never unpickled\. .*np\.stack"),
    ({"caption_ids": CAPTIONS.astype(object)}, "caption_ids: .*never unpickled. Save the COCO ids"),
    ({"similarity": np.array("euclidean")}, "its similarity is 'euclidean'; save cosine or dot"),
    ({"similarity": np.array([1, 2])}, r"its similarity is '\[1, 2\]'"),
    ({"image_ids": np.array([1, 2**63], dtype=np.uint64)}, f"image_ids.*{2**63}"),
    ({"image_ids": IMAGES[:, None]}, r"image_ids.*\(2, 1\)"),
    ({"image_embeddings": np.ones((2, 0))}, r"image_embeddings.*\(2, 0\)"),
    ({"image_embeddings": np.ones(2)}, r"image_embeddings.*\(2,\), expected \(N, D\)"),
    ({"image_embeddings": None}, "'image_ids' but not 'image_embeddings'"),
    ({"caption_ids": None}, "'caption_embeddings' but not 'caption_ids'"),
    ({"model": np.array("two\nlines")}, "the model's name is"),
    ({"model": np.array(["one", "two"])}, "run.npz, model: is"),
    ({"model": np.array(7)}, "run.npz, model: is 7; save one text"),
    ({"scores": np.ones((2, 3))}, "holds both scores and image_embeddings and caption_embeddings"),
]


@pytest.mark.parametrize(("changes", "message"), CHANGED)
def test_changed_array_is_refused_by_name(changes, message, tmp_path):
    arrays = {name: array for name, array in {**GOOD, **changes}.items() if array is not None}
    with pytest.raises(MalformedRun, match=rf"(?s)run\.npz.*{message}|{message}"):
        load_run(write(tmp_path / "run.npz", arrays))


HEADER = json.dumps({"caption_embeddings": {"dtype": "F8_E4M3", "shape": [2, 4], "data_offsets": [0, 8]}}).encode()

OTHER_ARRAYS = [
    ("run.npz", {"scores": np.ones((1, 1))}, "holds scores but not image_ids and caption_ids"),
    ("run.npz", {"features": np.ones(3)}, r"holds \['features'\]; needs image_ids with"),
    ("run.npz", {}, "holds no array"),
    ("run.safetensors", {"features": np.ones(3)}, r"holds \['features'\]; needs image_ids with"),
    (
        "run.safetensors",
        len(HEADER).to_bytes(8, "little") + HEADER + bytes(8),
        "caption_embeddings: has type F8_E4M3; save vectors as float32",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), OTHER_ARRAYS)
def test_file_of_other_arrays_is_refused(name, content, message, tmp_path):
    with pytest.raises(MalformedRun, match=message):
        load_run(write(tmp_path / name, content))


def test_member_that_is_no_array_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "run.npz", "w") as archive:
        archive.writestr("caption_ids.npy", b"no numbers at all")
    with pytest.raises(MalformedRun, match=r"caption_ids: no array \(.*magic string.*np\.savez"):
        load_run(tmp_path / "run.npz")


def give_safetensors(vectors, folder):
    safetensors.numpy.save_file({"caption_ids": CAPTIONS, "caption_embeddings": vectors}, folder / "run.safetensors")
    load_run(folder / "run.safetensors")


def give_shard(vectors, folder):
    positives = Embeddings(CAPTIONS, np.ones((3, 8)))
    judgments = Judgments.from_pairs([21], CAPTIONS, [21], [22])
    LargeGallery(positives, judgments, positives).count(CAPTIONS, vectors)


def give_in_python(vectors, folder):
    Embeddings(CAPTIONS, vectors)


@pytest.mark.parametrize("give", [give_safetensors, give_shard, give_in_python])
def test_vectors_of_other_types_are_refused(give, tmp_path):
    """Of a file with NumPy arrays, the table above has all types."""
    with pytest.raises(MalformedRun, match=OTHER_TYPE.format("uint8")):
        give(np.eye(3, 8).astype("uint8"), tmp_path)


TEXTS = [
    ("run.json", "{}", "holds nothing; need"),
    ("run.json", "[1]", "holds a list; need"),
    ("run.json", '{"i2t": {"1": [2]}, "best": 3}', "key 'best' is neither a direction"),
    ("run.json", '{"i2t": [1]}', "run.json, i2t: is a list"),
    ("run.json", f'{{"i2t": {{"{2**70}": [1]}}}}', "not a whole number of 64 bits"),
    ("run.json", '{"i2t": {"%s": [7]}}' % ("7" * 5000), "not a whole number of 64 bits"),
    ("run.json", '{"i2t": {"5": [true, 7]}}', r"ranking of query 5 is \[True, 7\]"),
    ("run.json", '{"i2t": {"5": [1.0]}}', r"ranking of query 5 is \[1\.0\]; need a list of whole-number ids"),
    ("run.json", '{"i2t": {"5": [1e3]}}', r"ranking of query 5 is \[1000\.0\]; need a list of whole-number ids"),
    ("run.json", '{"i2t": {"5": {"7": NaN}}}', "found NaN, expected finite numbers"),
    ("run.json", '{"i2t": {"5": {"7": 1e400}}}', "gives item 7 the score inf. Leave out"),
    ("run.json", '{"i2t": {"5": {"7": %s}}}' % ("7" * 400), "a score beyond float64"),
    ("run.json", '{"i2t": {"5": {"7": "0.5"}}}', "gives item 7 the score '0.5'; a score is one number"),
    ("run.json", '{"i2t": {"5": {"7": true}}}', "gives item 7 the score True; a score is one number"),
    ("run.json", '{"i2t": {"5": {"7": null}}}', "gives item 7 the score None"),
    ("run.json", '{"i2t": {"5": {"7": [0.5]}}}', r"gives item 7 the score \[0.5\]"),
    ("run.json", '{"i2t": {"5": {"7": 0.5, "07": 0.4}}}', "lists item 7 twice, at ranks 1 and 2"),
    ("run.json", '{"i2t": {"5": {}}}', "ranking of query 5 is empty"),
    ("run.json", '{"i2t": {"5": {"cat.jpg": 0.5}}}', "item id 'cat.jpg' is not a whole number"),
    ("run.json", '{"i2t": {"5": {"7": 0.5}, "6": [7]}}', "query 5 has a dict of scores, query 6 has none"),
    ("run.json", '{"i2t": {"5": {"7": 0.5}}, "t2i": {"7": [5]}}', "i2t has scores, t2i has lists without scores"),
    ("run.json", '{"5": {"7": 0.5}}', "does not say which direction.*run_i2t.json, .*--direction i2t"),
    ("run.json", '{"COCO_val2014_000000000042.jpg": {"7": 0.5}}', "the last number in the names of COCO's files"),
    ("run.json", '{"i2t": {"5": [NaN]}}', "found NaN, expected finite numbers"),
    ("run.json", '{"i2t": {"5": [1], "5": [2]}}', "key '5': found it twice"),
    ("run.json", '{"i2t": {"5": [1], "05": [2]}}', "id 5 is in rows 0 and 1"),
    ("run.json", '{"i2t": {"5": [%s]}}' % ("7" * 5000), "a number of thousands of digits"),
    ("run.json", '{"i2t": {"5": [9223372036854775808]}}', "ranking of query 5 is"),
    ("run.json", '\ufeff{"i2t": {"5": [7]}}', "no JSON.*BOM"),
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
]


def test_damaged_gzip_is_refused(tmp_path):
    path = tmp_path / "run.json.gz"
    whole = gzip.compress(b'{"i2t": {"5": {"7": 0.5}}}')
    assert load_run(write(path, whole)).lists["i2t"].scores.tolist() == [0.5]
    for damaged in (b"{}", whole[:-9], whole[:15] + b"0" + whole[16:]):
        with pytest.raises(MalformedRun, match=r"incomplete or damaged data.*save it again"):
            load_run(write(path, damaged))
    with pytest.raises(MalformedRun, match=r"unknown format '.gz'"):
        load_run(write(tmp_path / "run.parquet.gz", whole))


@pytest.mark.parametrize(("name", "text", "message"), TEXTS)
def test_text_that_is_no_ranking_is_refused(name, text, message, tmp_path):
    with pytest.raises(MalformedRun, match=message):
        load_run(write(tmp_path / name, text))


TABLES = [
    ({"query_id": [1], "rank": [1]}, "has the columns query_id, rank, direction; needs query_id"),
    ({"query_id": [1, None], "rank": [1, 1], "item_id": [2, 3]}, "column query_id: has 1 nulls, the first in row 1"),
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
]


@pytest.mark.parametrize(("columns", "message"), TABLES)
def test_table_that_is_no_ranking_is_refused(columns, message, tmp_path):
    direction = pa.array(["i2t"] * len(columns["query_id"]), pa.string())
    with pytest.raises(MalformedRun, match=message):
        load_run(write(tmp_path / "run.parquet", {**columns, "direction": direction}))


def test_two_columns_of_one_name_are_refused(tmp_path):
    table = pa.table([[1], [2], [1], [2]], names=["item_id", "item_id", "rank", "query_id"])
    pq.write_table(table, tmp_path / "i2t.parquet")
    with pytest.raises(MalformedRun, match="has the columns item_id, item_id, rank, query_id; needs"):
        load_run(tmp_path / "i2t.parquet")


def ranked(scores):
    return RankedLists(np.array([1, 2]), np.array([0, 2, 4]), np.array([5, 6, 5, 6]), np.array(scores))


IN_PYTHON = [
    (
        lambda: RankingsRun.from_dicts({5: {7: float("nan")}}),
        MalformedRun,
        "query 5 gives item 7 the score nan. Leave out the items that were not scored",
    ),
    (lambda: RankingsRun.from_dicts({5: {7: np.True_}}), MalformedRun, "the score True; a score is one number"),
    (lambda: RankingsRun.from_dicts({5: {7: np.ones(2)}}), MalformedRun, "a score is one number"),
    (lambda: RankingsRun.from_dicts({5: {7.5: 1.0}}), MalformedRun, "item id 7.5 is not a whole number"),
    (lambda: RankingsRun.from_dicts({5: [(7, 1)]}), MalformedRun, "need a list of whole-number ids"),
    (lambda: RankingsRun.from_dicts("run.json"), MalformedRun, "i2t: is a str; give a dict of query id"),
    (lambda: RankingsRun.from_dicts({5: {7: 1.0}}, {7: [5]}), MalformedRun, "the dicts: i2t has scores, t2i has lists"),
    (lambda: RankingsRun.from_dicts({5: [True, 7]}), MalformedRun, "need a list of whole-number ids"),
    (lambda: RankingsRun.from_dicts({5: (7, np.True_)}), MalformedRun, "need a list of whole-number ids"),
    (lambda: RankingsRun.from_dicts({5: [False]}), MalformedRun, "need a list of whole-number ids"),
    (lambda: RankingsRun({"i2c": RankedLists.of({1: [7]})}), UnknownName, "unknown direction 'i2c'"),
    (
        lambda: RankedLists.of({1: [5, 10**15], 2: [10**15, 5, 10**15]}),
        MalformedRun,
        f"query 2 lists item {10**15} twice, at ranks 1 and 3",
    ),
    (lambda: ranked([2.0, 1.0, 9.0, 9.5]), MalformedRun, r"query 2 has score 9\.5 at rank 2"),
    (lambda: ranked([2.0, 1.0, np.inf, 9.5]), MalformedRun, "query 2 has score inf at rank 1"),
    (
        lambda: Embeddings([1, 2], [[1, 0], [0, 1]]),
        MalformedRun,
        "has type int64, expected float16, float32 or float64",
    ),
    (
        lambda: Embeddings([4, 5, 6], [[0.0, 0.0], [1e-40, 0.0], [0.0, 0.0]]),
        MalformedRun,
        r"row 1 \(id 5\) .*1 of 3 vectors are too small for float32",
    ),
    (lambda: EmbeddingsRun(None, Embeddings([1], [[1.0]]), model=" "), MalformedRun, "run: the model's name is ' '"),
    (
        lambda: EmbeddingsRun(None, Embeddings([1], [[1.0]]), similarity="Dot"),
        MalformedRun,
        "run: its similarity is 'Dot'; save cosine or dot, or none",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), IN_PYTHON)
def test_run_made_in_python_is_checked(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.fixture
def folder(tmp_path):
    """A folder with a file of each kind, for paths and options that do not fit."""
    (tmp_path / "folder.json").mkdir()
    write(tmp_path / "run.json", '{"i2t": {"1": [7]}}')
    write(tmp_path / "nameless.json", '{"1": [7]}')
    write(tmp_path / "run.npz", {"caption_ids": [1], "caption_embeddings": [[1.0]]})
    table = {"query_id": [1], "item_ids": [[2]]}
    write(tmp_path / "run.parquet", {**table, "direction": ["i2t"]})
    write(tmp_path / "upper.parquet", {**table, "direction": ["I2T"]})
    for name, model in (("clip_i2t", "CLIP"), ("siglip_t2i", "SigLIP"), ("latin_t2i", b"\xff")):
        named = pa.table(table).replace_schema_metadata({"model": model})
        pq.write_table(named, tmp_path / f"{name}.parquet")
    return tmp_path


CALLS = [
    (["folder.json"], {}, MalformedRun, "is a folder"),
    ([""], {}, MalformedRun, "is a folder, not a file"),
    (["absent.trec"], {}, NoSuchFile, "no such file"),
    (["nun.npz"], {}, FileNotFoundError, r"nun\.npz: no such file; did you mean .*run\.npz\?"),
    (["models/clip.npz"], {}, NoSuchFile, r"there is no folder .*models"),
    (["upper.parquet"], {}, UnknownName, r"upper\.parquet.*'I2T'; did you mean 'i2t'\?"),
    (["nameless.json"], {"direction": "t2x"}, UnknownName, "unknown direction 't2x'"),
    (["run.json"], {"direction": "i2t"}, InvalidOption, "names its directions .*; leave out direction"),
    (["run.parquet"], {"direction": "i2t"}, InvalidOption, "has a column of directions; leave out direction"),
    (["run.npz"], {"direction": "i2t"}, InvalidOption, "a direction is for rankings"),
    (["run.npz", "run.json"], {}, InvalidOption, "got 2 files, but only rankings"),
    ([], {}, InvalidOption, "needs a file"),
    (["run.json", "run.parquet"], {}, MalformedRun, "both hold the rankings of i2t"),
    (["clip_i2t.parquet", "siglip_t2i.parquet"], {}, MalformedRun, "are of CLIP and SigLIP; give files of one model"),
    (["latin_t2i.parquet"], {}, MalformedRun, "text that is not UTF-8"),
]


@pytest.mark.parametrize(("names", "options", "error", "message"), CALLS)
def test_call_that_fits_no_file_is_refused(folder, names, options, error, message):
    with pytest.raises(error, match=message):
        load_run(*[folder / name for name in names], **options)


def test_embeddings_are_read_from_two_formats(tmp_path):
    with pytest.raises(MalformedRun, match=r"unknown embeddings format '\.pt'; use \.npz or \.safetensors"):
        load_embeddings(tmp_path / "model.pt")


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".json", ".parquet", ".xyz"])
def test_names_from_files_are_escaped(suffix, tmp_path):
    name = "\x1b[31m\r\n\u202ex"
    path = tmp_path / f"a\n\x1b[31m_i2t{suffix}"
    content = json.dumps({name: {"5": [7]}}) if suffix in (".json", ".xyz") else {name: np.array([7])}
    write(path, content)
    with pytest.raises(CxcEccvError) as caught:
        load_run(path)
    assert str(caught.value).isprintable()
    assert str(caught.value).count(r"\x1b[31m") == 1 + (suffix != ".xyz")
