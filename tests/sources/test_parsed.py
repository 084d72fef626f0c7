"""Kept tables of raw files: the same as what was read, never of another file, and never damaged."""

import gzip
import json
import os
import subprocess
import sys
import time
from dataclasses import fields, is_dataclass, make_dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from damages import damages
from hypothesis import HealthCheck, given, settings

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources import parsed, readers
from cxc_eccv.sources.parsed import parse

pytestmark = pytest.mark.thorough

READER = readers.read_ratings
HEADER = "caption1,caption2,agg_score,sampling_method\n"
ROW = "COCO_val2014:sentid:1,COCO_val2014:sentid:2,3.5,c2c_isim\n"


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    """The folder of the kept tables; the smallest raw file is kept too."""
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(parsed, "SMALLEST", 0)
    return tmp_path / "cache/tables"


@pytest.fixture
def ratings(tmp_path):
    path = tmp_path / "sts_val.csv"
    path.write_text(HEADER + ROW)
    return path


@pytest.fixture
def replace_reader(monkeypatch):
    """Puts another reader among those of the package, as ``read_counted``."""

    def replace(read):
        def read_counted(*arguments):
            return read(*arguments)

        monkeypatch.setattr(readers, "read_counted", read_counted, raising=False)
        return read_counted

    return replace


@pytest.fixture
def calls(replace_reader):
    """How often the reader ran."""
    counted = []
    replace_reader(lambda *arguments: counted.append(arguments) or READER(*arguments))
    return counted


def entry_in(tables):
    (entry,) = tables.iterdir()
    return entry


def same(left, right):
    """Whether two results are equal in type, schema, dtype and value."""
    if type(left) is not type(right):
        return False
    if isinstance(left, pa.Table):
        return left.equals(right, check_metadata=True)
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if is_dataclass(left):
        return all(same(getattr(left, field.name), getattr(right, field.name)) for field in fields(left))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    return left == right


SENTENCES = "4.40\tA pair of dogs.\tTwo dogs.\n\tA dog.\tA cat.\n"
INSTANCES = {
    "images": [{"id": 7}, {"id": 9}],
    "annotations": [{"id": 1, "image_id": 9, "category_id": 3}],
    "categories": [{"id": 1, "name": "person"}, {"id": 3, "name": "car"}],
}
PAIRS = [
    {"image": "1.jpg", "hypothesis": "A man.", "label": "entailment", "premise": ["A", "B"], "votes": None},
    {"image": "1.jpg", "hypothesis": "A dog.", "label": "-"},
]
KARPATHY = {
    "images": [
        {"filename": "1.jpg", "split": "test", "sentences": [{"raw": f"A {n}", "sentid": n} for n in range(7)]},
        {"filename": "2.jpg", "split": "val", "sentences": [{"raw": "One", "sentid": 8}], "filepath": "val2014"},
    ]
}

