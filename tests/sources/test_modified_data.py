"""Data that is not the catalog's: whoever allows it finds it named wherever a number or a row of it goes."""

import json
from dataclasses import replace

import pytest
import yaml

import cxc_eccv as ce
from cxc_eccv.builders.dataset_config import BuildOptions
from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.load import load
from cxc_eccv.comparison.pairing import ScoredReport, notes_on
from cxc_eccv.hashing import hash_content
from cxc_eccv.hub.card import merge_card
from cxc_eccv.hub.upload import DATASET_KEYS
from cxc_eccv.report.saving import write_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.sts import StsReport
from cxc_eccv.types.provenance import ModifiedFile


@pytest.fixture
def mirror(sample_copy):
    """The sample with another rating in its first row."""
    file = sample_copy / "cxc" / "sits_test.csv"
    head, first, *rest = file.read_text().splitlines(keepends=True)
    left, right, rating, method = first.split(",")
    file.write_text("".join([head, f"{left},{right},{5 - float(rating):g},{method}", *rest]))
    return sample_copy


@pytest.fixture
def hashes(mirror):
    """What every place must name."""
    expected = Library("sample").catalog.entry("sits_test").sha256
    return {"expected": expected, "found": hash_content(mirror / "cxc" / "sits_test.csv")}


@pytest.fixture
def reports(mirror, make_run):
    """A report of the modified data, and one of the data as it is."""
    libraries = Library(mirror, allow_modified=True), Library("sample", allow_modified=True)
    run = make_run(libraries[1])
    return [ce.evaluate(run, "cxc/i2t", data_dir=library, confidence=None) for library in libraries]


def test_a_report_and_its_pages_name_the_files(reports, hashes, tmp_path):
    modified, plain = reports
    assert modified.provenance.data.modified == {"sits_test": ModifiedFile(**hashes)}
    assert plain.provenance.data.modified == {}
    for folder, report in (("modified", modified), ("plain", plain)):
        write_folder(tmp_path / folder, report)
        record = json.loads((tmp_path / folder / "report.json").read_text())
        assert record["provenance"]["data"].get("modified") == ({"sits_test": hashes} if report is modified else None)
        for page in ("report.md", "report.html"):
            text = (tmp_path / folder / page).read_text()
            assert ("Modified data" in text) == (report is modified)
            assert text.count(hashes["expected"]) == 1  # that of the file itself is the other report's
            assert text.count(hashes["found"]) == (2 if report is modified else 0)


def test_console_comparison_and_sentence_similarity_name_them(reports, hashes, capsys):
    for report in reports:
        report.show()
        words = " ".join(capsys.readouterr().out.split())
        told = f"modified data: sits_test has sha256 {hashes['found']}, expected {hashes['expected']}" in words
        assert told == (report is reports[0])
    modified, plain = (ScoredReport(name, report, {}) for name, report in zip("ab", reports, strict=True))
    told = f"modified data: sits_test, sha256 {hashes['found']}, expected {hashes['expected']}"
    assert told in notes_on(modified, modified)
    assert told in notes_on(plain, modified)
    assert notes_on(plain, plain) == []
    text = StsReport({}, reports[0].provenance).to_markdown()
    assert f"Modified data: sits\\_test has sha256 {hashes['found']}, expected {hashes['expected']}." in text
    assert "odified" not in StsReport({}, reports[1].provenance).to_markdown()


def test_comparison_names_modified_files_of_each_report(reports):
    def scored(name):
        data = replace(reports[0].provenance.data, modified={name: ModifiedFile("2", "1")})
        return ScoredReport("model", replace(reports[0], provenance=replace(reports[0].provenance, data=data)), {})

    told = [f"modified data: {name}, sha256 1, expected 2" for name in ("sis_test", "sts_test")]
    assert notes_on(scored("sis_test"), scored("sts_test")) == told


def test_build_names_files_of_other_hashes(mirror, hashes, tmp_path):
    """The names stand in the manifest, the card and the summary."""
    options = {"configs": ["sits"], "options": BuildOptions(allow_modified=True)}
    summary = build_folder(tmp_path / "out", data_dir=mirror, progress=False, **options)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["modified"] == {"sits_test": hashes}
    card = (tmp_path / "out" / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["modified_data"] == [{"file": "sits_test", **hashes}]
    assert f"| `sits_test` | `{hashes['expected']}` | `{hashes['found']}` |" in card
    assert f"modified data: sits_test has sha256 {hashes['found']}, expected {hashes['expected']}" in str(summary)
    options = BuildOptions(allow_modified=True)
    summary = build_folder(tmp_path / "plain", configs=["sits"], data_dir="sample", options=options, progress=False)
    assert "modified" not in json.loads((tmp_path / "plain" / "manifest.json").read_text())
    assert "modified" not in (tmp_path / "plain" / "README.md").read_text().lower().replace("`--allow-modified`", "")
    assert "modified" not in str(summary)


@pytest.mark.parametrize("streaming", [False, True])
def test_a_loaded_dataset_names_them(mirror, hashes, tmp_path, streaming):
    options = {"options": BuildOptions(allow_modified=True), "cache_dir": tmp_path / "cache", "streaming": streaming}
    told = f"Modified data: sits_test, sha256 {hashes['found']}, expected {hashes['expected']}."
    for _ in range(2):  # the second time from the cache
        assert told in load("sits", "test", data_dir=mirror, **options).info.description
        assert "odified" not in load("sits", "test", data_dir="sample", **options).info.description


def test_push_of_unmodified_data_clears_the_card_entry():
    modified = "---\nlicense: other\nmodified_data:\n- file: sits_test\n  expected: ab\n  found: cd\nmine: 1\n---\n"
    merged = merge_card("---\nlicense: other\n---\nours\n", modified, DATASET_KEYS)
    assert yaml.safe_load(merged.split("---")[1]) == {"license": "other", "mine": 1}
