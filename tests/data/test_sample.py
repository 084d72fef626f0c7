"""Facts about the embedded sample, read from its raw files without the package's readers."""

import csv
import doctest
import hashlib
import importlib
import io
import json
import shutil
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO

import cxc_eccv

SAMPLE = Path(cxc_eccv.__file__).parent / "sample"
TOOLS = Path(__file__).parents[2] / "tools"
THRESHOLDS = {"sts": 3.0, "sis": 2.5, "sits": 3.0}


def load(name):
    return json.loads((SAMPLE / name).read_text())


def ratings(name):
    with (SAMPLE / "cxc" / f"{name}.csv").open(newline="") as file:
        return list(csv.reader(file))


def caption_id(text):
    prefix, number = text.rsplit(":", 1)
    assert prefix == "COCO_val2014:sentid"
    return int(number)


def image_id(text):
    assert text.startswith("COCO_val2014_")
    assert len(text) == len("COCO_val2014_000000032001.jpg")
    return int(text[13:25])


@pytest.fixture(scope="module")
def images():
    return load("coco/dataset_coco.json")["images"]


@pytest.fixture(scope="module")
def images_of_test(images):
    return [image for image in images if image["split"] == "test"]


def test_whole_folder_is_under_650_kilobytes():
    sizes = [path.stat().st_size for path in SAMPLE.rglob("*") if path.is_file()]
    assert len(sizes) == 190 + 19 + 4 + 7 + 2 + 1
    assert sum(sizes) < 640_000


def test_splits_hold_as_many_images_and_captions_as_announced(images):
    assert Counter(image["split"] for image in images) == {"train": 60, "restval": 10, "val": 60, "test": 60}
    assert Counter(len(image["sentences"]) for image in images) == {5: 188, 6: 2}
    assert sorted(image["split"] for image in images if len(image["sentences"]) == 6) == ["test", "train"]


def test_images_come_in_mixed_splits_with_the_real_names(images):
    first, last = images[0], images[-1]
    assert (first["filename"], first["split"]) == ("COCO_val2014_000000764118.jpg", "test")
    assert first["sentids"] == [1003, 3024, 4197, 6898, 9922]
    assert first["sentences"][0]["raw"] == "a tiny green heart and a large blue circle on lilac"
    assert (last["filename"], last["split"]) == ("COCO_train2014_000000991002.jpg", "train")
    assert last["sentences"][-1]["raw"] == "a big red square and a large pink square on cream"
    assert [image["imgid"] for image in images] == list(range(190))
    for image in images:
        folder = "train2014" if image["split"] == "train" else "val2014"
        assert image["filepath"] == folder
        assert image["filename"] == f"COCO_{folder}_{image['cocoid']:012d}.jpg"


def test_ids_are_unique_ascend_within_an_image_and_have_gaps(images):
    cocoids = [image["cocoid"] for image in images]
    sentids = [number for image in images for number in image["sentids"]]
    assert len(set(cocoids)) == 190
    assert len(set(sentids)) == len(sentids) == 952
    assert max(sentids) - min(sentids) > 2 * len(sentids)
    assert min(cocoids) > 581_929, "an id of COCO"
    for image in images:
        assert image["sentids"] == sorted(image["sentids"])
        assert [sentence["sentid"] for sentence in image["sentences"]] == image["sentids"]
        assert {sentence["imgid"] for sentence in image["sentences"]} == {image["imgid"]}


def test_records_have_the_keys_of_the_real_file(images):
    image_keys = ["filepath", "filename", "cocoid", "imgid", "split", "sentids", "sentences"]
    assert {tuple(image) for image in images} == {tuple(image_keys)}
    sentences = [sentence for image in images for sentence in image["sentences"]]
    assert {tuple(sentence) for sentence in sentences} == {("raw", "tokens", "imgid", "sentid")}
    example = next(sentence for sentence in sentences if sentence["raw"] == "One red and one pink shape.")
    assert example["tokens"] == ["one", "red", "and", "one", "pink", "shape"]


def test_captions_carry_the_defects_of_the_real_ones(images):
    texts = [(image["split"], sentence["raw"]) for image in images for sentence in image["sentences"]]
    assert [text for text in texts if text[1].endswith(" ")] == [("test", "A cross and a star. ")]
    assert [text for text in texts if "\n" in text[1]] == [
        ("val", "A big black cross and a tiny blue heart on\ncream.")
    ]


