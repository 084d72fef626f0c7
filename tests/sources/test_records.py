"""Long JSON lists read element by element: the same as read at once, as strict, and never whole in memory."""

import gzip
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources import reading
from cxc_eccv.sources.reading import read_json, read_records

SCALARS = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text() | st.floats(allow_nan=False, width=32)
VALUES = st.recursive(
    SCALARS.filter(lambda value: value not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("records") / "list.json"


@pytest.mark.thorough
@given(
    values=st.lists(VALUES, max_size=5),
    block=st.integers(1, 9),
    indent=st.none() | st.just(1),
    plain=st.booleans(),
)
def test_the_elements_of_any_list(path, values, block, indent, plain):
    text = json.dumps(values, indent=indent, ensure_ascii=plain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "BLOCK", block)
        patch.setattr(reading, "HEAD", 9)
        path.write_text(text, encoding="utf-8")
        try:
            expected = read_json(path)
        except MalformedSource:  # half a surrogate pair
            with pytest.raises(MalformedSource):
                list(read_records(path))
            return
        assert list(read_records(path)) == expected
        for spoilt in (text[:-1], f"{text} ]", f"{text}1"):
            path.write_text(spoilt, encoding="utf-8")
            with pytest.raises(MalformedSource):
                list(read_records(path))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["an empty file", "a list in brackets"]),
        ('{"a": [1]}', ["'{\"a\": [1]}'", "a list in brackets"]),
        ('[{"a": 1}, {"a": 2', ["[1]", "cut off"]),
        ('[{"a": 1},', ["[1]", "Expecting value", "cut off"]),
        ('[{"a": 1}', ["[0]", "Expecting ',' delimiter", "cut off"]),
        ('[{"a": 1} {"a": 2}]', ["[0]", "Expecting ',' delimiter", "valid JSON"]),
        ('[{"a": 1}, ]', ["[1]", "Expecting value"]),
        ('[{"a": 1}, {"a": NaN}]', ["[1]", "NaN", "finite numbers"]),
        ('[{"a": 1}, {"b": 1, "b": 2}]', ["[1]", "key 'b'", "every key once"]),
        ('[{"a": "\\ud800"}]', ["[0]", "half a surrogate pair"]),
        ("[" * 100_000, ["[0]", "nested too deep"]),
        ("[1" + "0" * 5_000 + "]", ["[0]", "thousands of digits"]),
        ("[1] x", ["after the list", "'x'", "the end of the file"]),
    ],
)
def test_bad_lists(path, text, parts):
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MalformedSource) as refused:
        list(read_records(path))
    assert all(part in str(refused.value) for part in parts), refused.value


def test_bytes_that_are_no_text_a_mark_at_the_start_and_a_compressed_file(path):
    for content in (b'[{"a": "\xff"}]', b'["\xc3'):
        path.write_bytes(content)
        with pytest.raises(MalformedSource, match=r"byte 0x\w\w near offset \d+, expected UTF-8 text"):
            list(read_records(path))
    path.write_bytes(b"\xef\xbb\xbf [ ]\n")
    assert list(read_records(path)) == []
    packed = path.with_name("list.json.gz")
    packed.write_bytes(gzip.compress(b'[{"a": 1}]'))
    assert list(read_records(packed)) == [{"a": 1}]
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(MalformedSource, match="gzip"):
        list(read_records(packed))


def test_a_broken_element_does_not_bring_the_rest_of_the_file_into_memory(path, monkeypatch):
    monkeypatch.setattr(reading, "LARGEST_RECORD", 10_000)
    monkeypatch.setattr(reading, "BLOCK", 1_000)
    monkeypatch.setattr(reading, "HEAD", 1_000)
    path.write_text("[{" + "[1], " * 200_000, encoding="utf-8")
    tracemalloc.start()
    with pytest.raises(MalformedSource, match=r"\[0\]"):
        list(read_records(path))
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_file(path, monkeypatch):
    monkeypatch.setattr(reading, "BLOCK", 10_000)
    monkeypatch.setattr(reading, "HEAD", 1_000)
    path.write_text(json.dumps([{"objects": list(range(100))}] * 5_000), encoding="utf-8")
    assert path.stat().st_size > 2_000_000
    tracemalloc.start()
    assert sum(1 for _ in read_records(path)) == 5_000
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()
