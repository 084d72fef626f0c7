"""The catalog's facts, its lookups, what a malformed catalog gets, and the sentence that names the data."""

import re
import tomllib
from pathlib import Path

import pytest

from cxc_eccv import __version__
from cxc_eccv.builders.dataset_cards import bibtex
from cxc_eccv.errors import MalformedSource, SourceMissing, UnknownName
from cxc_eccv.sources.catalog import DRAWINGS, describe_data, load_catalog
from cxc_eccv.types.provenance import DataFacts, ModifiedFile

ROOT = Path(__file__).parents[2]

MINIMAL = """
edition = "official"
version = "1.0.0"
[groups.g]
title = "G"
licence = "MIT"
homepage = "https://example.org"
citations = ["paper"]
[archives.z]
url = "https://example.org/z.zip"
path = "archives/z.zip"
[citations]
paper = "@misc{paper}"
[entries.a]
group = "g"
path = "g/a.csv"
title = "A"
url = "https://example.org/a.csv"
[entries.b]
group = "g"
path = "g/b.csv"
title = "B"
archive = "z"
member = "b.csv"
derived_from = ["a"]
"""


def write(folder, text):
    path = folder / "catalog.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_official_catalog_is_pinned_and_inherits_group_fields():
    """What an entry does not say is taken from its group or its archive."""
    addresses = [entry.url for entry in load_catalog() if entry.url and "githubusercontent" in entry.url]
    assert all(re.search(r"/[0-9a-f]{40}/", address) for address in addresses)
    for entry in load_catalog():
        assert entry.url or entry.derived_from or entry.sha256 is None, entry.name
    entry = load_catalog().entry("instances_val2014")
    assert entry.url == "http://images.cocodataset.org/annotations/annotations_trainval2014.zip"
    assert (entry.member, entry.size) == ("annotations/instances_val2014.json", 160_682_675)
    catalog = load_catalog()
    assert catalog.entry("sts_val").licence == catalog.group("cxc").licence


def test_only_these_downloads_have_no_published_hash():
    unknown = {entry.name for entry in load_catalog() if entry.sha256 is None and entry.url}
    raw = {f"{kind}_{split}_raw" for kind in ("sts", "sis", "sits") for split in ("val", "test")}
    copies = {"snli_ve_train", "snli_ve_val", "snli_ve_test"}
    copies |= {"visual_genome_objects", "visual_genome_regions", "visual_genome_image_data"}
    assert unknown == raw | copies | {"karpathy_coco", "flickr30k", "instances_train2014"}
    paths = [item.path for item in (*load_catalog(), *load_catalog().archives.values())]
    assert len(set(paths)) == len(paths)


def test_every_citation_is_bibtex_under_its_key():
    """A group's own paper comes first."""
    for key, text in load_catalog().citations.items():
        assert re.match(rf"@\w+\{{{key},\n", text)
        assert text.count("{") == text.count("}")
    text = bibtex(["flickr30k"], load_catalog())
    assert text.startswith("@article{young2014image,")
    assert "@inproceedings{karpathy2015deep," in text


@pytest.mark.parametrize(("lookup", "name", "near"), [("entry", "sts_vall", "sts_val"), ("group", "cxcc", "cxc")])
def test_an_unknown_name_suggests_the_nearest(lookup, name, near):
    with pytest.raises(UnknownName, match=f"did you mean '{near}'"):
        getattr(load_catalog(), lookup)(name)


def test_changed_catalog_is_read_again(tmp_path):
    path = write(tmp_path, MINIMAL)
    assert load_catalog(path).entry("a").sha256 is None
    write(tmp_path, MINIMAL.replace('url = "https://example.org/a.csv"', f'sha256 = "{"0" * 64}"'))
    assert load_catalog(path).entry("a").sha256 == "0" * 64


