"""Images by file name: found, embedded, attached; missing and broken ones are told."""

import os
import warnings
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.image_columns import ImageFolder, attach_images, embed_images
from cxc_eccv.builders.output import portable_schema, write_shards
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.sources.download import sample_images

RED = [True, False, False]
BLUE = [False, False, True]
PLACES = {"file_name": ["red.png", "gone.png", "blue.jpg", "lost.png"]}


def draw(path, colour):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (32, 24), colour).save(path)


@pytest.fixture
def folder(tmp_path):
    draw(tmp_path / "images" / "red.png", "red")
    draw(tmp_path / "images" / "val2014" / "blue.jpg", "blue")
    return tmp_path / "images"


def colour(image):
    return (np.asarray(image.convert("RGB"))[0, 0] > 127).tolist()


def test_image_files_are_found_in_subfolders_and_links(folder, tmp_path):
    draw(tmp_path / "elsewhere" / "green.png", "green")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "loop").symlink_to(folder)
    files = ImageFolder(folder)
    assert files.find("red.png") == folder / "red.png"
    assert files.find("blue.jpg") == folder / "val2014" / "blue.jpg"
    assert files.find("green.png") == folder / "linked" / "green.png"
    assert files.find("RED.png") is None


def test_coco_images_are_found_under_either_releases_name(tmp_path, sample_library):
    """COCO 2014 names its files `COCO_val2014_<id>.jpg`, COCO 2017 `<id>.jpg`; the exact name goes first."""
    draw(tmp_path / "val2017" / "000000391895.jpg", "red")
    draw(tmp_path / "train2014" / "COCO_train2014_000000000009.jpg", "blue")
    files = ImageFolder(tmp_path)
    assert files.find("COCO_val2014_000000391895.jpg") == tmp_path / "val2017" / "000000391895.jpg"
    assert files.read("COCO_val2014_000000391895.jpg")["path"] == "COCO_val2014_000000391895.jpg"
    assert files.find("000000000009.jpg") == tmp_path / "train2014" / "COCO_train2014_000000000009.jpg"
    assert files.find("COCO_val2014_000000000009.jpg") is None, "an image has one split in each release"
    assert files.find("00000000009.jpg") is None, "Flickr's photo numbers are no ids of COCO"
    draw(tmp_path / "val2014" / "COCO_val2014_000000391895.jpg", "black")
    assert ImageFolder(tmp_path).find("000000391895.jpg").parent.name == "val2017", "its own name goes first"


@pytest.mark.parametrize("ending", [".JPG", ".jpeg", ".JPEG", ".Jpg"])
def test_endings_of_one_format_are_equal(tmp_path, ending):
    for name in ("COCO_val2014_000000391895", "000000000009", "1000092795"):
        draw(tmp_path / "photographs" / f"{name}{ending}", "red")
    files = ImageFolder(tmp_path)
    for name in ("COCO_val2014_000000391895.jpg", "COCO_val2014_000000000009.jpg", "1000092795.jpg"):
        assert files.find(name).suffix == ending
        assert files.read(name)["path"] == name


def test_exact_name_precedes_another_ending(folder):
    draw(folder / "blue.JPG", "white")
    draw(folder / "blue.jpeg", "white")
    assert ImageFolder(folder).find("blue.jpg") == folder / "val2014" / "blue.jpg"


def test_name_at_the_top_precedes_those_below(folder):
    draw(folder / "thumbnails" / "blue.jpg", "white")
    draw(folder / "blue.jpg", "black")
    assert ImageFolder(folder).find("blue.jpg") == folder / "blue.jpg"


PHOTOGRAPH = "COCO_val2014_000000391895.jpg"

UNCLEAR = {
    "two-endings": (
        ["blue.JPG", "blue.jpeg"],
        "blue.jpg",
        DataError,
        r"blue\.jpg may be .*blue\.JPG or .*blue\.jpeg\. Keep one",
    ),
    "two-folders": (
        ["thumbnails/blue.jpg", "val2014/blue.jpg"],
        "blue.jpg",
        DataError,
        r"blue\.jpg is in .*thumbnails and in .*val2014",
    ),
    "mask": (
        ["000000391895.png"],
        PHOTOGRAPH,
        SourceMissing,
        r"0 of the 1 .*391895\.png may be a mask of it; if",
    ),
}


@pytest.mark.parametrize("fault", UNCLEAR)
def test_file_that_may_be_another_is_refused(tmp_path, fault):
    paths, name, error, message = UNCLEAR[fault]
    for path in paths:
        draw(tmp_path / path, "white")
    with pytest.raises(error, match=message):
        ImageFolder(tmp_path).find_all([name])


def test_embedded_bytes_are_those_of_the_files(folder):
    features = datasets.Features({"file_name": datasets.Value("string"), "image": datasets.Image()})
    names = ["red.png", "absent.png", "blue.jpg"] * 50
    groups = list(embed_images(pa.table({"file_name": names}), ImageFolder(folder), portable_schema(features)))
    assert [group.num_rows for group in groups] == [100, 50]
    embedded = pa.concat_tables(groups)["image"].to_pylist()
    content = (folder / "val2014" / "blue.jpg").read_bytes()
    assert embedded[2] == embedded[149] == {"bytes": content, "path": "blue.jpg"}
    assert embedded[1] is None


@pytest.mark.parametrize("keep", [0, 100, -40])
def test_a_broken_file_is_named(folder, keep):
    path = folder / "val2014" / "blue.jpg"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(MalformedSource, match=r"blue\.jpg: found .*, expected a complete image"):
        ImageFolder(folder).read("blue.jpg")


