"""RoCOCO's raw files are read strictly, and the config has their rows."""

import gzip
import json
from pathlib import Path

import pytest

import cxc_eccv as ce
from cxc_eccv.errors import MalformedSource, UnknownName
from cxc_eccv.sources.readers import read_rococo
from cxc_eccv.types.altered import ALTERATIONS

FILE = Path(ce.__file__).parent / "sample/rococo/danger.json"


@pytest.fixture(scope="module")
def content(sample_library):
    return sample_library.karpathy("test")


def refuse(tmp_path, content, text, *parts):
    path = tmp_path / "danger.json"
    path.write_text(text)
    with pytest.raises(MalformedSource) as refused:
        read_rococo(path, content)
    for part in (str(path), *parts):
        assert part in str(refused.value)


def changed(change):
    entries = json.loads(FILE.read_text())
    change(entries)
    return json.dumps(entries)


def exchange(entries):
    entries[2], entries[3] = entries[3], entries[2]


def number(entries):
    entries[1]["caption"][7] = 7


BAD = {
    "cut": (lambda: FILE.read_text()[:5000], ["line 1, column", "valid JSON"]),
    "empty": (lambda: "", ["an empty file"]),
    "no list": (lambda: "{}", ["{}", "a list of 60 entries"]),
    "one entry too few": (lambda: changed(lambda entries: entries.pop()), ["59 entries", "a list of 60 entries"]),
    "another order": (lambda: changed(exchange), ["[2].image", "in the order of the split"]),
    "no captions": (lambda: changed(lambda entries: entries[4].pop("caption")), ["[4]", "a key 'caption'"]),
    "nine captions": (lambda: changed(lambda entries: entries[5]["caption"].pop()), ["[5].caption", "9 captions"]),
    "twelve captions": (lambda: changed(lambda entries: entries[5]["caption"].extend("ab")), ["12 captions"]),
    "another original": (
        lambda: changed(lambda entries: entries[6]["caption"].__setitem__(2, entries[6]["caption"][2] + " ")),
        ["[6].caption", "the caption "],
    ),
    "a blank one": (
        lambda: changed(lambda entries: entries[7]["caption"].__setitem__(9, " ")),
        ["[7].caption[9]", "blanks"],
    ),
    "a number": (lambda: changed(number), ["[1].caption[7]", "7", "a text"]),
    "no text": (lambda: changed(lambda entries: entries[8].__setitem__("image", None)), ["[8].image", "None"]),
}


@pytest.mark.parametrize(("text", "parts"), BAD.values(), ids=BAD)
def test_a_file_that_breaks_the_format_is_refused(tmp_path, content, text, parts):
    refuse(tmp_path, content, text(), *parts)


def test_a_sixth_original_is_no_altered_caption(content):
    table = read_rococo(FILE, content)
    assert table.column_names == ["caption_id", "image_id", "original", "altered"]
    assert table["original"].to_pylist() == content.captions["text"].to_pylist()
    sixth = next(entry for entry in json.loads(FILE.read_text()) if len(entry["caption"]) == 11)
    assert sixth["caption"][5] not in table["original"].to_pylist() + table["altered"].to_pylist()


def test_a_gzipped_file_is_read_alike(tmp_path, content):
    path = tmp_path / "danger.json.gz"
    path.write_bytes(gzip.compress(FILE.read_bytes()))
    assert read_rococo(path, content).equals(read_rococo(FILE, content))


def test_the_config_has_every_kind(sample_library, tmp_path):
    dataset = ce.load("rococo", split="test", data_dir="sample", cache_dir=tmp_path)
    assert dataset.num_rows == 4 * 300
    kinds = dataset.features["kind"]
    assert kinds.names == list(ALTERATIONS)
    for place, kind in enumerate(ALTERATIONS):
        own = dataset.select(range(300 * place, 300 * (place + 1)))
        assert {kinds.int2str(number) for number in own["kind"]} == {kind}
        rows = sample_library.rococo(kind).to_pylist()
        assert [{name: row[name] for name in rows[0]} for row in own] == rows
    assert dataset[0]["file_name"] == sample_library.images("test")["file_name"][0].as_py()


def test_an_unknown_kind_is_refused(sample_library):
    with pytest.raises(UnknownName, match="rococo_dangers"):
        sample_library.rococo("dangers")