@pytest.mark.parametrize(("split", "n_captions", "n_groups"), [("val", 53, 24), ("test", 66, 30)])
def test_some_captions_are_identical_to_one_of_another_image(images, split, n_captions, n_groups):
    owners = defaultdict(set)
    for image in images:
        if image["split"] == split:
            for sentence in image["sentences"]:
                owners[sentence["raw"]].add(image["cocoid"])
    shared = [len(ids) for ids in owners.values() if len(ids) > 1]
    assert (sum(shared), len(shared)) == (n_captions, n_groups)


def test_every_image_of_every_split_is_a_small_jpeg(images):
    paths = sorted((SAMPLE / "coco" / "images").iterdir())
    assert [path.name for path in paths] == sorted(image["filename"] for image in images)
    for path in paths:
        assert path.stat().st_size < 1024
        with Image.open(path) as picture:
            assert (picture.format, picture.mode, picture.size) == ("JPEG", "RGB", (64, 64))


# pycocotools 2.0.11 still implements __array__ in NumPy 1's way.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize(
    ("folder", "n_images", "n_annotations", "first", "last"),
    [
        ("train2014", 60, 120, (101, 610519, [2, 26, 28, 23]), (458, 999602, [10, 33, 16, 15])),
        ("val2014", 130, 258, (1203, 600058, [12, 20, 14, 14]), (1974, 991109, [10, 28, 16, 16])),
    ],
)
def test_pycocotools_loads_the_instances(images, folder, n_images, n_annotations, first, last):
    coco = COCO(str(SAMPLE / "coco" / f"instances_{folder}.json"))
    rows = coco.dataset["annotations"]
    assert set(coco.dataset) == {"info", "images", "licenses", "annotations", "categories"}
    assert (len(coco.imgs), len(coco.anns)) == (n_images, n_annotations)
    assert {image["cocoid"] for image in images if image["filepath"] == folder} == set(coco.imgs)
    for row, fact in ((rows[0], first), (rows[-1], last)):
        assert (row["id"], row["image_id"], row["bbox"]) == fact
    kinds = {1: "circle", 2: "square", 4: "triangle", 5: "star", 7: "heart", 9: "cross"}
    assert {number: category["name"] for number, category in coco.cats.items()} == kinds
    for row in rows:
        mask = coco.annToMask(row)
        left, top, width, height = row["bbox"]
        assert mask.shape == (64, 64)
        assert abs(int(mask.sum()) - row["area"]) <= 0.15 * row["area"]
        assert mask[top : top + height, left : left + width].sum() == mask.sum()


def test_annotation_ids_are_unique_over_both_files_and_one_test_image_has_none(images_of_test):
    rows = [row for folder in ("train2014", "val2014") for row in load(f"coco/instances_{folder}.json")["annotations"]]
    assert len({row["id"] for row in rows}) == len(rows) == 378
    shown = {row["image_id"] for row in rows}
    assert [image["cocoid"] for image in images_of_test if image["cocoid"] not in shown] == [749867]


@pytest.mark.parametrize(
    ("name", "counts", "positives"),
    [
        ("sts_val", {"c2c_isim": 48, "c2c_cocaption": 60}, 41),
        ("sts_test", {"c2c_isim": 48, "c2c_cocaption": 60}, 48),
        ("sis_val", {"i2i_csim": 86}, 31),
        ("sis_test", {"i2i_csim": 86}, 35),
        ("sits_val", {"c2i_intrasim": 80, "c2i_original": 62}, 97),
        ("sits_test", {"c2i_intrasim": 80, "c2i_original": 63}, 96),
    ],
)
def test_ratings_hold_known_distinct_pairs_of_their_split(images, name, counts, positives):
    kind, split = name.split("_")
    header, *rows = ratings(name)
    columns = {"sts": ["caption1", "caption2"], "sis": ["image1", "image2"], "sits": ["caption", "image"]}
    assert header == [*columns[kind], "agg_score", "sampling_method"]
    assert Counter(row[3] for row in rows) == counts
    assert len({(row[0], row[1]) for row in rows}) == len(rows)
    assert all(row[0] != row[1] for row in rows)
    scores = [float(row[2]) for row in rows]
    assert [str(round(score, 2)) for score in scores] == [row[2] for row in rows]
    assert min(scores) >= 0
    assert max(scores) <= 5
    assert sum(score >= THRESHOLDS[kind] for score in scores) == positives
    chosen = [image for image in images if image["split"] == split]
    captions = {number for image in chosen for number in image["sentids"][:5]}
    pictures = {image["cocoid"] for image in chosen}
    for row in rows:
        assert caption_id(row[0]) in captions if kind != "sis" else image_id(row[0]) in pictures
        assert caption_id(row[1]) in captions if kind == "sts" else image_id(row[1]) in pictures