FORMS = {
    "ratings": (READER, "a.csv", HEADER + ROW, ("sts",)),
    "annotators": (readers.read_annotators, "a.csv", HEADER + ROW, ("sts",)),
    "positives": (readers.read_positives, "a.json", '{"3": [4, 5], "1": [2]}', ()),
    "karpathy": (readers.read_karpathy, "a.json", json.dumps(KARPATHY), ()),
    "categories": (readers.read_category_sets, "a.json", json.dumps(INSTANCES), ()),
    "instances": (readers.read_instances, "a.json", json.dumps(INSTANCES), ()),
    "entailment": (readers.read_entailment, "a.jsonl", "\n".join(map(json.dumps, PAIRS)), ()),
    "flickr8k": (readers.read_flickr8k, "a.txt", "1000268201_693b08cb0e.jpg#0\tA child .\n", ()),
    "semeval": (readers.read_semeval, "a.tsv", SENTENCES, ()),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzipped"])
def test_what_is_kept_equals_what_was_read(name, compressed, tmp_path, tables):
    reader, file_name, text, arguments = FORMS[name]
    path = tmp_path / (file_name + ".gz" * compressed)
    path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    files = [path] if reader == readers.read_karpathy else path
    plain = reader(files, *arguments)
    assert same(parse(reader, files, *arguments), plain)
    entry = entry_in(tables)
    before = entry.stat()
    assert same(parse(reader, files, *arguments), plain)
    after = entry_in(tables).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_kept_file_is_read_again_by_a_changed_reader_alone(ratings, calls, monkeypatch):
    assert parse(readers.read_counted, ratings, "sts").equals(parse(readers.read_counted, ratings, "sts"))
    assert len(calls) == 1
    parse(readers.read_counted, ratings, "sts")
    monkeypatch.setattr(parsed, "readers_version", lambda: "another")
    parse(readers.read_counted, ratings, "sts")
    assert len(calls) == 2


def test_arguments_and_endings_tell_entries_apart(tmp_path, ratings, tables, calls):
    parse(readers.read_counted, ratings, "sts")
    with pytest.raises(MalformedSource):
        parse(readers.read_counted, ratings, "sis")
    twin = tmp_path / "sts_val.txt"
    twin.write_bytes(ratings.read_bytes())
    parse(readers.read_counted, twin, "sts")
    assert len(calls) == 3
    assert len(list(tables.iterdir())) == 2


def test_the_entry_of_another_or_a_changed_file_is_not_taken(tmp_path, ratings, tables):
    parse(READER, ratings, "sts")
    (first,) = tables.iterdir()
    other = tmp_path / "other.csv"
    other.write_text(HEADER + ROW.replace("3.5", "1.5"))
    parse(READER, other, "sts")
    second = next(path for path in tables.iterdir() if path != first)
    second.write_bytes(first.read_bytes())
    assert parse(READER, other, "sts")["rating"].to_pylist() == [1.5]
    times = ratings.stat()
    ratings.write_text(HEADER + ROW.replace("3.5", "2.5"))
    os.utime(ratings, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert parse(READER, ratings, "sts")["rating"].to_pylist() == [2.5]


def test_a_raw_file_that_changes_while_it_is_read_is_not_kept(ratings, tables, replace_reader):
    def read_and_write(path, kind):
        table = READER(path, kind)
        path.write_text(HEADER + ROW.replace("3.5", "1.5"))
        return table

    parse(replace_reader(read_and_write), ratings, "sts")
    assert not tables.exists()


def test_the_version_follows_the_source_code(monkeypatch, tmp_path):
    for folder in ("sources/readers", "types"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("A = 1")
    monkeypatch.setattr(parsed, "__file__", str(tmp_path / "sources/parsed.py"))
    with pytest.raises(FileNotFoundError):
        parsed.readers_version.__wrapped__()
    (tmp_path / "sources/reading.py").write_text("B = 1")
    first = parsed.readers_version.__wrapped__()
    assert parsed.readers_version.__wrapped__() == first
    (tmp_path / "sources/readers/a.py").write_text("A = 2")
    assert parsed.readers_version.__wrapped__() != first


@pytest.mark.parametrize(
    "found",
    [SimpleNamespace(rows=3), make_dataclass("Rows", ["number"])(3), [1, 2], np.array(["a", None], dtype=object)],
)
def test_a_result_without_a_form_is_not_kept(found, ratings, tables, replace_reader):
    read = replace_reader(lambda _path: found)
    assert parse(read, ratings) is parse(read, ratings) is found
    assert not tables.exists()


def test_what_is_refused_is_refused_again(tmp_path, tables):
    path = tmp_path / "a.csv"
    path.write_text(HEADER + ROW.replace("3.5", "6"))
    for _ in range(2):
        with pytest.raises(MalformedSource, match=r"a\.csv, line 2.*'6'"):
            parse(READER, path, "sts")
    assert not tables.exists()


def test_small_files_and_results_of_readers_from_elsewhere_or_without_source_are_not_kept(ratings, tables, monkeypatch):
    def read_ratings(path):
        return path.name

    def no_source():
        raise FileNotFoundError("sources")

    assert parse(read_ratings, ratings) == parse(lambda path: path.name, ratings) == "sts_val.csv"
    assert not tables.exists()
    with monkeypatch.context() as patch:
        patch.setattr(parsed, "readers_version", no_source)
        assert parse(READER, ratings, "sts").num_rows == 1
    assert not tables.exists()
    with monkeypatch.context() as patch:
        patch.setattr(parsed, "SMALLEST", ratings.stat().st_size + 1)
        parse(READER, ratings, "sts")
    assert not tables.exists()


@pytest.mark.parametrize(("word", "kept"), [("1", False), ("on", False), ("0", True), ("", True)])
def test_the_switch(word, kept, ratings, tables, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_NO_TABLE_CACHE", word)
    parse(READER, ratings, "sts")
    assert tables.exists() == kept


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damages())
def test_a_damaged_entry_is_replaced(damage, ratings, tables):
    plain = READER(ratings, "sts")
    parse(READER, ratings, "sts")
    entry = entry_in(tables)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))
    assert same(parse(READER, ratings, "sts"), plain)
    assert entry_in(tables).read_bytes() == whole


@pytest.mark.parametrize("place", ["folder", "pipe", "nothing"])
def test_something_else_in_the_place_of_an_entry(place, ratings, tables):
    parse(READER, ratings, "sts")
    entry = entry_in(tables)
    entry.unlink()
    if place == "folder":
        entry.mkdir()
    elif place == "pipe":
        os.mkfifo(entry)
    assert parse(READER, ratings, "sts").num_rows == 1
    assert entry.is_file() == (place != "folder")
    assert [path.name for path in tables.iterdir()] == [entry.name]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, ratings, monkeypatch):
    (tmp_path / "blocked").write_text("a file where a folder is needed")
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "blocked"))
    assert parse(READER, ratings, "sts").num_rows == 1
    monkeypatch.setenv("CXC_ECCV_CACHE", "~nobody-of-this-name/cache")
    assert parse(READER, ratings, "sts").num_rows == 1


