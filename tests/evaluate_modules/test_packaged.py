"""``load``: the declared rows, through caches that never serve anything stale."""

import pickle

import datasets
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sample_configs import sample_configs

from cxc_eccv.builders import load as cache_key
from cxc_eccv.builders.dataset_config import BuildOptions, dataset_configs
from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.load import CxcEccv, load
from cxc_eccv.errors import HashMismatch, InvalidOption, SourceMissing, UnknownName

pytestmark = pytest.mark.thorough

MODIFIED = BuildOptions(allow_modified=True)


@pytest.fixture
def get(tmp_path):
    """``load`` from the sample, with a cache of the test's own."""

    def load_sample(*arguments, **options):
        return load(*arguments, **{"data_dir": "sample", "cache_dir": tmp_path / "cache"} | options)

    return load_sample


@pytest.fixture
def forbid_building(monkeypatch):
    def forbid():
        monkeypatch.setattr(CxcEccv, "_split_generators", lambda *_: pytest.fail("built again"))

    return forbid


@pytest.mark.parametrize("name", sample_configs())
def test_the_rows_are_those_of_a_built_folder(name, get, tmp_path):
    """Read from its Parquet files with pyarrow alone: another way out of the raw files than the one under test."""
    config = dataset_configs()[name]
    loaded = get(name)
    streamed = get(name, streaming=True)
    assert isinstance(loaded, datasets.DatasetDict)
    build_folder(tmp_path / "built", configs=[name], data_dir="sample", progress=False)
    files = sorted((tmp_path / "built" / name).iterdir())
    assert sorted(loaded) == sorted(file.name.partition("-")[0] for file in files)
    for file in files:
        split = file.name.partition("-")[0]
        expected = pq.read_table(file).to_pylist()
        assert list(loaded[split]) == list(streamed[split]) == expected
        assert loaded[split].features == streamed[split].features == config.features
    for split in set(streamed) - set(loaded):
        assert list(streamed[split]) == []


def test_defaults_slices_and_sums(get, monkeypatch):
    assert get(split="test").column_names[0] == "image_id"
    test = get("sts", "test")
    validation = get("sts", "val")
    assert list(get("sts", "val+test")) == [*validation, *test]
    assert list(get("sts", "test[:3]")) == list(test.select(range(3)))
    streamed = get("sts", "val", streaming=True)
    assert list(streamed) == list(validation)
    assert list(pickle.loads(pickle.dumps(streamed))) == list(validation)  # in another process
    monkeypatch.setenv("CXC_ECCV_DATA", "sample")
    assert list(get("sts", "test", data_dir=None)) == list(test)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "stss"}, UnknownName, "did you mean 'sts'"),
        ({"name": "sts", "split": "tests"}, UnknownName, "unknown split 'tests'; did you mean 'test'"),
        ({"name": "sts", "split": "train"}, UnknownName, "Known: validation, test"),
        ({"name": "sts", "split": "test[:3]", "streaming": True}, InvalidOption, "cannot be streamed"),
        ({"name": "captions", "data_dir": "no/such/folder"}, InvalidOption, "no/such/folder"),
        ({"name": "captions", "images": "no/such/folder"}, InvalidOption, "no/such/folder is not a folder"),
    ],
)
def test_a_wrong_request_is_refused(get, arguments, error, message):
    with pytest.raises(error, match=message):
        get(**arguments)
    with pytest.raises(InvalidOption, match="features of config 'sts' are fixed"):
        CxcEccv(config_name="sts", data_dir="sample", features=datasets.Features({"rating": datasets.Value("string")}))


def test_the_second_load_comes_from_the_cache(get, forbid_building):
    first = get("sits", "test")
    forbid_building()
    second = get("sits", "test")
    assert second.cache_files == first.cache_files
    assert list(second) == list(first)


def test_no_two_configs_or_options_share_a_cache(get):
    files = [file["filename"] for name in sample_configs() for file in get(name, "test").cache_files]
    strict = get("sts", "test", options=BuildOptions(sts=5.0))
    files += [file["filename"] for file in strict.cache_files]
    assert len(set(files)) == len(files) == len(sample_configs()) + 1
    assert sum(strict["positive"]) < sum(get("sts", "test")["positive"])


def edit_first_rating(mirror, rating):
    file = mirror / "cxc" / "sts_test.csv"
    head, first, *rest = file.read_text().splitlines(keepends=True)
    left, right, _, method = first.split(",")
    file.write_text("".join([head, f"{left},{right},{rating},{method}", *rest]))


def test_edited_source_is_refused_and_never_stale(get, sample_copy):
    """Where modified data are allowed, each edit is read anew."""
    original = get("sts", "test", data_dir=sample_copy, options=MODIFIED)[0]["rating"]
    get("sts", "test", data_dir=sample_copy)
    for rating in (1.25, 4.75, original):
        edit_first_rating(sample_copy, rating)
        assert get("sts", "test", data_dir=sample_copy, options=MODIFIED)[0]["rating"] == rating
        assert get("sts", "test", data_dir=sample_copy, options=MODIFIED, streaming=True)
    assert get("sts", "test")[0]["rating"] == original
    edit_first_rating(sample_copy, 1.25)
    with pytest.raises(HashMismatch, match=r"sts_test\.csv"):
        get("sts", "test", data_dir=sample_copy)


def test_each_release_of_the_code_has_its_cache(get, monkeypatch):
    first = get("sts", "test").cache_files
    monkeypatch.setattr(cache_key, "_code_hash", lambda: "another release")
    assert get("sts", "test").cache_files != first


@pytest.mark.parametrize("name", sample_configs())
def test_cache_key_covers_every_file_read(name, sample_library):
    config = dataset_configs()[name]
    library = type(sample_library)("sample")
    for split in set(config.splits) & set(library.splits):
        config.rows(library.split(split), BuildOptions())
    read = {library.catalog.entry(file).group for file in library.files_used()}
    assert read <= set(config.sources)


def test_split_without_raw_file_is_skipped_with_warning(get, sample_copy):
    (sample_copy / "cxc" / "sts_val.csv").unlink()
    with pytest.warns(UserWarning, match=r"split 'validation' of config 'sts' is left out: sts_val"):
        loaded = get("sts", data_dir=sample_copy)
    assert list(loaded) == ["test"]
    (sample_copy / "cxc" / "sts_test.csv").unlink()
    with pytest.raises(SourceMissing, match="sts/validation: sts_val"):
        get("sts", data_dir=sample_copy)


def test_images_are_attached_to_whatever_is_loaded(get, tmp_path, sample_library):
    for name in sample_library.split("test").images["file_name"].to_pylist()[:20]:
        Image.new("RGB", (8, 6)).save(tmp_path / name)
    with pytest.raises(SourceMissing, match="rows have no image"):
        get("captions", "test", images=tmp_path)
    with pytest.warns(UserWarning, match="40 of 60 rows"):
        kept = get("captions", "test", images=tmp_path, missing_images="drop")
    assert [row["image"].size for row in kept] == [(8, 6)] * 20
    streamed = get("captions", "test", images=tmp_path, streaming=True)
    assert next(iter(streamed))["image"].size == (8, 6)
