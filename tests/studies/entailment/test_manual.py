"""Entail@K judged by hand: what is exported, what comes of the answers, and what is refused."""

import csv
import json

import numpy as np
import pytest
from tiny_flickr import IMAGES, flickr_library, run_in_order
from tiny_world import TinyWorld

import cxc_eccv as ce
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, MissingIds, RunTooShallow
from cxc_eccv.runs import EmbeddingsRun, RankingsRun
from cxc_eccv.studies.entailment.manual import export_pairs, score_answers
from cxc_eccv.types import Embeddings


def read(path):
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            return list(csv.DictReader(file))
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path, rows):
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))


def fill(path, label):
    """Answer every row by a function of the row."""
    write(path, [row | {"label": label(row)} for row in read(path)])
    return path


@pytest.fixture(params=[".csv", ".jsonl"])
def path(tmp_path, request):
    return tmp_path / f"pairs{request.param}"


@pytest.fixture
def runs(sample_library, make_run):
    return {name: make_run(sample_library, seed=seed) for seed, name in enumerate(("a", "b"))}


def test_every_pair_of_any_model_is_asked_about_once(path, runs, sample_library):
    export_pairs(runs, path, data_dir=sample_library, sample=7)
    rows, about = read(path), json.loads(path.with_suffix(".json").read_text())
    asked = [(int(row["image_id"]), int(row["hypothesis_id"])) for row in rows]
    scores = {name: run.images.vectors @ run.captions.vectors.T for name, run in runs.items()}
    expected = set()
    for name, run in runs.items():
        own = scores[name] / np.linalg.norm(run.captions.vectors, axis=1)
        for place, image in enumerate(run.images.ids.tolist()):
            if image in about["images"]:
                top = run.captions.ids[np.argsort(-own[place])[:10]].tolist()
                expected |= {(image, caption) for caption in top}
    assert len(about["images"]) == 7
    assert len(asked) == len(set(asked))
    assert set(asked) == expected
    assert len({row["pair_id"] for row in rows}) == len(rows)


def test_the_order_tells_neither_model_nor_rank_and_the_seed_repeats_it(tmp_path, runs, sample_library):
    files = [tmp_path / f"{number}.csv" for number in range(3)]
    for file, seed in zip(files, (0, 0, 1), strict=True):
        export_pairs(runs, file, data_dir=sample_library, sample=7, seed=seed)
    first, again, other = (read(file) for file in files)
    assert first == again
    assert {row["image_id"] for row in first} != {row["image_id"] for row in other}
    models = json.loads(files[0].with_suffix(".json").read_text())["models"]
    images = json.loads(files[0].with_suffix(".json").read_text())["images"]
    in_order = [(image, caption) for place, image in enumerate(images) for caption in models[0]["captions"][place]]
    shown = [(int(row["image_id"]), int(row["hypothesis_id"])) for row in first]
    assert [pair for pair in shown if pair in set(in_order)] != in_order


def test_values_are_those_of_a_slow_loop(path, runs, sample_library):
    """An answer is a function of the pair; original captions count in any case."""
    export_pairs(runs, path, data_dir=sample_library, sample=9, depth=10, mark_known=False)
    assert "known" not in read(path)[0]
    fill(path, lambda row: int(row["hypothesis_id"]) % 2)
    scores = score_answers(path, data_dir=sample_library)
    content = sample_library.karpathy("test")
    owner = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    about = json.loads(path.with_suffix(".json").read_text())
    for model in about["models"]:
        values = [
            np.mean([caption % 2 or owner[caption] == image for caption in captions])
            for image, captions in zip(about["images"], model["captions"], strict=True)
        ]
        result = scores.results[model["name"]]
        assert result.value == pytest.approx(np.mean(values), abs=1e-12)
        assert result.low <= result.value <= result.high
        assert (result.n_queries, result.coverage) == (9, 1)
    against = sum(owner[int(r["hypothesis_id"])] == int(r["image_id"]) and not int(r["label"]) for r in read(path))
    assert scores.provenance["against_original_links"] == against


def in_order(image, captions, gallery):
    return RankingsRun.from_dicts({image: [*captions, *(one for one in gallery if one not in captions)]})


def test_an_answer_decides_over_ratings_and_original_captions_stay(tmp_path):
    """21 is rated 3 with image 1 and answered 0; 31 was labelled 0 and is answered 1; the own caption 11 answered 0."""
    world = TinyWorld(tmp_path / "world")
    world.folder.mkdir()
    library = world.write()
    run = in_order(1, [21, 31, 11], [12, 22, 32])
    path = tmp_path / "pairs.jsonl"
    export_pairs({"one": run}, path, data_dir=library, sample=1, depth=3)
    known = {row["hypothesis_id"]: (row["label"], row["known"]) for row in read(path)}
    assert known == {21: (None, "derived: entailed"), 31: (0, "labelled before"), 11: (1, "original caption")}
    fill(path, lambda row: {21: 0, 31: 1, 11: 0}[row["hypothesis_id"]])
    scores = score_answers(path, data_dir=library)
    assert scores.results["one"].value == pytest.approx(2 / 3)
    assert scores.provenance["against_original_links"] == 1
    assert scores.provenance["against_derived_labels"] == 1