def test_a_mirror_catalog_replaces_what_it_lists(tmp_path):
    base = load_catalog()
    path = write(tmp_path, f'edition = "mine"\n[entries.sts_val]\nsha256 = "{"a" * 64}"\n')
    catalog = load_catalog(path, base=base)
    assert (catalog.edition, catalog.version) == ("mine", base.version)
    mine = catalog.entry("sts_val")
    theirs = base.entry("sts_val")
    for inherited in ("path", "group", "title", "licence"):
        assert getattr(mine, inherited) == getattr(theirs, inherited)
    assert (mine.sha256, mine.size, mine.url) == ("a" * 64, None, None)
    assert catalog.entry("sts_test") is base.entry("sts_test")
    assert theirs.sha256 != mine.sha256


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('path = "g/a.csv"', 'path = "g/a.csv"\nsha265 = "00"', "entries.a: found the unknown key 'sha265'"),
        ('path = "g/a.csv"', 'path = "g/a.csv"\nsha256 = "00"', "entries.a, sha256: found '00', expected 64"),
        ('path = "g/a.csv"', f'path = "g/a.csv"\nsha256 = "{"A" * 64}"', "expected 64 lower-case hexadecimal digits"),
        ('path = "g/a.csv"', 'path = "g/a.csv"\nsize = -1', "entries.a, size: found -1"),
        ('path = "g/a.csv"', 'path = "g/a.csv"\nsize = true', "entries.a, size: found True"),
        ('path = "g/a.csv"', 'path = "../a.csv"', "entries.a, path: found '../a.csv'"),
        ('path = "g/a.csv"', 'path = "/a.csv"', "entries.a, path: found '/a.csv'"),
        ('path = "g/a.csv"\n', "", "entries.a: found ['group', 'title', 'url'], expected an entry 'path'"),
        ('title = "A"', 'title = " "', "entries.a, title: found ' ', expected text"),
        ('url = "https://example.org/a.csv"', 'url = "ftp://example.org"', "expected an http"),
        ('title = "A"\n', 'title = "A"\ngroup = "h"\n', "Cannot overwrite a value"),
        ('[entries.a]\ngroup = "g"', '[entries.a]\ngroup = "h"', "entries.a.group: found 'h', expected one of g"),
        ('archive = "z"', 'archive = "y"', "entries.b.archive: found 'y', expected one of z"),
        ('derived_from = ["a"]', 'derived_from = ["c"]', "entries.b.derived_from: found 'c'"),
        ('citations = ["paper"]', 'citations = ["papers"]', "groups.g.citations: found 'papers'"),
        ('paper = "@misc{paper}"', "paper = 1", "citations, paper: found 1"),
        ('edition = "official"\n', "", "expected an entry 'edition'"),
        ('version = "1.0.0"\n', "", "expected an entry 'version'"),
        ('version = "1.0.0"\n', 'version = "1.0.0"\nentry = 1\n', "found the unknown key 'entry'"),
        ('version = "1.0.0"\n', 'version = "1.0.0', "expected valid TOML"),
        ("[entries.a]", "[[entries]]", "entries: found [{"),
        ("[archives.z]", "[archives]\na = 1\n[archives.z]", "archives.a: found 1, expected an object"),
    ],
)
def test_a_malformed_catalog_names_file_key_and_fault(tmp_path, old, new, message):
    assert MINIMAL.count(old) == 1
    path = write(tmp_path, MINIMAL.replace(old, new))
    with pytest.raises(MalformedSource) as caught:
        load_catalog(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_missing_or_undecodable_catalog_is_refused(tmp_path):
    (tmp_path / "catalog.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(MalformedSource, match="UTF-8 text"):
        load_catalog(tmp_path / "catalog.toml")
    with pytest.raises(SourceMissing, match="no catalog at"):
        load_catalog(tmp_path / "absent.toml")


def test_legal_files_name_every_source_and_version():
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    catalog = load_catalog()
    for group in catalog.groups.values():
        assert group.homepage in notice, group.name
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    for key in ("2004.15020", "2204.03359", "2101.05068", "2208.10126", "2209.03723", "1903.11393"):
        assert f"arXiv:{key}" in citation
        assert any(key in text for text in catalog.citations.values())
    licence = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["license"]
    assert f"\nlicense: {licence}\n" in citation


@pytest.mark.parametrize(
    ("data", "collection", "sentence"),
    [
        ({"edition": "official"}, "COCO", "test split of COCO (official data)"),
        ({"edition": "official"}, "", "test split of official data"),
        (
            {"edition": "official", "modified": {"sts_val": ModifiedFile("a", "b")}},
            "COCO",
            "test split of COCO, modified data: not the official data",
        ),
        ({"edition": "mine"}, "Flickr30k", "test split of Flickr30k, edition 'mine': not the official data"),
        ({"edition": "sample"}, "COCO", "test split of the embedded sample (60 drawings): not results on COCO"),
        ({}, "COCO", ""),
    ],
)
def test_the_sentence_names_split_and_edition(data, collection, sentence):
    assert describe_data(DataFacts(**data), "test", collection) == sentence


def test_sample_size_is_what_the_sentence_says(sample_library):
    sizes = {split: sample_library.split(split).image_ids.size for split in sample_library.splits}
    assert sizes == DRAWINGS
    assert describe_data(DataFacts(edition="sample")) == "embedded sample (190 drawings): not results on COCO"
