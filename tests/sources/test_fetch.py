"""Mirror folders, editions, offline behaviour, states, and hashes; nothing here touches the network."""

import gzip
import hashlib
import os
import socket

import pytest

from cxc_eccv import hashing
from cxc_eccv.errors import HashMismatch, InvalidOption, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.hashing import hash_content
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.sources.download import fetch, find_catalog, locate, state
from cxc_eccv.sources.reading import read_bytes

MIRROR = os.environ.get("CXC_ECCV_DATA", "")
VARIABLES = ("CXC_ECCV_DATA", "CXC_ECCV_OFFLINE", "HF_HUB_OFFLINE")
CONTENT = b"caption1,caption2,agg_score,sampling_method\n"


@pytest.fixture(autouse=True)
def isolated(tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("the network was used"))


def listing(name, data=CONTENT):
    return f'[entries.{name}]\nsha256 = "{hashlib.sha256(data).hexdigest()}"\nsize = {len(data)}\n'


def mirror(folder, edition="official", names=("sts_val",)):
    """A mirror folder whose catalog describes CONTENT under the given names; it holds none of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    text = f'edition = "{edition}"\n' + "".join(listing(name) for name in names)
    (folder / "catalog.toml").write_text(text, encoding="utf-8")
    return folder


def put(folder, path, data=CONTENT):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target


def test_data_dir_option_overrides_the_environment_variable(tmp_path, monkeypatch):
    one = mirror(tmp_path / "one")
    two = mirror(tmp_path / "two")
    first = put(one, "cxc/sts_val.csv")
    second = put(two, "cxc/sts_val.csv")
    monkeypatch.setenv("CXC_ECCV_DATA", str(one))
    assert fetch("sts_val") == first
    assert fetch("sts_val", two) == second


def test_plain_file_is_preferred_to_its_gzip(tmp_path):
    folder = mirror(tmp_path / "data")
    twin = put(folder, "cxc/sts_val.csv.gz", gzip.compress(CONTENT))
    assert fetch("sts_val", folder) == twin
    assert read_bytes(twin) == CONTENT
    assert hash_content(twin) == hashlib.sha256(CONTENT).hexdigest()
    plain = put(folder, "cxc/sts_val.csv")
    assert fetch("sts_val", folder) == plain


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (CONTENT[:20], "is truncated: found 20 bytes, expected 44"),
        (b"", "is truncated: found 0 bytes"),
        (CONTENT + b"\n", "is too long: found 45 bytes"),
        (CONTENT.upper(), f"expected {hashlib.sha256(CONTENT).hexdigest()}"),
    ],
)
def test_an_altered_mirror_file_is_refused_unless_allowed(tmp_path, data, message):
    folder = mirror(tmp_path / "data")
    path = put(folder, "cxc/sts_val.csv", data)
    for call in (fetch, locate):
        with pytest.raises(HashMismatch) as caught:
            call("sts_val", folder)
        assert message in str(caught.value)
        assert str(path) in str(caught.value)
        assert "Replace it with" in str(caught.value)
        assert "--allow-modified" in str(caught.value)
        assert call("sts_val", folder, allow_modified=True) == path


def test_mirror_uses_its_own_or_the_official_catalog(tmp_path):
    path = put(tmp_path / "data", "cxc/sts_val.csv")
    with pytest.raises(HashMismatch, match="is truncated: found 44 bytes, expected 3,092,201") as caught:
        fetch("sts_val", tmp_path / "data")
    assert load_catalog().entry("sts_val").url in str(caught.value)
    assert fetch("sts_val", tmp_path / "data", allow_modified=True) == path
    path = put(tmp_path / "data", "coco/dataset_coco.json", b"{}")
    assert fetch("karpathy_coco", tmp_path / "data") == path
    assert [item.name for item in path.parent.iterdir()] == ["dataset_coco.json"]


def test_file_missing_in_mirror_comes_from_cache(tmp_path):
    """A modified file in the cache is refused, even where modified data are allowed."""
    folder = mirror(tmp_path / "data")
    cached = put(tmp_path / "cache", "cxc/sts_val.csv")
    assert fetch("sts_val", folder) == cached
    cached.write_bytes(CONTENT.upper())
    with pytest.raises(HashMismatch, match=r"Delete .* to download it again"):
        fetch("sts_val", folder, allow_modified=True)


def test_other_edition_never_uses_cache_or_download(tmp_path):
    folder = mirror(tmp_path / "data", "mine", ("sts_val", "sts_test"))
    path = put(folder, "cxc/sts_val.csv")
    put(tmp_path / "cache", "cxc/sts_test.csv")
    assert find_catalog(folder).edition == "mine"
    assert fetch("sts_val", folder) == path
    assert locate("sts_test", folder) is None
    for name in ("sts_test", "sis_val"):
        with pytest.raises(SourceMissing, match=rf"^{name} .* is not part of the edition 'mine' in .*, and editions"):
            fetch(name, folder)


def test_the_sample_is_found_whole(monkeypatch):
    catalog = find_catalog("sample")
    assert catalog.edition == "sample"
    held = [entry.name for entry in catalog if locate(entry.name, "sample")]
    assert {"karpathy_coco", "sts_test", "sis_test", "sits_test", "eccv_image_to_caption"} <= set(held)
    with pytest.raises(SourceMissing) as caught:
        fetch("flickr30k", "sample")
    assert str(caught.value) == (
        "flickr30k (flickr/dataset_flickr30k.json) is not part of the embedded sample. To use the real data, unset "
        "CXC_ECCV_DATA, or choose another --data-dir."
    )
    monkeypatch.setenv("CXC_ECCV_DATA", "sample")
    assert fetch("sts_test").is_relative_to(fetch("sts_test", "sample").parents[1])


@pytest.mark.parametrize(
    ("variables", "option", "reason"),
    [
        ({}, True, "offline=True"),
        ({"CXC_ECCV_OFFLINE": "1"}, None, "CXC_ECCV_OFFLINE=1"),
        ({"HF_HUB_OFFLINE": "true"}, None, "HF_HUB_OFFLINE=true"),
    ],
)
def test_offline_error_says_where_to_get_files(tmp_path, monkeypatch, variables, option, reason):
    """It also says where to put the file."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "data").mkdir()
    with pytest.raises(SourceMissing) as caught:
        fetch("sts_val", tmp_path / "data", offline=option)
    entry = load_catalog().entry("sts_val")
    message = str(caught.value)
    places = [str(tmp_path / "data"), str(tmp_path / "cache"), str(tmp_path / "data" / "cxc" / "sts_val.csv")]
    options = ["--data-dir", "CXC_ECCV_DATA"]
    for part in ["cxc/sts_val.csv", f"downloads are off ({reason})", entry.url, entry.sha256, *places, *options]:
        assert part in message


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("karpathy_coco", ["caption_datasets.zip, member dataset_coco.json", "sha256: not published"]),
        ("karpathy_test", ["derived from karpathy_coco", "official address: none"]),
        ("instances_karpathy_val", ["derived from instances_train2014 and instances_val2014"]),
        ("entailment_val", ["it is a file of your own", "entailment/entailment_val.jsonl"]),
    ],
)
def test_each_missing_source_has_its_own_explanation(name, parts):
    with pytest.raises(SourceMissing) as caught:
        fetch(name, offline=True)
    for part in parts:
        assert part in str(caught.value)