def test_a_full_disk_is_no_error_and_leaves_nothing(ratings, tables, monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert parse(READER, ratings, "sts").num_rows == 1
    assert not list(tables.iterdir())


def test_drafts_of_killed_processes_and_the_oldest_entries_go(ratings, tables, tmp_path, monkeypatch):
    tables.mkdir(parents=True)
    for name, age in (("old.part", 2 * parsed.LONGEST_WRITE), ("new.part", 0)):
        (tables / name).touch()
        os.utime(tables / name, (time.time() - age,) * 2)
    parse(READER, ratings, "sts")
    assert [path.name for path in tables.iterdir() if path.suffix == ".part"] == ["new.part"]
    monkeypatch.setattr(parsed, "KEPT", 3)
    for number in range(5):
        path = tmp_path / f"{number}.csv"
        path.write_text(HEADER + ROW.replace("3.5", str(number)))
        parse(READER, path, "sts")
        for entry in tables.iterdir():
            os.utime(entry, ns=(0, entry.stat().st_mtime_ns - 10**9))
    assert len(list(tables.glob("*.arrow"))) == 3


PROCESS = """
import sys
from pathlib import Path
from cxc_eccv.sources import parsed, readers
parsed.SMALLEST = 0
for _ in range(20):
    assert parsed.parse(readers.read_ratings, Path(sys.argv[1]), "sts").num_rows == 3000
    for entry in parsed.tables_folder().iterdir():
        entry.unlink(missing_ok=True)
"""


def test_two_processes_write_and_remove_the_same_entry(tmp_path, tables):
    path = tmp_path / "a.csv"
    path.write_text(HEADER + "".join(ROW.replace("sentid:1", f"sentid:{n}") for n in range(3, 3003)))
    workers = [subprocess.Popen([sys.executable, "-c", PROCESS, str(path)]) for _ in range(2)]
    assert [worker.wait(120) for worker in workers] == [0, 0]
    assert not [entry for entry in tables.iterdir() if entry.suffix == ".part"]
    assert parse(READER, path, "sts").equals(READER(path, "sts"))
