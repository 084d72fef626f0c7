"""Long JSON lists read element by element: the same as read at once, and never whole in memory."""

import gzip
import json
import tracemalloc

import pytest

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import read_records


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("records") / "list.json"


def test_elements_of_a_list(path):
    values = [{"a": [1, 2.5, None, True], "é": {}}, [], "\u2028", -(10**15)]
    text = json.dumps(values, indent=1, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    assert list(read_records(path)) == values


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file, expected a list in brackets"),
        (b'{"a": [1]}', "expected a list in brackets"),
        (b'[{"a": 1}, {"a": 2', r"\[1\]: .* valid JSON"),
        (b"[1" + b"0" * 5_000 + b"]", "valid JSON"),
        (b"[1] x", "valid JSON"),
        (b'[{"a": "\xff"}]', "valid JSON"),
    ],
)
def test_bad_lists(path, content, words):
    path.write_bytes(content)
    with pytest.raises(MalformedSource, match=words):
        list(read_records(path))


def test_compressed_list(path):
    packed = path.with_name("list.json.gz")
    packed.write_bytes(gzip.compress(b'[{"a": 1}]'))
    assert list(read_records(packed)) == [{"a": 1}]


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_file(path):
    path.write_text(json.dumps([{"objects": list(range(100))}] * 5_000), encoding="utf-8")
    assert path.stat().st_size > 2_000_000
    tracemalloc.start()
    assert sum(1 for _ in read_records(path)) == 5_000
    assert tracemalloc.get_traced_memory()[1] < 400_000
    tracemalloc.stop()
