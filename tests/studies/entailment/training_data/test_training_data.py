"""Labelled pairs: their schema, their labels, what is at hand for a premise, and what the guard leaves out."""

import csv
import json

import numpy as np
import pytest
from training_data_mirror import COCO, SNLI_VE, STSB, karpathy, write_mirror

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data import (
    LABELLED_SCHEMA,
    corpora,
    load_training_data,
    part_of,
)

SAMPLE_PARTS = [f"{name}/{part}" for name in ("entailment", "cxc", "cxc_sts", "coco") for part in ("val", "test")]
SAMPLE_PARTS += ["coco/train", "coco/restval", "eccv/test"]


@pytest.fixture
def mirror(tmp_path):
    return write_mirror(tmp_path)


@pytest.fixture
def library(mirror):
    return Library(mirror, offline=True)


def sources(data):
    return {name: (source["pairs"], source["left_out"]) for name, source in data.provenance["sources"].items()}


def test_every_corpus_states_its_origin_and_parts(sample_library):
    for corpus in corpora().values():
        groups = [sample_library.catalog.group(group) for group in corpus.groups]
        assert all(group.citations for group in groups)
        assert groups[0].licence
        assert set(corpus.parts) <= {"train", "restval", "val", "test"}


@pytest.mark.parametrize("images", [None, "sample"])
def test_all_parts_share_one_schema(sample_library, images):
    data = load_training_data(sample_library, SAMPLE_PARTS, images=images, allow_test_data=True)
    assert data.pairs.schema == LABELLED_SCHEMA
    rows = data.pairs.to_pylist()
    assert sum(source["pairs"] for source in data.provenance["sources"].values()) == len(rows)
    assert data.provenance["positives"] == sum(row["label"] for row in rows)
    for row in rows:
        multimodal = images is not None and row["source"] != "cxc_sts"
        assert row["kind"] == ("multimodal" if multimodal else "text")
        assert (row["image"] is not None) == multimodal
        assert row["premise"]
        assert row["label"] in (0, 1)
        assert row["rating"] is None or row["label"] == (row["rating"] >= 3)
    assert json.loads(json.dumps(data.provenance)) == data.provenance


def test_cxc_pairs_images_with_foreign_rated_captions(sample_library):
    data = load_training_data(sample_library, ["cxc/val"])
    folder = mirror_folder("sample")
    raw = json.loads((folder / "coco/dataset_coco.json").read_text())["images"]
    images = {image["cocoid"]: [sentence["raw"].strip() for sentence in image["sentences"]][:5] for image in raw}
    captions = {sentence["sentid"]: sentence["raw"] for image in raw for sentence in image["sentences"]}
    expected = []
    with (folder / "cxc/sits_val.csv").open() as file:
        for row in csv.DictReader(file):
            caption = int(row["caption"].rpartition(":")[2])
            image = int(row["image"][-16:-4])
            if row["sampling_method"] != "c2i_original":
                score = float(row["agg_score"])
                expected.append((" ".join(images[image]), captions[caption], int(score >= 3), np.float32(score)))
    columns = [data.pairs[name].to_pylist() for name in ("premise", "hypothesis", "label", "rating")]
    assert list(zip(*columns, strict=True)) == expected
    pairs = load_training_data(sample_library, ["cxc_sts/val"]).pairs
    np.testing.assert_array_equal(np.asarray(pairs["label"]), np.asarray(pairs["rating"]) >= np.float32(3))


def test_co_caption_is_not_in_its_premise(library):
    pairs = load_training_data(library, ["coco/val"]).pairs
    assert [(row["hypothesis"], row["premise"], row["caption_key"]) for row in pairs.to_pylist()] == [
        ("a man rides a horse", "a rider on a horse someone on a horse", "coco/10"),
        ("a rider on a horse", "a man rides a horse someone on a horse", "coco/11"),
        ("someone on a horse", "a man rides a horse a rider on a horse", "coco/12"),
    ]
    assert pairs["label"].to_pylist() == [1, 1, 1]
    assert pairs["image_key"].to_pylist() == ["coco/1"] * 3


def test_sentences_of_test_captions_are_left_out(library):
    data = load_training_data(library, ["stsb/train"])
    assert sources(data) == {
        "stsb/train": (4, {"words of a caption in coco/test": 1, "words of a caption in flickr30k/test": 1})
    }
    assert data.pairs["label"].to_pylist() == [1, 1, 0, 1]
    assert data.provenance["holds"] == {"coco/val": 1}
    assert (data.provenance["trained_on_test"], data.provenance["trained_on_val"]) == (False, True)
    assert data.provenance["protected"] == ["coco/test", "flickr30k/test"]
    assert data.provenance["not_at_hand"] == ["flickr8k/val", "flickr8k/test"]


