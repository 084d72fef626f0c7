"""``cxc-eccv explain --show-concepts``: what a person sees of the annotations at hand."""

import json

import pytest

DATA = "Test split of the embedded sample (60 drawings): not results on COCO"


@pytest.fixture
def show(command):
    """Exit status of the command, and all that it prints as lines without blanks."""

    def run(*words, which="all"):
        status, shown, said = command("explain", "--show-concepts", which, *words)
        return status, [" ".join(line.split()) for line in (shown + said).splitlines() if line.strip()]

    return run


def test_the_sample(show):
    status, rows = show()
    assert status == 0
    assert rows[:2] == [DATA, "COCO instances, test split"]
    assert set(rows) >= {
        "images of the split 60",
        "annotated 60",
        "with concepts 59",
        "without: their annotators found nothing 1",
        "not annotated 0",
        "boxes, an instance each 118",
        "different concepts 6",
        "circle.n.01 24 29",
    }


def test_category_sets(show, tmp_path, sample_library):
    ids = sample_library.split("test").image_ids.tolist()
    content = {
        "images": [{"id": number} for number in ids[:3]],
        "categories": [{"id": 18, "name": "dog"}],
        "annotations": [{"id": 1, "image_id": ids[0], "category_id": 18}],
    }
    (tmp_path / "sets.json").write_text(json.dumps(content))
    rows = show("--annotations", tmp_path / "sets.json")[1]
    assert "COCO categories, test split" in rows
    assert {"not annotated 57", "boxes, an instance each not counted", "dog.n.01 1"} <= set(rows)


def test_one_image(show, sample_library):
    number = sample_library.split("test").image_ids[0]
    rows = show(which=number)[1]
    assert rows[:3] == [DATA, f"COCO instances, image {number}", "concept called instances share of the image"]
    assert len(rows) > 3
    sets = sample_library.split("test").categories()
    empty = sets.image_ids[~sets.present.any(axis=1)][0]
    status, rows = show(which=empty)
    assert status == 2
    assert f"image {empty} shows no concept" in " ".join(rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--show-concepts", "1"), "image 1 is not in the split test; name its split with --split"),
        (("--concepts", "lvis"), "unknown source of concepts 'lvis'. Known: coco, visual-genome"),
        (("--show-concepts", "every"), "give all, or the COCO id of an image"),
        (("--annotations", "nowhere.json"), "nowhere.json is not a file"),
        (("--split", "dev"), "unknown split 'dev'"),
    ],
)
def test_bad_input(show, words, message):
    status, rows = show(*words)
    assert status == 2
    assert message in " ".join(rows)
