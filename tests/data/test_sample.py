"""Facts about the embedded sample, read from its raw files without the package's readers."""

import csv
import doctest
import importlib
import io
import json
import runpy
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image
from pycocotools.coco import COCO

import cxc_eccv

SAMPLE = Path(cxc_eccv.__file__).parent / "sample"
TOOLS = Path(__file__).parents[2] / "tools"


def load(name):
    return json.loads((SAMPLE / name).read_text())


def load_lines(name):
    return [json.loads(line) for line in (SAMPLE / name).read_text().splitlines()]


def ratings(name):
    with (SAMPLE / "cxc" / f"{name}.csv").open(newline="") as file:
        return list(csv.reader(file))[1:]


def rated_ids(row):
    """Caption and image of a row of SITS."""
    return int(row[0].removeprefix("COCO_val2014:sentid:")), int(row[1][13:25])


@pytest.fixture(scope="module")
def images():
    return load("coco/dataset_coco.json")["images"]


@pytest.fixture(scope="module")
def images_of_test(images):
    return [image for image in images if image["split"] == "test"]


def test_whole_folder_is_under_650_kilobytes():
    sizes = [path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()]
    assert len(sizes) == 190 + 19 + 1
    assert sum(sizes) < 640_000


def test_splits_have_the_announced_sizes_and_defects(images):
    """As in the real files, some images have six captions, and some captions have stray white space."""
    assert Counter(image["split"] for image in images) == {"train": 60, "restval": 10, "val": 60, "test": 60}
    assert Counter(len(image["sentences"]) for image in images) == {5: 188, 6: 2}
    assert sorted(image["split"] for image in images if len(image["sentences"]) == 6) == ["test", "train"]
    texts = [(image["split"], sentence["raw"]) for image in images for sentence in image["sentences"]]
    assert [text for text in texts if text[1].endswith(" ") or "\n" in text[1]] == [
        ("test", "A cross and a star. "),
        ("val", "A big black cross and a tiny blue heart on\ncream."),
    ]


def test_sample_ids_follow_the_form_of_coco(images):
    """Ids are no ids of COCO, unique and with gaps, and ascend within an image."""
    sentids = [number for image in images for number in image["sentids"]]
    assert len({image["cocoid"] for image in images}) == 190
    assert min(image["cocoid"] for image in images) > 581_929
    assert len(set(sentids)) == 952
    assert max(sentids) - min(sentids) > 2 * 952
    for place, image in enumerate(images):
        folder = "train2014" if image["split"] == "train" else "val2014"
        assert (image["imgid"], image["filepath"]) == (place, folder)
        assert image["filename"] == f"COCO_{folder}_{image['cocoid']:012d}.jpg"
        assert image["sentids"] == sorted(image["sentids"])
        assert [(s["sentid"], s["imgid"]) for s in image["sentences"]] == [(n, place) for n in image["sentids"]]


def test_sample_images_are_small_jpegs(images):
    paths = sorted((SAMPLE / "coco" / "images").iterdir())
    assert [path.name for path in paths] == sorted(image["filename"] for image in images)
    for path in paths:
        assert path.stat().st_size < 1024
        with Image.open(path) as picture:
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "RGB", (64, 64))


# pycocotools 2.0.11 still implements __array__ in NumPy 1's way.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_pycocotools_loads_the_instances(images, images_of_test):
    kinds = {1: "circle", 2: "square", 4: "triangle", 5: "star", 7: "heart", 9: "cross"}
    rows = []
    for folder, n_annotations in (("train2014", 120), ("val2014", 258)):
        coco = COCO(str(SAMPLE / "coco" / f"instances_{folder}.json"))
        assert {image["cocoid"] for image in images if image["filepath"] == folder} == set(coco.imgs)
        assert {number: category["name"] for number, category in coco.cats.items()} == kinds
        assert len(coco.anns) == n_annotations
        for row in coco.dataset["annotations"]:
            mask = coco.annToMask(row)
            left, top, width, height = row["bbox"]
            assert abs(int(mask.sum()) - row["area"]) <= 0.15 * row["area"]
            assert mask[top : top + height, left : left + width].sum() == mask.sum()
            rows.append(row)
    assert len({row["id"] for row in rows}) == 378
    shown = {row["image_id"] for row in rows}
    assert [image["cocoid"] for image in images_of_test if image["cocoid"] not in shown] == [749867]


@pytest.mark.parametrize(("split", "mistaken"), [("val", 2), ("test", 3)])
def test_ratings_disagree_as_the_real_ones_do(images, split, mistaken):
    """Image pairs rated in both orders have other scores, and a few original links are rated under the threshold."""
    score = {(row[0], row[1]): row[2] for row in ratings(f"sis_{split}")}
    twice = [pair for pair in score if pair[::-1] in score]
    assert len(twice) == 24
    assert sum(score[pair] != score[pair[::-1]] for pair in twice) >= 20
    links = {(number, image["cocoid"]) for image in images for number in image["sentids"]}
    rows = [row for row in ratings(f"sits_{split}") if row[3] == "c2i_original"]
    assert all(rated_ids(row) in links for row in rows)
    assert sum(float(row[2]) < 3 for row in rows) == mistaken


