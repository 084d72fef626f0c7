"""``cxc-eccv concepts``: what a person sees of the annotations at hand."""

import json

import pytest

from cxc_eccv.cli import main


@pytest.fixture
def show(capsys, monkeypatch):
    """What the command prints, and its exit status."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["concepts", *map(str, arguments)])
        shown = capsys.readouterr()
        return shown.out + shown.err, ended.value.code

    return run


def rows_of(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_the_sample(show):
    text, status = show("--data-dir", "sample")
    assert status == 0
    rows = rows_of(text)
    assert rows[0] == "COCO instances, test split"
    for row in (
        "images of the split 60",
        "annotated 60",
        "with concepts 59",
        "without: their annotators found nothing 1",
        "not annotated 0",
        "boxes, an instance each 118",
        "different concepts 6",
        "circle.n.01 24 29",
    ):
        assert row in rows


def test_category_sets(show, tmp_path, sample_library):
    ids = sample_library.karpathy("test").image_ids.tolist()
    content = {
        "images": [{"id": number} for number in ids[:3]],
        "categories": [{"id": 18, "name": "dog"}],
        "annotations": [{"id": 1, "image_id": ids[0], "category_id": 18}],
    }
    (tmp_path / "sets.json").write_text(json.dumps(content))
    text, _ = show("--data-dir", "sample", "--instances", tmp_path / "sets.json")
    rows = rows_of(text)
    assert "COCO categories, test split" in rows
    assert {"not annotated 57", "boxes, an instance each not counted", "dog.n.01 1"} <= set(rows)


def test_one_image(show, sample_library):
    number = sample_library.karpathy("test").image_ids[0]
    rows = rows_of(show("--data-dir", "sample", "--image", number)[0])
    assert rows[0] == f"COCO instances, image {number}"
    assert rows[1] == "concept called instances share of the image"
    assert len(rows) > 3


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--image", "1"), "image 1 is not one of test; name its split with --split"),
        (("--source", "lvis"), "unknown source of concepts 'lvis'. Known: coco, visual-genome"),
        (("--instances", "nowhere.json"), "nowhere.json is not a file"),
        (("--split", "dev"), "unknown split 'dev'"),
        (("--objects", "a.json"), "Visual Genome's"),
    ],
)
def test_bad_input(show, arguments, part):
    text, status = show("--data-dir", "sample", *arguments)
    assert status == 2
    assert part in text
    assert "Traceback" not in text


def test_an_image_without_concepts(show, sample_library):
    sets = sample_library.categories("test")
    empty = sets.image_ids[~sets.present.any(axis=1)][0]
    text, status = show("--data-dir", "sample", "--image", empty)
    assert status == 2
    assert f"image {empty} shows no concept" in text