def test_flickr30k_is_judged_by_hand_too_and_its_answers_are_a_file_of_labels(tmp_path):
    """The answers, put into the mirror folder, give the same number as Entail@K of the whole report."""
    library = flickr_library(tmp_path / "first", [(IMAGES[0], 5, 1)])
    run = run_in_order([(0, 5, 6), (7, 8, 0), (10, 1, 2)])
    path = tmp_path / "pairs.jsonl"
    export_pairs({"mine": run}, path, data_dir=library, sample=3, depth=3)
    assert {row["known"] for row in read(path)} == {"original caption", "labelled before", ""}
    fill(path, lambda row: 1 if row["label"] else int(row["hypothesis_id"] == 6))
    scores = score_answers(path, data_dir=library)
    assert scores.results["mine"].value == pytest.approx((3 / 3 + 2 / 3 + 1 / 3) / 3)
    assert scores.results["mine"].key == "flickr30k_entailment/i2t/entail_at_3"
    second = flickr_library(tmp_path / "second")
    (tmp_path / "second/entailment").mkdir()
    scores.save_labels(tmp_path / "second/entailment/entailment_f30k_test.jsonl")
    report = ce.evaluate(run, "flickr30k_entailment", metrics=["entail_at_3"], data_dir=second)
    assert report.results[0].value == pytest.approx(scores.results["mine"].value)
    assert report.results[0].coverage == 1


def test_answers_survive_a_spreadsheet(tmp_path, runs, sample_library):
    """A byte order mark, CRLF, quotes around everything, rows in another order, an added column."""
    path = tmp_path / "pairs.csv"
    export_pairs(runs, path, data_dir=sample_library, sample=3, mark_known=False)
    fill(path, lambda row: 1)
    before = score_answers(path, data_dir=sample_library)
    rows = [row | {"remark": "a, b"} for row in reversed(read(path))]
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, rows[0], quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(rows)
    assert score_answers(path, data_dir=sample_library).results == before.results


def test_a_caption_that_a_spreadsheet_would_run_is_a_text_there_and_comes_back(tmp_path):
    world = TinyWorld(tmp_path / "world")
    world.folder.mkdir()
    library = world.write()
    for own in world.folder.glob("**/*.json*"):
        own.write_text(own.read_text().replace("text 21", "=1+1"))
    path = tmp_path / "pairs.csv"
    export_pairs({"one": in_order(1, [21, 11, 12], [22, 31, 32])}, path, data_dir=library, sample=1, depth=3)
    assert {row["hypothesis"] for row in read(path)} == {"'=1+1", "text 11", "text 12"}
    fill(path, lambda row: 1)
    assert score_answers(path, data_dir=library).results["one"].value == 1


def spoil(rows, what):
    """The rows with one fault."""
    first = rows[0]
    faults = {
        "empty": [first | {"label": ""}, *rows[1:]],
        "two": [first | {"label": "2"}, *rows[1:]],
        "word": [first | {"label": "yes"}, *rows[1:]],
        "unknown": [first | {"pair_id": "coco-1-2"}, *rows[1:]],
        "text": [first | {"hypothesis": "another text"}, *rows[1:]],
        "image": [first | {"image": "another.jpg"}, *rows[1:]],
        "twice": [*rows, first | {"label": str(1 - int(first["label"]))}],
        "fewer": rows[1:],
    }
    return faults[what]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("empty", "no label, the first of 1, expected 0 or 1 in every row"),
        ("two", "label: found '2', expected 0 or 1"),
        ("word", "label: found 'yes', expected 0 or 1"),
        ("unknown", "found pair_id 'coco-1-2', expected a pair of the export; remove the row"),
        ("text", "hypothesis: found 'another text', expected .* as it was exported: undo the change"),
        ("image", "image: found 'another.jpg', expected .* as it was exported"),
        ("twice", r"label: found 0, and 1 in line \d+, expected one answer for a pair"),
        ("fewer", "pairs, without 'coco-.*', expected all .* put the missing rows back"),
    ],
)
def test_what_is_not_an_answer_to_what_was_asked_gives_no_number(path, runs, sample_library, what, message):
    export_pairs(runs, path, data_dir=sample_library, sample=3, mark_known=False)
    rows = read(fill(path, lambda _: "1"))
    write(path, spoil(rows, what))
    with pytest.raises(MalformedSource, match=message) as raised:
        score_answers(path, data_dir=sample_library)
    if what not in ("fewer",):
        assert f"{path}, line " in str(raised.value)