def links_of(name, *, images_first):
    table = load(f"eccv/{name}_{'image_to_caption' if images_first else 'caption_to_image'}.json")
    pairs = {(int(query), item) for query, items in table.items() for item in items}
    return {(item, query) for query, item in pairs} if images_first else pairs


@pytest.mark.parametrize("images_first", [True, False])
def test_cxc_positives_are_rated_pairs(images_of_test, images_first):
    rated = {rated_ids(row) for row in ratings("sits_test") if float(row[2]) >= 3}
    assert links_of("cxc", images_first=images_first) == rated
    original = {(number, image["cocoid"]) for image in images_of_test for number in image["sentids"][:5]}
    assert links_of("original", images_first=images_first) == original


@pytest.mark.parametrize(("split", "entailed"), [("val", 19), ("test", 18)])
def test_entailment_pairs_join_images_premises_and_votes(images, split, entailed):
    rows = load_lines(f"entailment/entailment_{split}.jsonl")
    known = {image["filename"]: image for image in images if image["split"] == split}
    texts = {s["sentid"]: s["raw"] for image in known.values() for s in image["sentences"]}
    assert (len(rows), sum(row["label"] for row in rows)) == (38, entailed)
    for row in rows:
        image = known[row["image"]]
        assert row["image_id"] == image["cocoid"]
        assert row["premise"] == [sentence["raw"] for sentence in image["sentences"][:5]]
        assert row["hypothesis"] == texts[row["caption_id"]]
        assert row["caption_id"] not in image["sentids"]
        assert (len(row["votes"]), row["label"]) == (7, int(sum(row["votes"]) > 3))


def test_catalog_lists_every_raw_file():
    catalog = tomllib.loads((SAMPLE / "catalog.toml").read_text())
    assert (catalog["edition"], catalog["version"]) == ("sample", "1.0.0")
    kinds = {".json", ".jsonl", ".csv", ".npy"}
    raw = {path.relative_to(SAMPLE).as_posix() for path in SAMPLE.rglob("*") if path.suffix in kinds}
    assert {entry["path"] for entry in catalog["entries"].values()} == raw
    assert len(raw) == 19


def test_truth_contains_the_labels_of_every_kind(images, images_of_test):
    """In val all entailment labels agree with it; in test one contradicts it."""
    truth = {int(image): captions for image, captions in load("truth.json").items()}
    assert set(truth) == {image["cocoid"] for image in images}
    for split, count in (("train", 532), ("restval", 52), ("val", 613), ("test", 673)):
        chosen = [image for image in images if image["split"] == split]
        order = [number for image in chosen for number in image["sentids"][:5]]
        assert sum(len(truth[image["cocoid"]]) for image in chosen) == count
        for image in chosen:
            assert truth[image["cocoid"]] == [number for number in order if number in set(truth[image["cocoid"]])]
    sixth = {number for image in images_of_test for number in image["sentids"][5:]}
    for image, captions in load("eccv/eccv_image_to_caption.json").items():
        assert set(captions) - sixth == set(truth[int(image)])
    for caption, pictures in load("eccv/eccv_caption_to_image.json").items():
        shown = {image["cocoid"] for image in images_of_test if int(caption) in truth[image["cocoid"]]}
        assert set(pictures) == shown
    for split, wrong in (("val", 0), ("test", 1)):  # the label that contradicts a positive of ECCV Caption
        rows = load_lines(f"entailment/entailment_{split}.jsonl")
        assert sum(row["label"] != (row["caption_id"] in truth[row["image_id"]]) for row in rows) == wrong


@pytest.fixture
def make_sample(monkeypatch, capsys):
    """Runs the generator; gives its exit status and what it says of faults."""
    monkeypatch.syspath_prepend(TOOLS)
    main = runpy.run_path(str(TOOLS / "make_sample.py"))["main"]

    def run(folder, *arguments):
        try:
            status = main([*arguments, "--output", str(folder)])
        except SystemExit as ended:
            status = ended.code
        return status, capsys.readouterr().err

    return run


def test_check_lists_differences_and_keeps_foreign_folders(tmp_path, make_sample):
    folder = tmp_path / "sample"
    shutil.copytree(SAMPLE, folder)
    encoded, repainted, lost, *_ = sorted((folder / "coco" / "images").iterdir())
    buffer = io.BytesIO()
    Image.open(encoded).save(buffer, "JPEG", quality=90)
    encoded.write_bytes(buffer.getvalue())
    repainted.write_bytes((SAMPLE / "coco" / "images" / lost.name).read_bytes())
    lost.unlink()
    (folder / "notes.txt").write_text("stray")
    with (folder / "cxc" / "sts_val.csv").open("a") as file:
        file.write("\n")
    status, told = make_sample(folder, "--check")
    assert status == 1
    assert told.splitlines()[:-1] == [
        "notes.txt: superfluous",
        f"coco/images/{repainted.name}: different",
        f"coco/images/{lost.name}: missing",
        "cxc/sts_val.csv: different",
    ]
    (tmp_path / "thesis.txt").write_text("years of work")
    status, told = make_sample(tmp_path)
    assert (status, "is not empty and no sample" in told) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sample", "thesis.txt"]


@pytest.mark.parametrize("name", ["scenes", "likeness"])
def test_examples_of_the_generator_run(monkeypatch, name):
    monkeypatch.syspath_prepend(TOOLS)
    results = doctest.testmod(importlib.import_module(f"sample.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
