"""Cards: valid front matter, statistics that a slow loop confirms, and committed files that are up to date."""

import json
import runpy
import shutil
import statistics as slow
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from datasets import Features, Value
from datasets.info import DatasetInfosDict
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCard
from markdown_it import MarkdownIt
from sample_configs import sample_configs

from cxc_eccv.builders.dataset_cards import config_card, size_category
from cxc_eccv.builders.dataset_config import BuildOptions, dataset_configs, select_configs
from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.output import conform
from cxc_eccv.builders.statistics import split_statistics, statistics_tables
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.terminal import code_block, markdown_cell, markdown_text

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "dataset_cards"
NAMES = list(dataset_configs())


@pytest.fixture(scope="module")
def committed():
    return json.loads((COMMITTED / "statistics.json").read_text(encoding="utf-8"))


@pytest.fixture
def generate(monkeypatch, capsys):
    """Runs the tool that writes the cards; gives its exit status and what it says of a fault."""
    main = runpy.run_path(str(ROOT / "tools" / "generate_dataset_cards.py"))["main"]

    def run(*arguments, folder=COMMITTED, data=""):
        monkeypatch.setenv("CXC_ECCV_DATA", str(data))
        monkeypatch.setenv("NLTK_DATA", "")
        monkeypatch.delenv("NLTK_DATA")  # the tool sets it
        monkeypatch.setattr(sys, "argv", ["generate_dataset_cards.py", "--folder", str(folder), *arguments])
        status = 0
        try:
            main()
        except SystemExit as ended:
            status = ended.code
        return status, capsys.readouterr().err

    return run


def test_captions_come_first_then_the_alphabet():
    assert NAMES[0] == "captions"
    assert NAMES[1:] == sorted(NAMES[1:])
    assert [config.name for config in select_configs(["sts", dataset_configs()["sis"], "sts"])] == ["sts", "sis"]


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_card_has_valid_front_matter(name, committed):
    card = DatasetCard.load(COMMITTED / f"{name}.md")
    infos = DatasetInfosDict.from_dataset_card_data(card.data)
    files = MetadataConfigs.from_dataset_card_data(card.data)
    assert list(infos) == list(files) == [name]
    assert infos[name].features == dataset_configs()[name].features
    rows = {split: info.num_examples for split, info in infos[name].splits.items()}
    assert rows == {split: found["rows"] for split, found in committed["configs"][name].items()}
    assert files.get_default_config_name() == name
    assert card.data.license == "other"


@pytest.mark.parametrize("name", NAMES)
def test_the_card_tells_everything_declared(name):
    config = dataset_configs()[name]
    text = (COMMITTED / f"{name}.md").read_text(encoding="utf-8")
    for part in (config.description, config.collection, config.example, *config.fields.values(), *config.defects):
        assert part in text or markdown_cell(part) in text
    catalog = load_catalog()
    for group in config.sources:
        assert catalog.group(group).licence in text
        assert all(f"{{{key}," in text for key in catalog.group(group).citations)


@pytest.mark.parametrize("name", sample_configs())
def test_statistics_agree_with_a_slow_loop(name, sample_library):
    config = dataset_configs()[name]
    for split in set(config.splits) & set(sample_library.splits):
        rows = config.rows(sample_library.split(split), BuildOptions())
        found = split_statistics(conform(rows.table, config.features, name), split, rows.left_out)
        assert found["rows"] == rows.table.num_rows
        assert found["left_out"] == rows.left_out
        by = next((column for column in ("direction", "sampling_method") if column in config.features), None)
        everything = rows.table.to_pylist()
        assert list(found["groups"]) == sorted({row[by] if by else "" for row in everything})
        for group, part in found["groups"].items():
            members = [row for row in everything if not by or row[by] == group]
            assert part["rows"] == len(members)
            for column, told in part["columns"].items():
                name, _, inner = column.partition(".")
                values = [row[name] for row in members if row[name] is not None]
                if inner:
                    values = [record[inner] for records in values for record in records]
                assert told == told_slowly(values, told)


def told_slowly(values, told):
    if "items" in told:
        sizes = [len(value) for value in values]
        return {"items": sum(sizes), "min": min(sizes), "median": slow.median(sizes), "max": max(sizes)}
    if "true" in told:
        return {"true": sum(values)}
    if "values" in told:
        return {"values": dict(sorted(Counter(map(str, values)).items()))}
    bins = dict.fromkeys(told["histogram"], 0)
    last = max(int(name.split()[0]) for name in bins)
    for value in values:
        start = min(int(value), last)
        bins[f"{start} to {start + 1}"] += 1
    mean = pytest.approx(sum(values) / len(values), abs=1e-6)
    return {"known": len(values), "mean": mean, "min": min(values), "max": max(values), "histogram": bins}


