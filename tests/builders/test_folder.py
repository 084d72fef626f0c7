"""A built folder: complete, repeatable, honest about what it left out, never half written."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Value
from datasets.info import DatasetInfosDict
from datasets.utils.metadata import MetadataConfigs
from huggingface_hub import DatasetCard
from PIL import Image
from sample_configs import sample_configs

from cxc_eccv.builders.dataset_config import BuildOptions, DatasetConfig, Rows, dataset_configs
from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.output import conform
from cxc_eccv.errors import (
    DataError,
    InvalidOption,
    MalformedSource,
    SourceMissing,
    UnknownName,
    WriteFailed,
)
from cxc_eccv.sources.catalog import load_catalog

pytestmark = pytest.mark.thorough


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def build(output, **options):
    return build_folder(output, **{"data_dir": "sample", "progress": False} | options)


def captions_rows(split, options):
    images = split.images
    return Rows(images.select(["image_id", "file_name"]), {"images of the moon": 3})


def ratings_rows(split, options):
    if split.name == "validation":
        raise SourceMissing("secret/place/ratings.csv is not here")
    if split.name == "train":
        return Rows(pa.table({"rating": pa.array([], pa.float64())}))
    return Rows(pa.table({"rating": [0.5, options.sts, 5.0]}))


def declare(name, features, rows, splits):
    columns = {column: (feature, f"meaning of {column}") for column, feature in features.items()}
    return DatasetConfig(name, f"Tiny {name}", "What.", "How.", columns, splits, rows, ("karpathy",))


CAPTIONS = replace(
    declare(
        "captions", {"image_id": Value("int64"), "file_name": Value("string")}, captions_rows, ("validation", "test")
    ),
    photographs=True,
)
RATINGS = declare("ratings", {"rating": Value("float64")}, ratings_rows, ("train", "validation", "test"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    output = tmp_path_factory.mktemp("built") / "data"
    return output, build(output)


def test_every_declared_row_is_in_the_files(built, sample_library):
    output, summary = built
    places = {(part.config.name, part.split) for part in summary.splits}
    for name, config in sample_configs().items():
        for split in set(config.splits) & set(sample_library.splits):
            rows = config.rows(sample_library.split(split), BuildOptions()).table
            expected = conform(rows, config.features, name).to_pylist()
            files = sorted((output / name).glob(f"{split}-*.parquet"))
            assert {pq.ParquetFile(file).num_row_groups for file in files} <= {1}
            found = [row for file in files for row in pq.read_table(file).to_pylist()]
            assert found == expected, (name, split)
            assert ((name, split) in places) == bool(expected)


@pytest.mark.filterwarnings("ignore:Specifying null_placement:FutureWarning")  # datasets, with a new pyarrow
def test_card_examples_run_in_the_built_folder(built, monkeypatch):
    output, summary = built
    monkeypatch.chdir(output)
    blocks = re.findall(r"^```python\n(.*?)^```$", (output / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(summary.configs) == len(sample_configs())
    for block in blocks:
        exec(block, {})


def test_license_file_lists_the_terms_of_each_source(built):
    output, summary = built
    metadata = DatasetCard.load(output / "README.md").data
    assert (metadata.license, metadata.license_link) == ("other", "LICENSE.md")
    terms = (output / "LICENSE.md").read_text()
    for name in summary.configs:
        for group in dataset_configs()[name].sources:
            line = next(one for one in terms.splitlines() if one.startswith(f"| {load_catalog().group(group).title} |"))
            assert f"`{name}`" in line
    assert "photographs" not in terms


def test_the_card_describes_the_files(built):
    output, summary = built
    card = DatasetCard.load(output / "README.md")
    files = MetadataConfigs.from_dataset_card_data(card.data)
    infos = DatasetInfosDict.from_dataset_card_data(card.data)
    assert files.get_default_config_name() == "captions"
    assert list(infos) == list(files) == list(summary.configs)
    for name, parts in summary.configs.items():
        assert infos[name].features == dataset_configs()[name].features
        assert [item["split"] for item in files[name]["data_files"]] == [part.split for part in parts]
        for part in parts:
            written = [pq.ParquetFile(output / name / file) for file in part.shards.files]
            assert infos[name].splits[part.split].num_examples == sum(file.metadata.num_rows for file in written)
            assert infos[name].splits[part.split].num_bytes == part.shards.num_bytes > 0
        assert infos[name].download_size == sum(path.stat().st_size for path in (output / name).iterdir())
    for (*place, rule), number in summary.left_out.items():
        assert f"| {place[0]} | {place[1]} | {rule} | {number:,} |" in card.text
    assert summary.provenance.fingerprint in card.text


def test_manifest_holds_hashes_of_files_and_sources(built, sample_library):
    output, summary = built
    manifest = json.loads((output / "manifest.json").read_text())
    written = contents(output)
    del written["manifest.json"]
    assert {name: record["sha256"] for name, record in manifest["files"].items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in written.items()
    }
    assert manifest["sources"]["sts_test"] == sample_library.catalog.entry("sts_test").sha256
    assert manifest["sources"] == dict(summary.provenance.sources)
    assert manifest["edition"] == "sample"
    assert manifest["options"]["policy"] == "union"


@pytest.mark.parametrize("num_proc", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_building_twice_gives_the_same_bytes(tmp_path, sample_copy, num_proc):
    """Of modified data, which every process must name."""
    ratings = sample_copy / "cxc" / "sts_test.csv"
    ratings.write_text(ratings.read_text().removesuffix("5.0,c2c_cocaption\n") + "4.0,c2c_cocaption\n")
    options = {"configs": list(sample_configs()), "options": BuildOptions(sts=3.0, allow_modified=True)}
    options["data_dir"] = sample_copy
    summary = build(tmp_path / "one", **options)
    again = build(tmp_path / "two", num_proc=num_proc, **options)
    assert "sts_test" in json.loads((tmp_path / "one" / "manifest.json").read_text())["modified"]
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert again.not_built == summary.not_built
    assert again.provenance == summary.provenance


def test_skipped_splits_are_reported_without_local_paths(tmp_path):
    summary = build(tmp_path / "data", configs=[CAPTIONS, RATINGS])
    assert [(part.split, part.reason) for part in summary.not_built] == [
        ("train", "no row"),
        ("validation", "its raw files are missing"),
    ]
    assert summary.not_built[1].missing == "secret/place/ratings.csv is not here"
    text = (tmp_path / "data" / "README.md").read_text()
    assert "| ratings | validation | its raw files are missing |" in text
    assert "| captions | test | images of the moon | 3 |" in text
    assert "secret" not in text
    assert "not built (no row): ratings/train" in str(summary)


def test_build_options_reach_rows_card_and_splits(tmp_path):
    build(tmp_path / "data", configs=[RATINGS], splits=["test"], options=BuildOptions(sts=4.0))
    (file,) = (tmp_path / "data" / "ratings").iterdir()
    assert pq.read_table(file)["rating"].to_pylist() == [0.5, 4.0, 5.0]
    assert "STS 4.0" in (tmp_path / "data" / "README.md").read_text()
    summary = build(tmp_path / "data", configs=["captions"], options=BuildOptions(restval_in_train=True))
    assert [(part.split, part.reason) for part in summary.not_built] == [("restval", "it is folded into train")]


def test_only_what_is_asked_for_is_built(tmp_path):
    build(tmp_path / "data", configs=["sts", "sis"], splits=["val"])
    assert sorted(contents(tmp_path / "data")) == [
        "LICENSE.md",
        "README.md",
        "manifest.json",
        "sis/validation-00000-of-00001.parquet",
        "sts/validation-00000-of-00001.parquet",
    ]
    card = DatasetCard.load(tmp_path / "data" / "README.md")
    assert MetadataConfigs.from_dataset_card_data(card.data).get_default_config_name() == "sts"


PATTERNS = ("[2026] data", "[a]", "[!a]", "[[]a", "a*b", "a?b", "a::b")
NAMES = ("a[b", "]a[", "a[]b", "a{b,c}", "a b", "a:b", "~a", "é#%20")


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """A folder of one config."""
    output = tmp_path_factory.mktemp("rated") / "data"
    build(output, configs=["sis"], splits=["test"])
    return output


@pytest.mark.parametrize("name", [*PATTERNS, *NAMES])
@pytest.mark.parametrize("inside", ["", "data"])
def test_folder_that_datasets_misreads_is_refused(rated, tmp_path, name, inside):
    """Beside a folder whose name the pattern matches; ``datasets`` itself decides which names are patterns."""
    place = tmp_path / name / inside
    copies = [shutil.copytree(rated, folder) for folder in (place, tmp_path / "aXb" / inside)]
    try:
        rows = datasets.load_dataset(str(place), "sis", split="test", streaming=True)
        read = sum(1 for _ in rows) == pq.read_metadata(next(rated.glob("sis/*"))).num_rows
    except datasets.exceptions.DataFilesNotFoundError:
        read = False
    assert read == (name in NAMES)
    for folder in copies:
        shutil.rmtree(folder)
    if read:
        assert build(place, configs=["sis"], splits=["test"]).splits
        return
    with pytest.raises(InvalidOption, match="for a pattern, and would read no file or those of other folders"):
        build(place, configs=["sis"], splits=["test"])
    assert not place.exists()


WRONG = {
    "config": ({"configs": ["stss"]}, UnknownName, "did you mean 'sts'"),
    "split": ({"splits": ["tset"]}, UnknownName, "did you mean 'test'"),
    "processes": ({"num_proc": 0}, InvalidOption, "num_proc=0"),
    "images without captions": ({"configs": ["sts"], "images": "."}, InvalidOption, "configs captions and pairs"),
    "no folder of images": ({"images": "no/such/folder"}, InvalidOption, "not a folder"),
    "no row of a named config": ({"configs": ["eccv_caption"], "splits": ["train"]}, InvalidOption, "it can have test"),
    "no raw file of a named config": ({"configs": [RATINGS], "splits": ["validation"]}, SourceMissing, "secret/place"),
    "configs of another layout": (
        {"layout": "mteb", "configs": ["sts"]},
        InvalidOption,
        "the layout mteb has configs of its own; leave out the configs",
    ),
    "folded split": (
        {"splits": ["restval"], "options": BuildOptions(restval_in_train=True)},
        DataError,
        "folded into train; the splits are train, validation, test",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_refused_and_leaves_nothing(tmp_path, case):
    options, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        build(tmp_path / "data", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def photographs(tmp_path, sample_library):
    folder = tmp_path / "photographs" / "val2014"
    folder.mkdir(parents=True)
    names = sample_library.split("test").images["file_name"].to_pylist()
    for number, name in enumerate(names[1:]):
        Image.new("RGB", (16, 16), (number, 0, 255 - number)).save(folder / name, quality=95)
    return folder.parent


def test_images_are_embedded_and_missing_ones_counted(tmp_path, photographs, sample_library):
    names = sample_library.split("test").images["file_name"].to_pylist()
    summary = build(tmp_path / "data", configs=[CAPTIONS], splits=["test"], images=photographs)
    (part,) = summary.splits
    assert "Flickr terms of use" in (tmp_path / "data" / "LICENSE.md").read_text()
    assert (part.images_found, part.images_missing) == (len(names) - 1, 1)
    rows = datasets.load_dataset(str(tmp_path / "data"), split="test", cache_dir=str(tmp_path / "cache"))
    assert rows.features["image"] == datasets.Image()
    assert rows[0]["image"] is None
    assert rows[5]["image"].size == (16, 16)
    raw = rows.cast_column("image", datasets.Image(decode=False))[5]["image"]
    assert raw == {"bytes": (photographs / "val2014" / names[5]).read_bytes(), "path": names[5]}
    text = (tmp_path / "data" / "README.md").read_text()
    assert f"| captions | test | {len(names) - 1} | 1 |" in text
    assert f"{len(names) - 1} of {len(names)} images" in str(summary)
    assert str(tmp_path) not in text + (tmp_path / "data" / "manifest.json").read_text()


def test_missing_or_broken_images_keep_the_previous_build(tmp_path, photographs):
    build(tmp_path / "data", configs=["sts"])
    before = contents(tmp_path / "data")
    next(photographs.rglob("*.jpg")).write_bytes(b"\xff\xd8 half a photograph")
    with pytest.raises(MalformedSource, match=r"\.jpg: found"):
        build(tmp_path / "data", configs=[CAPTIONS], images=photographs)
    assert contents(tmp_path / "data") == before
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceMissing, match=r"none of the 120 images was found in .*empty"):
        build(tmp_path / "data", configs=[CAPTIONS], images=tmp_path / "empty")


def test_foreign_files_are_kept_unless_told(tmp_path):
    build(tmp_path / "data", configs=["sts"])
    (tmp_path / "data" / "thesis.tex").write_text("...")
    with pytest.raises(InvalidOption, match=r"no build wrote: thesis\.tex"):
        build(tmp_path / "data", configs=["sis"])
    assert (tmp_path / "data" / "sts").is_dir()
    build(tmp_path / "data", configs=["sis"], overwrite=True)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "LICENSE.md",
        "README.md",
        "manifest.json",
        "sis",
    ]


SLOW_BUILD = """
import sys, time
from cxc_eccv.builders import folder_writing
write = folder_writing.write_shards
def slow(*arguments):
    written = write(*arguments)
    print("written", flush=True)
    time.sleep(60)
    return written
