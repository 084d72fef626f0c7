"""RoCOCO's raw files are read strictly, and the config has their rows."""

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


BAD = {
    "no list": (lambda _: {"a": 1}, ["{'a': 1}", "a list of 60 entries"]),
    "one entry too few": (lambda entries: entries[:-1], ["59 entries", "a list of 60 entries"]),
    "another order": (lambda entries: entries[:2] + entries[3:1:-1] + entries[4:], ["[2].image", "order of the split"]),
    "no captions": (lambda entries: entries[4].__delitem__("caption"), ["[4]", "a key 'caption'"]),
    "nine captions": (lambda entries: entries[5]["caption"].pop(), ["[5].caption", "9 captions"]),
    "twelve captions": (lambda entries: entries[5]["caption"].extend("ab"), ["12 captions"]),
    "another original": (
        lambda entries: entries[6]["caption"].insert(2, entries[6]["caption"].pop(2) + " "),
        ["[6].caption", "the caption "],
    ),
    "a blank one": (lambda entries: entries[7]["caption"].__setitem__(9, " "), ["[7].caption[9]", "blanks"]),
    "a number": (lambda entries: entries[1]["caption"].__setitem__(7, 7), ["[1].caption[7]", "7", "a text"]),
    "no text": (lambda entries: entries[8].update(image=None), ["[8].image", "None"]),
}


@pytest.mark.parametrize(("change", "parts"), BAD.values(), ids=BAD)
def test_a_file_that_breaks_the_format_is_refused(tmp_path, content, change, parts):
    entries, path = json.loads(FILE.read_text()), tmp_path / "danger.json"
    changed = change(entries)
    path.write_text(json.dumps(changed if isinstance(changed, list | dict) else entries))
    with pytest.raises(MalformedSource) as refused:
        read_rococo(path, content)
    for part in (str(path), *parts):
        assert part in str(refused.value)


def test_a_sixth_original_is_no_altered_caption(content):
    table = read_rococo(FILE, content)
    assert table.column_names == ["caption_id", "image_id", "original", "altered"]
    assert table["original"].to_pylist() == content.captions["text"].to_pylist()
    sixth = next(entry for entry in json.loads(FILE.read_text()) if len(entry["caption"]) == 11)
    assert sixth["caption"][5] not in table["original"].to_pylist() + table["altered"].to_pylist()


def test_the_config_has_every_kind_and_no_other(sample_library, tmp_path):
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
    with pytest.raises(UnknownName, match="rococo_dangers"):
        sample_library.rococo("dangers")