def test_unknown_names_and_folders(tmp_path, monkeypatch):
    with pytest.raises(UnknownName, match="did you mean 'sits_val'"):
        fetch("sits_vall")
    with pytest.raises(InvalidOption, match=r"data_dir \(--data-dir\): .*absent' is not a folder"):
        fetch("sits_val", tmp_path / "absent")
    monkeypatch.setenv("CXC_ECCV_DATA", str(tmp_path / "absent"))
    with pytest.raises(InvalidOption, match=r"CXC_ECCV_DATA: .*absent' is not a folder"):
        locate("sits_val")


def test_states(tmp_path):
    folder = tmp_path / "data"
    alone = mirror(tmp_path / "alone", "mine")
    put(folder, "cxc/sts_val.csv.gz")
    put(tmp_path / "cache", "cxc/sts_test.csv")
    catalog = load_catalog()
    expected = {
        "sts_val": "in mirror",
        "sts_test": "present",
        "sis_val": "to download",
        "karpathy_coco": "to download",
        "karpathy_val": "user-provided",
        "entailment_val": "user-provided",
    }
    assert {name: state(catalog.entry(name), folder) for name in expected} == expected
    assert state(catalog.entry("sts_test"), alone) == "not in edition"


def test_cached_file_is_pinned_at_first_use(tmp_path):
    """Other content is refused from then on."""
    path = put(tmp_path / "cache", "coco/dataset_coco.json", b"{}")
    assert locate("karpathy_coco") == path
    record = path.with_name("dataset_coco.json.sha256")
    assert record.read_text() == f"{hashlib.sha256(b'{}').hexdigest()}  dataset_coco.json\n"
    path.write_bytes(b"[]")
    with pytest.raises(HashMismatch, match=f"expected {hashlib.sha256(b'{}').hexdigest()}"):
        fetch("karpathy_coco")


@pytest.mark.skipif(MIRROR in {"", "sample"}, reason="CXC_ECCV_DATA names no mirror of the real data")
def test_files_of_the_real_mirror_match_the_catalog():
    found = {entry.name: entry for entry in find_catalog(MIRROR) if locate(entry.name, MIRROR)}
    assert {"sts_val", "sits_test", "eccv_image_to_caption", "karpathy_test", "pcme_coco_train_ids"} <= found.keys()
    for name, entry in found.items():
        data = read_bytes(fetch(name, MIRROR, offline=True))
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (entry.sha256, entry.size), name


@pytest.mark.parametrize(
    ("read", "damage"),
    [
        (read_bytes, lambda data: data[:-9]),
        (read_bytes, lambda data: data[:20] + b"\x00\x00" + data[22:]),
        (hash_content, lambda data: b"plain"),
    ],
)
def test_damaged_gzip_file_is_malformed(tmp_path, read, damage):
    path = tmp_path / "a.csv.gz"
    path.write_bytes(damage(gzip.compress(bytes(range(256)) * 4)))
    with pytest.raises(MalformedSource, match=r"a\.csv\.gz: found incomplete or .*expected a complete .* file"):
        read(path)


def test_file_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    reads = []
    opened = hashing.open_content
    monkeypatch.setattr(hashing, "open_content", lambda path: reads.append(path) or opened(path))
    path = tmp_path / "a.csv"
    path.write_bytes(b"one")
    assert [hash_content(path) for _ in range(3)] == [hashlib.sha256(b"one").hexdigest()] * 3
    assert len(reads) == 1
    path.write_bytes(b"three")
    assert hash_content(path) == hashlib.sha256(b"three").hexdigest()
    assert len(reads) == 2