def test_first_and_last_ratings():
    sits, sis = ratings("sits_test"), ratings("sis_val")
    assert sits[1] == ["COCO_val2014:sentid:8789", "COCO_val2014_000000707894.jpg", "5.0", "c2i_intrasim"]
    assert sits[-1] == ["COCO_val2014:sentid:9957", "COCO_val2014_000000842556.jpg", "4.81", "c2i_original"]
    assert sis[1] == ["COCO_val2014_000000616108.jpg", "COCO_val2014_000000776674.jpg", "1.88", "i2i_csim"]
    assert sis[-1] == ["COCO_val2014_000000725904.jpg", "COCO_val2014_000000909015.jpg", "1.86", "i2i_csim"]


@pytest.mark.parametrize("split", ["val", "test"])
def test_some_image_pairs_are_rated_in_both_orders_with_other_scores(split):
    score = {(row[0], row[1]): row[2] for row in ratings(f"sis_{split}")[1:]}
    twice = [pair for pair in score if pair[::-1] in score]
    assert len(twice) == 24
    assert sum(score[pair] != score[pair[::-1]] for pair in twice) >= 20


@pytest.mark.parametrize(("split", "count"), [("val", 2), ("test", 3)])
def test_a_few_original_links_are_rated_under_the_threshold(images, split, count):
    links = {(number, image["cocoid"]) for image in images for number in image["sentids"]}
    rows = [row for row in ratings(f"sits_{split}")[1:] if row[3] == "c2i_original"]
    assert all((caption_id(row[0]), image_id(row[1])) in links for row in rows)
    assert sum(float(row[2]) < 3 for row in rows) == count


def links_of(name, *, images_first):
    table = load(f"eccv/{name}_{'image_to_caption' if images_first else 'caption_to_image'}.json")
    pairs = [(int(query), item) for query, items in table.items() for item in items]
    assert len(set(pairs)) == len(pairs)
    return {(item, query) for query, item in pairs} if images_first else set(pairs)


@pytest.mark.parametrize("images_first", [True, False])
def test_cxc_positives_are_the_rated_ones_and_original_ones_the_links(images_of_test, images_first):
    rated = {(caption_id(row[0]), image_id(row[1])) for row in ratings("sits_test")[1:] if float(row[2]) >= 3}
    assert links_of("cxc", images_first=images_first) == rated
    original = {(number, image["cocoid"]) for image in images_of_test for number in image["sentids"][:5]}
    assert links_of("original", images_first=images_first) == original


def test_eccv_positives_cover_some_queries_and_one_is_in_no_gallery(images_of_test):
    by_image, by_caption = load("eccv/eccv_image_to_caption.json"), load("eccv/eccv_caption_to_image.json")
    assert (len(by_image), len(by_caption)) == (20, 24)
    assert min(map(len, by_image.values())) >= 6
    counted = {number for image in images_of_test for number in image["sentids"][:5]}
    outside = {number for numbers in by_image.values() for number in numbers} - counted
    assert outside == {number for image in images_of_test for number in image["sentids"][5:]}
    assert len(outside) == 1
    assert {int(caption) for caption in by_caption} <= counted
    assert links_of("eccv", images_first=True) != links_of("eccv", images_first=False)


def test_eccv_knows_more_positives_of_its_queries_than_coco(images_of_test):
    coco = links_of("original", images_first=True)
    by_image, by_caption = links_of("eccv", images_first=True), links_of("eccv", images_first=False)
    n_images, n_captions = len({image for _, image in by_image}), len({caption for caption, _ in by_caption})
    assert len(by_image) >= 1.5 * 5 * n_images, "COCO has five captions of an image"
    assert len(by_caption) >= 1.5 * n_captions, "COCO has one image of a caption"
    assert (len(by_image), len(by_caption)) == (227, 95)
    assert (len(by_image & coco), len(by_caption & coco)) == (98, 24), "two captions of these images are mistaken"


@pytest.mark.parametrize("split", ["val", "test"])
@pytest.mark.parametrize("kind", ["sts", "sis", "sits"])
def test_ratings_of_every_level_are_among_them(kind, split):
    assert {min(int(float(row[2])), 4) for row in ratings(f"{kind}_{split}")[1:]} == {0, 1, 2, 3, 4}


