"""``cxc-eccv explain`` with its page, ``rate-failures export`` and ``rate-failures ratings``, one after the other."""

import json

import pytest
from answer_tables import read_rows, write_rows
from report_samples import Page, near_run

from cxc_eccv.cli.app import main
from cxc_eccv.runs import save_embeddings
from cxc_eccv.sources.download import sample_images

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def explained(sample_library, wordnet_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("explained")
    save_embeddings(folder / "near.npz", near_run(sample_library, noise=2.0))
    command = ["explain", folder / "near.npz", "--data-dir", "sample", "--output", folder / "out"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NLTK_DATA", wordnet_folder)
        with pytest.raises(SystemExit) as ended:
            main([*map(str, command), "--images", str(sample_images())])
    assert not ended.value.code
    return folder / "out"


@pytest.fixture
def run(command):
    def run(*arguments, status=0):
        ended, shown, said = command(*arguments)
        assert ended == status, said
        return said if status else shown

    return run


def answer(path, target, rater, classes):
    rows = read_rows(path)
    for place, row in enumerate(rows):
        row |= {"worker": rater, "classes": classes[place % len(classes)], "answer": 1 + place % 10}
    return write_rows(target, rows)


def export(run, explained, folder, sample=30):
    told = run("rate-failures", "export", explained, "--output", folder, "--sample", sample, "--format", "csv",
               "--images", "images/{file_name}")  # fmt: skip
    assert "wrote" in told
    assert "failures of text queries (--keywords 1)" in told
    return folder / "questions.csv"


def test_explain_writes_the_page(explained):
    shown = Page((explained / "explain.html").read_text(encoding="utf-8"))
    assert shown.all("h1")[0]["text"] == "Failures of near"
    assert len(shown.all("img")) == 2 * len(shown.all("article")) > 20
    numbers = json.loads((explained / "explain.json").read_text(encoding="utf-8"))["scores"]
    chips = shown.all("header")[0]["text"]
    assert f"{sum(int(numbers[f'{way}/failures']) for way in ('t2i', 'i2t', 't2t')):,} failures" in chips


def test_failures_are_exported_rated_and_counted(explained, run, tmp_path):
    export(run, explained, tmp_path)
    told = run(
        "rate-failures", "export", explained, "--output", tmp_path / "page", "--images", "sample", "--sample", 30
    )
    assert f"rate-failures ratings ANSWERS --explained {explained}" in told
    assert "questionnaire.html" in told
    file = tmp_path / "questions.csv"
    ann = answer(file, tmp_path / "ann.csv", "ann", ["colour; detail", "alternatives", "size"])
    ben = answer(file, tmp_path / "ben.csv", "ben", ["colour", "action"])
    output = tmp_path / "ratings.json"
    told = run("rate-failures", "ratings", ann, ben, "--explained", explained, "--output", output)
    assert "60 answers of 2 raters on 30 failures" in told
    assert told.index("Raters") < told.index("What went wrong")
    for title in ("What went wrong", "Classes together", "Association rules", "Which number agrees with people"):
        assert title in told
    report = json.loads(output.read_text(encoding="utf-8"))
    assert [row["answers"] for row in report["classes"]] == [10, 0, 24, 0, 10, 16, 10]
    assert report["mean_rating"] == 5.4
    assert [(rule["antecedents"], rule["consequents"], rule["answers"]) for rule in report["rules"]] == [
        (["detail"], ["colour"], 10),
        (["colour"], ["detail"], 10),
    ]
    assert report["provenance"]["files"].keys() == {"ann.csv", "ben.csv", "failures.parquet"}


def test_a_folder_that_explain_did_not_write(run, tmp_path):
    told = run("rate-failures", "export", tmp_path, "--output", tmp_path / "asked", status=2)
    assert "failures.parquet is missing. Give a folder written by cxc-eccv explain --output." in told
    (tmp_path / "failures.parquet").write_bytes(b"PAR1")
    told = run("rate-failures", "export", tmp_path, "--output", tmp_path / "asked", status=2)
    assert "no readable Parquet file" in told