folder_writing.write_shards = slow
folder_writing.build_folder(sys.argv[1], configs=["sis"], data_dir="sample", progress=False)
"""


def test_a_killed_build_leaves_the_previous_one(tmp_path):
    build(tmp_path / "data", configs=["sts"])
    before = contents(tmp_path / "data")
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_BUILD, str(tmp_path / "data")], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout.readline() == b"written\n"
            with pytest.raises(WriteFailed, match="another process is writing"):
                build(tmp_path / "data", configs=["sis"])
        finally:
            process.kill()  # what fails here would wait for its end otherwise
    assert contents(tmp_path / "data") == before
    build(tmp_path / "data", configs=["sis"])
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert "sis/test-00000-of-00001.parquet" in contents(tmp_path / "data")


UNGUARDED = """
import sys
from cxc_eccv.builders.folder_writing import build_folder
build_folder(sys.argv[1], configs=["sts"], data_dir="sample", num_proc=2, progress=False)
"""


def test_an_error_of_another_process_is_raised_here(tmp_path, sample_copy):
    with (sample_copy / "cxc" / "sts_test.csv").open("a") as file:
        file.write("no rating\n")
    options = BuildOptions(allow_modified=True)
    with pytest.raises(MalformedSource, match=r"sts_test\.csv"):
        build(tmp_path / "data", configs=["sts"], data_dir=sample_copy, num_proc=2, options=options)
    assert [path.name for path in tmp_path.iterdir()] == ["mirror"]


@pytest.mark.slow
def test_a_script_without_its_guard_is_told(tmp_path, warm_python):
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    command = [*warm_python, str(script), str(tmp_path / "data")]
    settings = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 1
    assert 'outside `if __name__ == "__main__":`' in done.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]