def test_user_folder_named_sample_precedes_packaged_images(folder, tmp_path, monkeypatch):
    """Without such a folder, `sample` means the images of the embedded sample."""
    monkeypatch.chdir(tmp_path)
    assert ImageFolder("sample").folder == sample_images()
    folder.rename(tmp_path / "sample")
    assert ImageFolder(Path("sample")).find("red.png") == Path("sample/red.png")
    with pytest.raises(InvalidOption, match="absent is not a folder"):
        ImageFolder(tmp_path / "absent")


def test_attached_images_belong_to_their_rows(folder):
    dataset = datasets.Dataset.from_dict({"file_name": ["blue.jpg", "red.png"], "id": [1, 2]})
    attached = attach_images(dataset, folder)
    assert attached.features["image"] == datasets.Image()
    assert [colour(row["image"]) for row in attached] == [BLUE, RED]
    assert attached["id"][:] == [1, 2]
    part = datasets.Dataset.from_dict({"file_name": ["red.png"]})
    attached = attach_images(datasets.DatasetDict(validation=part, test=part), folder)
    assert isinstance(attached, datasets.DatasetDict)
    assert colour(attached["test"][0]["image"]) == RED


def test_pairs_hold_their_photographs(tmp_path):
    splits = {"configs": ["pairs"], "splits": ["test"], "data_dir": "sample", "progress": False}
    summary = build_folder(tmp_path / "with", images="sample", **splits)
    build_folder(tmp_path / "without", **splits)
    assert "pairs/test: 300 rows, 60 of 60 images" in str(summary)
    files = {path.name: path.read_bytes() for path in sample_images().iterdir()}
    embedded = datasets.load_dataset(str(tmp_path / "with"), "pairs", split="test")
    undecoded = embedded.cast_column("image", datasets.Image(decode=False))
    assert all(row["image"]["bytes"] == files[row["file_name"]] for row in undecoded)
    attached = attach_images(datasets.load_dataset(str(tmp_path / "without"), "pairs", split="test"), sample_images())
    assert embedded.column_names == attached.column_names
    np.testing.assert_array_equal(np.asarray(attached[42]["image"]), np.asarray(embedded[42]["image"]))


def test_file_stores_a_repeated_photograph_once(tmp_path):
    generator = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    names = [f"{number}.png" for number in range(20)]
    for name in names:
        noise = generator.integers(0, 256, (220, 240, 3), dtype=np.uint8)
        Image.fromarray(noise).save(tmp_path / "images" / name)
    features = datasets.Features({"file_name": datasets.Value("string"), "image": datasets.Image()})
    size = sum(map(os.path.getsize, (tmp_path / "images").iterdir()))
    table = pa.table({"file_name": np.repeat(names, 5)})
    groups = embed_images(table, ImageFolder(tmp_path / "images"), portable_schema(features))
    shards = write_shards(groups, tmp_path, "train")
    assert shards.num_bytes > 5 * size > 12e6
    assert sum(shards.sizes) < 1.02 * size


def test_every_column_of_file_names_gets_an_image(folder):
    columns = {"file_name1": ["red.png"], "file_name2": ["blue.jpg"], "query_file_name": [None]}
    features = datasets.Features(dict.fromkeys(columns, datasets.Value("string")))
    dataset = datasets.Dataset.from_dict(columns, features=features)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row = attach_images(dataset, folder, column="photo")[0]
    assert (colour(row["photo1"]), colour(row["photo2"]), row["query_photo"]) == (RED, BLUE, None)


@pytest.fixture
def gappy():
    return datasets.Dataset.from_dict(PLACES)


@pytest.mark.parametrize(("missing", "expected"), [("null", [True, False, True, False]), ("drop", [True, True])])
def test_missing_images_become_null_or_rows_are_dropped(folder, gappy, missing, expected):
    """A warning counts the missing images, or names each where the dataset is streamed."""
    with pytest.warns(UserWarning, match="2 of 4 rows"):
        attached = attach_images(gappy, folder, missing=missing)
    assert [row["image"] is not None for row in attached] == expected
    attached = attach_images(gappy.to_iterable_dataset(), folder, missing=missing)
    assert attached.features["image"] == datasets.Image()
    with pytest.warns(UserWarning, match="no image") as told:
        assert [row["image"] is not None for row in attached] == expected
    assert [str(one.message).split()[2] for one in told] == ["gone.png", "lost.png"]


def test_a_streamed_dataset_raises_at_the_missing_row(folder, gappy):
    stream = iter(attach_images(gappy.to_iterable_dataset(), folder))
    assert colour(next(stream)["image"]) == RED
    with pytest.raises(SourceMissing, match=r"no image gone\.png"):
        next(stream)


UNATTACHABLE = {
    "unknown-choice": (
        PLACES,
        {"missing": "ignore"},
        InvalidOption,
        "missing='ignore': choose one of error, null, drop",
    ),
    "no-file-names": ({"id": [1]}, {}, InvalidOption, "no column of file names, only id"),
    "column-is-there": (PLACES | {"image": ["?"] * 4}, {}, InvalidOption, "already has a column 'image'"),
    "images-missing": (
        PLACES,
        {},
        SourceMissing,
        r"2 of 4 rows have no image below .*images, first gone\.png\. Add the files, or choose missing='null'",
    ),
}


@pytest.mark.parametrize("fault", UNATTACHABLE)
def test_what_cannot_be_attached_is_refused(folder, fault):
    columns, options, error, message = UNATTACHABLE[fault]
    with pytest.raises(error, match=message):
        attach_images(datasets.Dataset.from_dict(columns), folder, **options)
