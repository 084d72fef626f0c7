"""croissant.json: valid, read by the reference library to the rows that were built, and true of the build."""

import json
import shutil
import tomllib
from hashlib import sha256

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Features, Value
from sample_configs import sample_configs

from cxc_eccv.builders.cards import TEMPLATES
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows
from cxc_eccv.builders.croissant import CONTEXT
from cxc_eccv.builders.writing import build_folder
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.sources.download import mirror_folder

mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed: pip install 'cxc_eccv[dev]'")

# What mlcroissant calls of rdflib and of pandas.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index is deprecated"),
]

RECOMMENDED = 'Property "https://schema.org/datePublished" is recommended'
"""The one warning there may be: a build that names a time would not give the same bytes twice."""


def build(output, **options):
    return build_folder(output, **{"data_dir": "sample", "progress": False} | options)


def metadata_of(folder):
    return json.loads((folder / "croissant.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Every config, with all images but one."""
    folder = tmp_path_factory.mktemp("croissant")
    images = shutil.copytree(mirror_folder("sample") / "coco/images", folder / "images")
    next(path for path in sorted(images.rglob("*.jpg"))).unlink()
    return folder / "data", build(folder / "data", images=images)


@pytest.fixture(scope="module")
def read(built):
    return mlcroissant.Dataset(jsonld=built[0] / "croissant.json")


def plain(value):
    """A record of mlcroissant as the row it was read from: ids lose their prefix, bytes become text."""
    if isinstance(value, dict):
        return {name.rpartition("/")[2]: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | np.ndarray):
        return [plain(inner) for inner in value]
    return value.decode() if isinstance(value, bytes) else value


def test_the_reference_library_finds_nothing_wrong(read):
    issues = read.metadata.ctx.issues
    assert not issues.errors
    assert all(RECOMMENDED in warning for warning in issues.warnings)
    assert {key: CONTEXT[key] for key in CONTEXT} == mlcroissant_context(read)


def mlcroissant_context(read):
    from mlcroissant._src.core.rdf import make_context

    return make_context(read.metadata.ctx)


@pytest.mark.parametrize("name", sample_configs())
def test_its_records_are_the_rows(built, read, name):
    rows = [
        {"split": file.name.partition("-")[0], **row}
        for file in sorted((built[0] / name).iterdir())
        for row in pq.read_table(file).to_pylist()
    ]
    found = [plain(record) for record in read.records(name)]
    images = [
        (row.pop("image"), record.pop("image")) for row, record in zip(rows, found, strict=True) if "image" in row
    ]
    assert found == rows
    assert bool(images) == (name == "captions")
    assert sum(row is None for row, _ in images) == (name == "captions")
    for row, record in images:
        assert (row is None) == (record is None)
        assert record is None or record.size == (64, 64)


def test_every_file_is_named_with_its_hash_and_size(built):
    output, _ = built
    files = [item for item in metadata_of(output)["distribution"] if item["@type"] == "cr:FileObject"]
    assert sorted(item["contentUrl"] for item in files) == sorted(
        path.relative_to(output).as_posix() for path in output.rglob("*.parquet")
    )
    for item in files:
        content = (output / item["contentUrl"]).read_bytes()
        assert item["sha256"] == sha256(content).hexdigest()
        assert item["contentSize"] == f"{len(content)} B"
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["files"]["croissant.json"]["sha256"] == sha256((output / "croissant.json").read_bytes()).hexdigest()


def test_it_says_what_the_configs_say(built):
    output, summary = built
    metadata = metadata_of(output)
    for name, config in sample_configs().items():
        assert f"{name}: {config.description}" in metadata["description"]
        assert f"{name}: {config.collection}" in metadata["rai:dataCollection"]
        assert {f"{name}: {defect}" for defect in config.defects} <= set(metadata["rai:dataLimitations"])
        (records,) = (item for item in metadata["recordSet"] if item["@id"] == name)
        described = {item["name"]: item["description"] for item in records["field"]}
        # A class label's description goes on with its codes.
        assert all(described[field].startswith(told) for field, told in config.fields.items())
    for (*place, rule), number in summary.left_out.items():
        assert f"Left out of {'/'.join(place)}: {rule}: {number}" in metadata["rai:dataPreprocessingProtocol"]
    card = (output / "README.md").read_text()
    assert metadata["citeAs"] in card
    assert metadata["version"] == summary.provenance.data_version
    assert summary.provenance.fingerprint in metadata["rai:dataReleaseMaintenancePlan"]


REVIEWED = (
    *("dataCollection", "dataBiases", "dataLimitations", "personalSensitiveInformation", "dataUseCases"),
    *("dataSocialImpact", "annotationsPerItem", "annotatorDemographics", "machineAnnotationTools"),
    *("dataAnnotationProtocol", "dataAnnotationPlatform", "dataReleaseMaintenancePlan"),
)


def test_what_reviewers_ask_for_is_there(built, read):
    metadata = metadata_of(built[0])
    assert [name for name in REVIEWED if not metadata.get(f"rai:{name}")] == []
    assert "http://mlcommons.org/croissant/RAI/1.0" in metadata["conformsTo"]
    assert read.metadata.annotations_per_item == metadata["rai:annotationsPerItem"]
    assert "five ratings per pair" in read.metadata.annotations_per_item
    assert any("170 annotators" in said for said in read.metadata.annotator_demographics)


def test_only_the_sources_of_what_was_built_are_told_of(tmp_path):
    build(tmp_path / "data", configs=["sts"], splits=["test"])
    text = (tmp_path / "data" / "croissant.json").read_text()
    assert "five ratings per pair" in text
    assert "970 workers" not in text


def test_statements_are_of_known_sources_in_known_words():
    from mlcroissant._src.structure_graph.nodes.metadata import Metadata

    known = {field.name for field in Metadata.__dataclass_fields__.values()}
    statements = tomllib.loads((TEMPLATES / "responsible_ai.toml").read_text())
    assert set(statements) <= set(load_catalog().groups)
    for said in statements.values():
        for name, value in said.items():
            assert "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name) in known
            assert isinstance(value, str if name in ("annotationsPerItem", "dataSocialImpact") else list)


def test_other_data_does_not_pass_for_the_published(tmp_path, built, sample_copy):
    metadata = metadata_of(built[0])
    for text in (metadata["description"], metadata["rai:dataLimitations"][0]):
        assert text.startswith("This is the edition sample, which is not the published data")
    with (sample_copy / "cxc/sts_test.csv").open("a") as file:
        file.write("\n")
    build(
        tmp_path / "data",
        data_dir=sample_copy,
        configs=["sts"],
        splits=["test"],
        options=BuildOptions(allow_modified=True),
    )
    limits = metadata_of(tmp_path / "data")["rai:dataLimitations"]
    assert limits[1] == "Built from modified raw files (sts_test): this is not the published data."


def test_labels_flags_and_lists_have_their_types(tmp_path):
    features = Features({"kind": ClassLabel(names=["own", "other"]), "flag": Value("bool"), "at": [Value("int64")]})
    table = pa.table({"kind": [0, 1], "flag": [True, False], "at": [[1, 2], []]})
    config = DatasetConfig(
        "demo", "Demo", "What.", "How.", features, dict.fromkeys(features, "meaning"), ("test",),
        lambda library, split, options: Rows(table), ("karpathy",),
    )  # fmt: skip
    build(tmp_path / "data", configs=[config])
    (records,) = metadata_of(tmp_path / "data")["recordSet"]
    kinds = {field["name"]: (field["dataType"], field.get("repeated", False)) for field in records["field"][1:]}
    assert kinds == {"kind": ("sc:Integer", False), "flag": ("sc:Boolean", False), "at": ("sc:Integer", True)}
    assert records["field"][1]["description"] == "meaning (0: own, 1: other)"
    read = mlcroissant.Dataset(jsonld=tmp_path / "data" / "croissant.json")
    assert [plain(record) for record in read.records("demo")] == [{"split": "test", **row} for row in table.to_pylist()]
    assert datasets.load_dataset(str(tmp_path / "data"), "demo", split="test").to_list() == table.to_pylist()