def test_caption_order_is_that_of_the_test_split(images_of_test):
    ids = np.load(SAMPLE / "eccv" / "coco_test_ids.npy", allow_pickle=False)
    assert ids.dtype == np.dtype("int64")
    assert ids.tolist() == [number for image in images_of_test for number in image["sentids"][:5]]


@pytest.mark.parametrize("split", ["val", "test"])
def test_entailment_pairs_join_images_premises_and_votes(images, split):
    rows = [json.loads(line) for line in (SAMPLE / "entailment" / f"entailment_{split}.jsonl").read_text().splitlines()]
    known = {image["filename"]: image for image in images if image["split"] == split}
    texts = {s["sentid"]: s["raw"] for image in known.values() for s in image["sentences"]}
    assert len(rows) == 38
    assert {tuple(row) for row in rows} == {
        ("image", "image_id", "premise", "hypothesis", "hypothesis_id", "label", "votes")
    }
    for row in rows:
        image = known[row["image"]]
        assert row["image_id"] == image["cocoid"]
        assert row["premise"] == [sentence["raw"] for sentence in image["sentences"][:5]]
        assert row["hypothesis"] == texts[row["hypothesis_id"]]
        assert row["hypothesis_id"] not in image["sentids"]
        assert len(row["votes"]) == 7
        assert row["label"] == int(sum(row["votes"]) > 3)
    assert sum(row["label"] for row in rows) == {"val": 19, "test": 18}[split]


def test_one_label_contradicts_an_eccv_positive():
    rows = [json.loads(line) for line in (SAMPLE / "entailment" / "entailment_test.jsonl").read_text().splitlines()]
    verified = links_of("eccv", images_first=True)
    denied = [row for row in rows if row["label"] == 0 and (row["hypothesis_id"], row["image_id"]) in verified]
    assert len(denied) == 1


@pytest.mark.parametrize("kind", ["same_concept", "diff_concept", "rand_voca", "danger"])
def test_altered_captions_stand_behind_their_originals(images_of_test, kind):
    entries = load(f"rococo/{kind}.json")
    assert [entry["image"].split("/")[1] for entry in entries] == [image["filename"] for image in images_of_test]
    equal = 0
    for entry, image in zip(entries, images_of_test, strict=True):
        originals = [sentence["raw"] for sentence in image["sentences"]]
        assert entry["caption"][:-5] == originals  # one image has a sixth caption
        for original, altered in zip(originals, entry["caption"][-5:], strict=False):
            words, others = original.lower().replace(".", "").split(), altered.lower().split()
            assert len(words) == len(others)
            equal += words == others
            assert sum(a != b for a, b in zip(words, others, strict=True)) <= 1
    assert equal == (kind == "danger")
    assert sorted({len(entry["caption"]) for entry in entries}) == [10, 11]


def test_catalog_describes_every_raw_file():
    catalog = tomllib.loads((SAMPLE / "catalog.toml").read_text())
    assert (catalog["edition"], catalog["version"]) == ("sample", "1.0.0")
    raw = {
        path.relative_to(SAMPLE).as_posix()
        for path in SAMPLE.rglob("*")
        if path.suffix in {".json", ".jsonl", ".csv", ".npy"}
    }
    assert {entry["path"] for entry in catalog["entries"].values()} == raw
    assert len(raw) == 22 + 7 + 2 + 1
    for entry in catalog["entries"].values():
        content = (SAMPLE / entry["path"]).read_bytes()
        assert (entry["size"], entry["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_the_truth_is_what_labels_of_every_kind_say_in_part(images, images_of_test):
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
        lines = (SAMPLE / "entailment" / f"entailment_{split}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert sum(row["label"] != (row["hypothesis_id"] in truth[row["image_id"]]) for row in rows) == wrong


def check(folder):
    command = [sys.executable, TOOLS / "make_sample.py", "--check", "--output", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_generator_makes_the_committed_folder():
    done = check(SAMPLE)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_check_lists_what_differs_and_forgives_another_jpeg_encoder(tmp_path):
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
    done = check(folder)
    assert done.returncode == 1
    assert done.stderr.splitlines()[:-1] == [
        "notes.txt: superfluous",
        f"coco/images/{repainted.name}: different",
        f"coco/images/{lost.name}: missing",
        "cxc/sts_val.csv: different",
    ]


def test_the_generator_leaves_a_foreign_folder_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    command = [sys.executable, TOOLS / "make_sample.py", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is not empty and no sample" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("name", ["scenes", "likeness"])
def test_examples_of_the_generator_run(monkeypatch, name):
    monkeypatch.syspath_prepend(TOOLS)
    results = doctest.testmod(importlib.import_module(f"sample.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