def test_statistics_of_odd_columns():
    table = pa.table({"split": ["test"] * 3, "id": [1, 2, 3], "text": ["a", "b", None], "far": [0.0, 50.0, None]})
    found = split_statistics(table, "test", {})["groups"][""]["columns"]
    assert found == {
        "text": {"values": {"a": 1, "b": 1}},
        "far": {"known": 2, "mean": 25.0, "min": 0.0, "max": 50.0},
    }
    table = pa.table({"text": ["<b>_x_ | `y`"]})
    found = {"test": split_statistics(table, "test", {})}
    html = (
        MarkdownIt("commonmark").enable("table").render(statistics_tables(Features({"text": Value("string")}), found))
    )
    assert "&lt;b&gt;_x_ | `y`" in html


def test_a_config_without_statistics_says_so():
    nothing = {"edition": "official", "data_version": "1", "fingerprint": "0", "configs": {}}
    card = config_card(dataset_configs()["sts"], nothing, load_catalog())
    assert "Not computed: the raw files were missing." in card.text
    assert DatasetInfosDict.from_dataset_card_data(card.data)["sts"].features == dataset_configs()["sts"].features


@pytest.mark.studies
def test_outdated_and_foreign_cards_are_repaired(generate, tmp_path):
    """The committed cards are up to date; an edited card is rewritten and a card of a removed config is deleted."""
    assert generate("--check") == (0, "")
    folder = tmp_path / "cards"
    shutil.copytree(COMMITTED, folder)
    (folder / "sts.md").write_text("edited by hand")
    (folder / "gone.md").write_text("a config that is no more")
    status, told = generate("--check", folder=folder)
    assert (status, "sts.md, gone.md" in told) == (1, True)
    assert generate(folder=folder) == (0, "")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in COMMITTED.iterdir()
    }


@pytest.mark.slow
def test_the_committed_statistics_are_those_of_the_data(real_library, generate):
    assert generate("--check", "--tagged", data=real_library.data_dir) == (0, "")


@pytest.mark.parametrize(("data", "message"), [("sample", "CXC_ECCV_DATA holds 'sample'"), ("", "set CXC_ECCV_DATA")])
def test_cards_need_statistics_of_the_official_edition(generate, tmp_path, data, message):
    status, told = generate(folder=tmp_path, data=data)
    assert (status, message in told) == (2, True)


def test_sizes_and_fences():
    sizes = {999: "n<1K", 1_000: "1K<n<10K", 46_424: "10K<n<100K", 10**8: "n>100M"}
    assert {n_rows: size_category(n_rows) for n_rows in sizes} == sizes
    assert code_block("a\n````\nb", "text") == "`````text\na\n````\nb\n`````"


@pytest.mark.parametrize("value", ["a|b", r"a\|b", markdown_text("a|b")])
def test_a_bar_in_a_cell_is_escaped_once(value):
    assert markdown_cell(value) == r"a\|b"


HOSTILE = r"""
edition = "mine` <script>x</script> *b* [a](http://a)"
[groups.cxc]
title = "CxC](http://evil) <img src=x>"
licence = "free | **bold** <b>\\n\\n# Heading `code`"
homepage = "https://example.org/a(b) c"
citations = ["parekh2021crisscrossed"]
[citations]
parekh2021crisscrossed = "@misc{x,\\n```\\n# Out of the fence\\n}"
"""


TERMS = r'"free | **bold** <b>\n\n# Heading `code`"'


def test_markup_in_catalog_and_files_is_escaped(tmp_path, sample_copy):
    """What a mirror's catalog and its files say is shown as text."""
    own = (sample_copy / "catalog.toml").read_text()
    entries = own[own.index("[entries.") :].replace('"Apache-2.0"', TERMS)
    (sample_copy / "catalog.toml").write_text(HOSTILE + entries)
    build_folder(tmp_path / "out", configs=["sts"], splits=["test"], data_dir=sample_copy, progress=False)
    body = (tmp_path / "out" / "README.md").read_text().split("\n---\n", 1)[1]
    html = MarkdownIt("commonmark").enable("table").render(body)
    for forbidden in (
        "<script",
        "<img",
        "<b>",
        "<em>",
        "<h1>Heading",
        "Out of the fence</h1>",
        'evil"',
        'href="http://a"',
    ):
        assert forbidden not in html
    assert 'href="https://example.org/a%28b%29%20c"' in html
    assert "free | **bold** &lt;b&gt; # Heading `code`" in html