def test_the_same_answer_twice_is_one_answer(path, runs, sample_library):
    export_pairs(runs, path, data_dir=sample_library, sample=3, mark_known=False)
    rows = read(fill(path, lambda _: "1"))
    before = score_answers(path, data_dir=sample_library)
    write(path, [*rows, rows[0]])
    assert score_answers(path, data_dir=sample_library).results == before.results


def test_another_edition_of_the_data_is_refused(tmp_path, path, runs, sample_library):
    export_pairs(runs, path, data_dir=sample_library, sample=3, mark_known=False)
    fill(path, lambda _: "1")
    world = TinyWorld(tmp_path / "world")
    world.folder.mkdir()
    with pytest.raises(DataError, match="exported from the edition 'sample' of the data, and at hand is another"):
        score_answers(path, data_dir=world.write())


def test_answers_without_what_was_exported_are_refused(path, runs, sample_library):
    export_pairs(runs, path, data_dir=sample_library, sample=3)
    path.with_suffix(".json").unlink()
    with pytest.raises(DataError, match=r"pairs\.json is missing, which says what was exported"):
        score_answers(path, data_dir=sample_library)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda about: {"models": []}, "images, models: found no lists"),
        (lambda about: {"images": None}, "images: found None, expected a list"),
        (lambda about: {"split": {}}, "split: found {}, expected text"),
        (lambda about: {"data": {}}, "edition"),
        (lambda about: {"images": about["images"][:2]}, "model 'a': .* 10 captions for each of 2 images"),
        (lambda about: {"depth": 9}, "model 'a': .* 9 captions for each of 3 images"),
        (lambda about: {"models": about["models"][:1] * 2}, "model 'a': .* a name of its own"),
        (lambda about: {"models": [about["models"][0] | {"name": ["a"]}]}, r"models\[0\], name: found"),
        (lambda about: {"models": [about["models"][0] | {"captions": [[1, 2], [3], [4]]}]}, "10 captions for each"),
        (lambda about: {"models": [about["models"][0] | {"captions": [["x"] * 10] * 3}]}, "found 'x'"),
    ],
)
def test_a_damaged_record_of_the_export_gives_no_number(tmp_path, runs, sample_library, changed, message):
    path = tmp_path / "pairs.jsonl"
    export_pairs(runs, path, data_dir=sample_library, sample=3, mark_known=False)
    fill(path, lambda _: 1)
    beside = path.with_suffix(".json")
    about = json.loads(beside.read_text())
    beside.write_text(json.dumps(about | changed(about)))
    with pytest.raises(MalformedSource, match=message):
        score_answers(path, data_dir=sample_library)


def test_a_pair_whose_name_is_no_text_is_none_of_the_export(tmp_path, runs, sample_library):
    path = tmp_path / "pairs.jsonl"
    export_pairs(runs, path, data_dir=sample_library, sample=3)
    write(path, [row | {"pair_id": [1]} for row in read(path)])
    with pytest.raises(MalformedSource, match=r"line 1: found pair_id \[1\]"):
        score_answers(path, data_dir=sample_library)


def test_answers_are_not_written_over(path, runs, sample_library):
    export_pairs(runs, path, data_dir=sample_library, sample=3)
    with pytest.raises(InvalidOption, match="is there, and may hold answers"):
        export_pairs(runs, path, data_dir=sample_library, sample=3)


def test_what_cannot_be_exported(tmp_path, runs, sample_library):
    content = sample_library.karpathy("test")
    images, captions = content.image_ids, content.caption_ids
    few = EmbeddingsRun(Embeddings(images[:5], np.eye(5)), Embeddings(captions, np.ones((captions.size, 5))))
    lacking = EmbeddingsRun(Embeddings(images, np.ones((60, 2))), Embeddings(captions[:9], np.ones((9, 2))))
    short = RankingsRun.from_dicts({image: captions[:9].tolist() for image in images.tolist()})
    texts = EmbeddingsRun(None, Embeddings(captions, np.ones((captions.size, 2))))
    for given, error, message in (
        ({}, InvalidOption, "no run to export"),
        (runs | {"few": few}, InvalidOption, "5 images of the split are in every run, and 7 are asked for"),
        ({"lacking": lacking}, MissingIds, "captions"),
        ({"short": short}, RunTooShallow, "9"),
        ({"texts": texts}, InvalidOption, "texts ranks no captions for images: the run has no images"),
    ):
        with pytest.raises(error, match=message):
            export_pairs(given, tmp_path / "pairs.csv", data_dir=sample_library, sample=7)
    with pytest.raises(InvalidOption, match=r"depth 301 \(--depth\): the split has 300 captions"):
        export_pairs(runs, tmp_path / "pairs.csv", data_dir=sample_library, sample=7, depth=301)
    with pytest.raises(InvalidOption, match=r"pairs are written to \.csv or \.jsonl"):
        export_pairs(runs, tmp_path / "pairs.xlsx", data_dir=sample_library)
    assert not list(tmp_path.iterdir())
