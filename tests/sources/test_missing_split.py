"""A split that the available files do not hold: every caller gets the same message."""

import json

import pytest

import cxc_eccv as ce
from cxc_eccv.builders.dataset_config import BuildOptions
from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.load import load
from cxc_eccv.errors import DataError
from cxc_eccv.sources.library import Library

MISSING = "split 'train' is not in the available files, which hold validation, test. "
OFFICIAL = (
    "  official address: https://cs.stanford.edu/people/karpathy/deepimagesent/caption_datasets.zip, member dataset_"
)


@pytest.fixture
def mirror(sample_copy):
    """The sample as a mirror of the official edition that has the val and test splits alone."""
    (sample_copy / "catalog.toml").unlink()
    whole = sample_copy / "coco" / "dataset_coco.json"
    images = json.loads(whole.read_text())["images"]
    whole.unlink()
    for split in ("val", "test"):
        own = [image for image in images if image["split"] == split]
        (sample_copy / "coco" / f"karpathy_{split}.json").write_text(json.dumps({"images": own}))
    return sample_copy


def message(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


def test_library_build_and_load_say_the_same(mirror, tmp_path):
    options = BuildOptions(allow_modified=True)
    said = {
        message(lambda: Library(mirror, allow_modified=True).split("train").captions),
        message(lambda: build_folder(tmp_path / "out", splits=["train"], data_dir=mirror, options=options)),
        message(lambda: load("captions", "train", data_dir=mirror, options=options, cache_dir=tmp_path / "cache")),
        message(lambda: load("pairs", "test+train", data_dir=mirror, options=options, cache_dir=tmp_path / "cache")),
    }
    assert len(said) == 1
    lines = said.pop().splitlines()
    assert lines == [
        f"{MISSING}coco/dataset_coco.json, which holds every split, is missing.",
        f"{OFFICIAL}coco.json",
        "  sha256: not published",
        f"  put it at: {mirror / 'coco' / 'dataset_coco.json'} (or the same with .gz)",
        "Name the mirror folder with --data-dir or CXC_ECCV_DATA.",
    ]


def test_evaluation_reports_a_missing_split(mirror, make_run):
    (mirror / "coco" / "karpathy_val.json").unlink()
    run = make_run(Library(mirror, allow_modified=True))
    said = message(lambda: ce.evaluate(run, split="validation", data_dir=Library(mirror, allow_modified=True)))
    assert said.startswith("split 'validation' is not in the available files, which hold test. coco/dataset_coco.json")


def test_build_names_the_missing_file_or_split(mirror, tmp_path):
    options = BuildOptions(allow_modified=True)
    summary = build_folder(tmp_path / "out", configs=["pairs"], data_dir=mirror, options=options, progress=False)
    told = "not built (it is in coco/dataset_coco.json, which is missing): pairs/train, pairs/restval"
    assert told in str(summary)
    (mirror / "coco" / "karpathy_val.json").rename(mirror / "coco" / "dataset_coco.json")
    said = message(lambda: Library(mirror, allow_modified=True).split("test").captions)
    assert "which hold validation. " in said
    assert f"{mirror / 'coco' / 'dataset_coco.json'} is not complete." in said


def test_flickr30k(mirror):
    images = json.loads((mirror / "coco" / "karpathy_test.json").read_text())["images"]
    (mirror / "flickr").mkdir()
    (mirror / "flickr" / "karpathy_f30k_test.json").write_text(json.dumps({"images": images}))
    library = Library(mirror, allow_modified=True)
    said = message(lambda: library.split("train", "flickr30k"))
    assert said.startswith("split 'train' is not in the available files, which hold test. ")
    assert f"{OFFICIAL}flickr30k.json" in said