@pytest.mark.parametrize(
    ("options", "pairs", "holds", "protected"),
    [
        ({"protect": "val,test"}, 3, {}, ["coco/val", "flickr30k/val", "coco/test", "flickr30k/test"]),
        ({"allow_test_data": True}, 6, {"coco/val": 1, "coco/test": 1, "flickr30k/test": 1}, []),
        (
            {"protect": "val,test", "allow_test_data": True},
            5,
            {"coco/test": 1, "flickr30k/test": 1},
            ["coco/val", "flickr30k/val"],
        ),
    ],
)
def test_validation_and_test_are_excluded_unless_allowed(library, options, pairs, holds, protected):
    """Validation data are excluded on request, and test data allowed on request."""
    data = load_training_data(library, ["stsb/train"], **options)
    assert (data.pairs.num_rows, data.provenance["holds"], data.provenance["protected"]) == (pairs, holds, protected)
    assert data.provenance["trained_on_test"] == ("coco/test" in holds)
    assert data.provenance["trained_on_val"] == ("coco/val" in holds)
    assert sum(data.provenance["sources"]["stsb/train"]["left_out"].values()) == len(STSB) - pairs


def test_photographs_of_a_test_split_are_left_out(library, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for name, _, _ in SNLI_VE:
        (folder / name).touch()
    data = load_training_data(library, ["snli_ve/train"], images=folder)
    left_out = {"no majority among the annotators", "image in flickr30k/test", "words of a caption in coco/test"}
    assert sources(data) == {"snli_ve/train": (3, dict.fromkeys(left_out, 1))}
    rows = [(row["premise"], row["image"], row["kind"], row["label"]) for row in data.pairs.to_pylist()]
    assert rows == [
        ("a woman sings a singer", "100.jpg", "multimodal", 1),
        ("a woman sings a singer", "100.jpg", "multimodal", 0),
        ("", "400.jpg", "visual", 0),
    ]


def test_without_images_captions_are_the_premise(library):
    """Pairs without captions are left out and counted."""
    data = load_training_data(library, ["snli_ve/train"])
    assert data.pairs["kind"].to_pylist() == ["text", "text"]
    assert data.pairs["image"].null_count == 2
    assert data.provenance["sources"]["snli_ve/train"]["left_out"]["neither captions nor an image as premise"] == 1
    assert data.provenance["sources"]["snli_ve/train"]["licence"].startswith("BSD 3-Clause")


def test_what_the_provenance_counts_is_what_goes_in(mirror, library):
    """A photograph of a test split that is let in, and then has neither captions nor a file, was not trained on."""
    file = mirror / "entailment/snli_ve_train.jsonl"
    photographs = mirror / "flickr/dataset_flickr30k.json"
    file.write_text(file.read_text().replace('"400"', '"500"'), encoding="utf-8")
    more = json.loads(photographs.read_text())
    more["images"].append({"filename": "500.jpg", "split": "val", "sentences": [{"raw": " ", "sentid": 5000}]})
    photographs.write_text(json.dumps(more), encoding="utf-8")
    data = load_training_data(library, ["snli_ve/train"])
    assert data.provenance["sources"]["snli_ve/train"]["left_out"]["neither captions nor an image as premise"] == 1
    assert data.provenance["holds"] == {}
    assert not data.provenance["trained_on_val"]


def test_photographs_need_known_splits_to_protect(tmp_path):
    library = Library(write_mirror(tmp_path, without=("flickr30k",)), offline=True)
    with pytest.raises(DataError, match="flickr30k/test is missing, so its images cannot be"):
        load_training_data(library, ["snli_ve/train"])
    allowed = load_training_data(library, ["stsb/train"])
    assert "flickr30k/test" in allowed.provenance["not_at_hand"]
    with pytest.raises(InvalidOption, match="no pair is left"):  # allowed, but there are neither captions nor images
        load_training_data(library, ["snli_ve/train"], allow_test_data=True)


def test_missing_images_are_counted_and_named(library, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        SourceMissing, match=r"0 of the 2 photographs found in .*empty.*; the first missing one is 100\.jpg"
    ):
        load_training_data(library, ["snli_ve/train"], images=tmp_path / "empty")


ANNOTATED = [
    {"image": "COCO_val2014_000000000002.jpg"},  # image of coco/test
    {"image": "000000000002.jpg"},  # as COCO named it in 2017
    {"image": "anything.jpg", "image_id": 2},
    {"image": "300.jpg"},  # photograph of flickr30k/test
    {"image": "300.jpg", "image_id": 1},  # a photograph, whatever its number
    {"image": "mine.jpg", "premise": ["dogs in a field", "grass"]},  # words of a caption of coco/test
    {"image": "COCO_val2014_000000000001.jpg", "caption_id": 21},  # caption of coco/test
    {"image": "100.jpg", "hypothesis": "Reading."},  # words of a caption of flickr30k/test
    {"image": "COCO_val2014_000000000001.jpg"},
    {"image": "mine.jpg"},
]


def test_users_pairs_are_guarded_by_image_or_words(mirror, library):
    rows = [{"premise": ["it is so"], "hypothesis": f"text {n}", "label": 1} | row for n, row in enumerate(ANNOTATED)]
    path = mirror / "entailment/entailment_val.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    data = load_training_data(library, ["entailment/val"])
    left_out = {"image in coco/test": 3, "caption in coco/test": 1, "words of a caption in coco/test": 1}
    left_out |= {"image in flickr30k/test": 2, "words of a caption in flickr30k/test": 1}
    assert sources(data) == {"entailment/val": (2, left_out)}
    assert data.pairs["image_key"].to_pylist() == ["coco/1", None]


def test_sixth_caption_of_test_image_is_excluded(mirror, library):
    """It is in no split, for Karpathy's files have five captions an image that count, and is known by its id alone."""
    six = COCO | {"test": {2: [f"dogs {number}" for number in range(6)]}}
    (mirror / "coco/dataset_coco.json").write_text(karpathy(six, filepath="val2014"), encoding="utf-8")
    row = {"image": "COCO_val2014_000000000001.jpg", "premise": ["it is so"], "label": 1}
    rows = [row | {"hypothesis": f"words of {number}", "caption_id": number} for number in (25, 10)]
    (mirror / "entailment/entailment_val.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    data = load_training_data(library, ["entailment/val"])
    assert sources(data) == {"entailment/val": (1, {"caption in coco/test": 1})}
    assert data.pairs["caption_key"].to_pylist() == ["coco/10"]


def test_caption_shared_with_other_image_is_counted(mirror, library):
    """The caption stays among the training pairs."""
    alike = COCO | {"val": {1: ["Two dogs run", "a rider", "someone"]}}
    (mirror / "coco/dataset_coco.json").write_text(karpathy(alike, filepath="val2014"), encoding="utf-8")
    data = load_training_data(library, ["coco/val"])
    assert data.provenance["sources"]["coco/val"]["left_out"] == {}
    assert data.provenance["shares_words"] == {"coco/test": 3}
    assert not data.provenance["trained_on_test"]


def test_parts_have_aliases():
    assert part_of("sick/trial") == part_of("sick/dev") == part_of("sick/validation") == (corpora()["sick"], "val")


@pytest.mark.parametrize(
    ("names", "options", "error", "message"),
    [
        *((names, {}, InvalidOption, "at least one part .*, each once") for names in ([], ["cxc/val", "cxc/dev"])),
        # The test splits are given up by their own option alone.
        *((["cxc/val"], {"protect": p}, InvalidOption, "--allow-test-data") for p in ("", "val", "test,train", "all")),
        (["cxc/val", "cxc/test"], {}, InvalidOption, r"cxc/test: no pair is left .* image in coco/test \(80\).*allow"),
        (["cxx/val"], {}, UnknownName, "did you mean 'cxc'"),
        (["cxc/train"], {}, UnknownName, "Known: cxc/val, cxc/test"),
        (["stsb/train"], {}, SourceMissing, "stsb_train"),
        (["simplification/train"], {}, SourceMissing, "simplification_normal"),
    ],
)
def test_what_cannot_be_loaded_is_refused(sample_library, names, options, error, message):
    with pytest.raises(error, match=message):
        load_training_data(sample_library, names, **options)


NORMAL = "Zebra\t0\tThe zebra is an African equine .\nPear\t3\tPears are fruits of trees .\n"
SIMPLE = "Zebra\t1\tA zebra is a horse from Africa .\nPear\t0\tPears grow on trees .\n"


@pytest.fixture
def aligned(mirror):
    """Aligned sentences of Wikipedia: a pair for every line of two files."""
    with (mirror / "catalog.toml").open("a") as file:
        file.write("[entries.simplification_normal]\n[entries.simplification_simple]\n")
    (mirror / "entailment/normal.aligned").write_text(NORMAL)
    (mirror / "entailment/simple.aligned").write_text(SIMPLE)
    return Library(mirror, offline=True)


def test_a_sentence_entails_its_simplification(aligned):
    pairs = load_training_data(aligned, ["simplification/train"]).pairs
    assert [(row["premise"], row["hypothesis"], row["label"]) for row in pairs.to_pylist()] == [
        ("The zebra is an African equine .", "A zebra is a horse from Africa .", 1),
        ("Pears are fruits of trees .", "Pears grow on trees .", 1),
    ]


@pytest.mark.parametrize(
    ("simple", "message"),
    [
        (SIMPLE.splitlines()[0], r"simple\.aligned: found 1 lines, expected as many as in normal\.aligned, 2"),
        (SIMPLE.replace("Pear\t", "Apple\t"), r"line 2: found article 'Apple', expected 'Pear'"),
        (SIMPLE.replace("\t1\t", " "), r"line 1: found 1 cells, expected 3 cells between tabs"),
    ],
)
def test_simplifications_that_do_not_go_together_are_refused(aligned, simple, message):
    (aligned.data_dir / "entailment/simple.aligned").write_text(simple)
    with pytest.raises(MalformedSource, match=message):
        load_training_data(aligned, ["simplification/train"])
