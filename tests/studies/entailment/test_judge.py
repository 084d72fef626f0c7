"""A classifier as the judge of pairs without a label: what it is asked, what is kept, and what a report says of it."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest
from tiny_flickr import IMAGES, flickr_library, run_in_order

import cxc_eccv as ce
from cxc_eccv.comparison import ScoredReport
from cxc_eccv.comparison.pairing import check_comparable
from cxc_eccv.errors import DataError, InvalidOption, SourceMissing
from cxc_eccv.registry import task
from cxc_eccv.sources.download import image_folder
from cxc_eccv.studies.entailment import judge as judging
from cxc_eccv.studies.entailment.answerer import Answerer
from cxc_eccv.studies.entailment.judge import ClassifierJudge
from cxc_eccv.tasks.task import COCO
from cxc_eccv.writing import locked


class StandIn(Answerer):
    """Entailed with probability 0.75 where the hypothesis has an even number of letters, else 0.25."""

    context = 10_000

    def __init__(self, fingerprint, *, visual=False, training_data=None, threshold=0.5):
        self.name, self.fingerprint, self.threshold = "org/stand-in", fingerprint, threshold
        self.has_visual, self.training_data = visual, training_data
        self.asked, self.images = [], []

    def score_and_count(self, premises, images, hypotheses, **_options):
        self.asked += zip(premises, hypotheses, strict=True)
        self.images += images or []
        cut = sum(len(premise) > self.context for premise in premises)
        return np.where([len(text) % 2 == 0 for text in hypotheses], 0.75, 0.25), cut


def evaluate(run, library, classifier, tasks="entailment", **options):
    judge = ClassifierJudge(classifier, progress=False, **options)
    return ce.evaluate(run, tasks, data_dir=library, unjudged=judge, confidence=None, per_query=True)


def texts_of(library):
    content = library.karpathy("test")
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    premises = {}
    for caption, image in zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True):
        premises.setdefault(image, []).append(texts[caption].strip())
    return {image: " ".join(own) for image, own in premises.items()}, texts


@pytest.mark.parametrize("hindrance", ["a file for the folder", "a pipe", "a link", "another process"])
def test_answers_that_cannot_be_kept_are_not_needed(tmp_path, hindrance):
    (tmp_path / "thesis").write_text("years of work")
    for first in (True, False):
        judge, pair = ClassifierJudge(StandIn("1" * 16), progress=False), (["a dog"], [None], ["it"])
        if first and hindrance == "a file for the folder":
            (tmp_path / "cache").write_text("no folder")
        elif first:
            judge.score(*pair)
            (file,) = (tmp_path / "cache/answers").rglob("*.parquet")
            file.unlink()
            if hindrance == "a pipe":
                os.mkfifo(file)
            elif hindrance == "a link":
                file.symlink_to(tmp_path / "thesis")
        with locked(file) if hindrance == "another process" else nullcontext():
            assert judge.score(*pair).tolist() == [0.75]
    assert (tmp_path / "thesis").read_text() == "years of work"


def test_retrieved_pairs_without_a_label_are_asked_about_once_and_no_others(sample_library, make_run):
    """By loops: the top 30 of every image, each unlabelled pair by the stand-in, others by their label."""
    run, asked = make_run(sample_library), StandIn("1")
    report = evaluate(run, sample_library, asked)
    judged = task("entailment").judgments(sample_library, "test", "i2t")
    labels = dict(
        zip(
            zip(judged.query_ids[judged.rows].tolist(), judged.gallery_ids[judged.indices].tolist(), strict=True),
            judged.gains.tolist(),
            strict=True,
        )
    )
    premises, texts = texts_of(sample_library)
    cosines = run.images.vectors @ (run.captions.vectors / np.linalg.norm(run.captions.vectors, axis=1)[:, None]).T
    values, pairs = {k: [] for k in (1, 5, 10, 30)}, []
    for image, row in zip(run.images.ids.tolist(), cosines, strict=True):
        top = run.captions.ids[np.argsort(-row, kind="stable")[:30]].tolist()
        pairs += [(image, caption) for caption in top if (image, caption) not in labels]
        gains = [labels.get((image, caption), float(len(texts[caption]) % 2 == 0)) for caption in top]
        for k, own in values.items():
            own.append(np.mean(gains[:k]))
    for k, own in values.items():
        assert report.scores[f"entailment/i2t/entail_at_{k}"] == pytest.approx(np.mean(own), abs=1e-12)
    contents = {(premises[image], texts[caption]) for image, caption in pairs}
    assert len(asked.asked) == len(contents)
    assert set(asked.asked) == contents
    assert report.provenance["unjudged"]["pairs"] == {"entailment/i2t": len(pairs)}


def test_the_report_says_who_judged_and_what_it_was_trained_on(sample_library, make_run, tmp_path):
    data = {"holds": {"coco/val": 120}, "trained_on_test": False, "trained_on_val": True}
    report = evaluate(make_run(sample_library), sample_library, StandIn("f" * 64, training_data=data, threshold=0.75))
    said = report.provenance["unjudged"]
    assert {name: said[name] for name in ("model", "fingerprint", "threshold", "looks_at", "trained_on")} == {
        "model": "org/stand-in",
        "fingerprint": "f" * 64,
        "threshold": 0.75,
        "looks_at": "captions",
        "trained_on": {"coco/val": 120},
    }
    assert report.results[0].parameters["unjudged"] == "classifier"
    report.save(tmp_path / "report")
    for text in (str(report), *((tmp_path / f"report/report.{kind}").read_text() for kind in ("md", "html"))):
        assert "org/stand-in judged" in " ".join(text.split())
        assert "Trained on val data" in " ".join(text.split())
    untold = evaluate(make_run(sample_library), sample_library, StandIn("2"))
    assert "it may have seen val and test data" in untold.provenance["unjudged"]["cautions"][0]


def test_a_threshold_is_reached_by_what_equals_it(sample_library, make_run):
    run = make_run(sample_library)
    at, above = (
        evaluate(run, sample_library, StandIn("1", threshold=threshold)).scores["entailment/i2t/entail_at_10"]
        for threshold in (0.75, np.nextafter(0.75, 1))
    )
    nothing = ce.evaluate(run, "entailment", data_dir=sample_library).scores["entailment/i2t/entail_at_10"]
    assert at > above == nothing


def test_what_was_asked_before_is_not_asked_again(sample_library, make_run, tmp_path):
    run, first, again, other = make_run(sample_library), StandIn("1"), StandIn("1"), StandIn("2")
    reports = [evaluate(run, sample_library, one) for one in (first, again, other)]
    assert first.asked
    assert not again.asked
    assert sorted(other.asked) == sorted(first.asked)
    assert reports[0].results == reports[1].results == reports[2].results
    assert reports[0].provenance == reports[1].provenance
    (folder,) = (tmp_path / "cache/answers").glob("stand-in-1")
    for file in folder.glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:50])
    anew = StandIn("1")
    assert evaluate(run, sample_library, anew).results == reports[0].results
    assert sorted(anew.asked) == sorted(first.asked)


def test_a_flipped_bit_in_the_kept_answers_changes_no_answer():
    answers, pairs = judging._Answers(StandIn("1")), np.array([f"{number:032x}" for number in range(40)])
    answers.write(pairs, np.linspace(0, 1, 40))
    (file,) = answers.folder.glob("*.parquet")
    content, kept = file.read_bytes(), 0
    for place in range(0, len(content), 7):
        file.write_bytes(content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :])
        found = answers.read(pairs)
        right = np.linspace(0, 1, 40)
        assert (np.isnan(found) | (found == right)).all(), place
        kept += bool((found == right).all())
    assert kept < len(content) / 7 / 2  # the rest lies in pages, or tells nothing


def test_kept_answers_that_are_no_probabilities_are_asked_for_again():
    answers, pairs = judging._Answers(StandIn("1")), np.array(["a", "b", "c", "d"])
    answers.write(pairs, np.array([0.25, 7, -0.5, np.nan]))
    np.testing.assert_array_equal(answers.read(pairs), [0.25, np.nan, np.nan, np.nan])


def test_a_killed_run_goes_on_where_it_was(sample_library, make_run, monkeypatch):
    class Killed(StandIn):
        def score_and_count(self, *arguments, **options):
            if len(self.asked) >= 200:
                raise KeyboardInterrupt
            return super().score_and_count(*arguments, **options)

    monkeypatch.setattr(StandIn, "pairs_at_once", 100)
    run, killed, next_one, whole = make_run(sample_library), Killed("1"), StandIn("1"), StandIn("3")
    with pytest.raises(KeyboardInterrupt) as died:
        evaluate(run, sample_library, killed)
    assert died.value.__notes__ == ["The classifier's answers are kept; the same command continues from them."]
    evaluate(run, sample_library, next_one)
    evaluate(run, sample_library, whole)
    assert len(killed.asked) == 200
    assert sorted(killed.asked + next_one.asked) == sorted(whole.asked)


def test_a_classifier_that_looks_at_images_gets_their_files(sample_library, make_run, tmp_path):
    with pytest.raises(InvalidOption, match=r"org/stand-in looks at images: give their folder \(--images\)"):
        ClassifierJudge(StandIn("1", visual=True))
    folder = tmp_path / "images"
    shutil.copytree(image_folder("sample"), folder)
    first, again = StandIn("1", visual=True), StandIn("1", visual=True)
    run = make_run(sample_library)
    report = evaluate(run, sample_library, first, images=folder)
    assert report.provenance["unjudged"]["looks_at"] == "captions and image"
    assert len(first.images) == len(first.asked)
    assert {path.parent for path in first.images} == {folder}
    changed = first.images[0]
    changed.write_bytes(changed.read_bytes() + b"\0")
    evaluate(run, sample_library, again, images=folder)
    assert set(again.images) == {changed}
    changed.unlink()
    with pytest.raises(SourceMissing, match=f"org/stand-in looks at images, and .* has no file {changed.name}"):
        evaluate(run, sample_library, StandIn("1", visual=True), images=folder)


def test_flickr30k_is_judged_with_its_own_captions(tmp_path):
    library = flickr_library(tmp_path / "data", [(IMAGES[0], 5, 0)])
    asked = StandIn("1")
    report = evaluate(run_in_order([(0, 5, 10), (5,), (10,)]), library, asked, tasks="flickr30k_entailment")
    assert report.provenance["unjudged"]["pairs"] == {"flickr30k_entailment/i2t": 3 * 10 - 1}
    assert {premise for premise, _ in asked.asked} == {
        " ".join(f"a thing {number}" for number in range(start, start + 5)) for start in (0, 5, 10)
    }
    # "a thing 10" has ten letters; the label of the file, 0, decides on "a thing 5".
    assert report.scores["flickr30k_entailment/i2t/entail_at_1"] == 1
    values = report.per_query.to_pylist()
    (first,) = [row["value"] for row in values if row["query_id"] == IMAGES[0] and row["metric"] == "entail_at_5"]
    assert 0 < first < 1


def test_probabilities_of_a_table_of_pairs(sample_library):
    judge = ClassifierJudge(StandIn("1"), progress=False).on(sample_library, "test", COCO)
    captions = sample_library.captions("test")[:40]
    pairs = captions.select(["image_id", "caption_id"])
    twice = pa.concat_tables([pairs, pairs.slice(3, 2)])
    found = judge.judge_pairs(twice)
    expected = [0.75 if len(text) % 2 == 0 else 0.25 for text in captions["text"].to_pylist()]
    assert found["probability"].to_pylist() == expected + expected[3:5]
    assert found.select(["image_id", "caption_id"]).to_pylist() == twice.to_pylist()
    assert judge.judge_pairs(pairs.slice(0, 0)).num_rows == 0
    for name, number in (("image_id", 5), ("caption_id", 6)):
        wrong = pairs.to_pandas().assign(**{name: number})
        with pytest.raises(DataError, match=f"{name[:-3]} {number} is not in the test split of COCO"):
            judge.judge_pairs(pa.Table.from_pandas(wrong, preserve_index=False))


def test_a_classifier_without_probabilities_gives_no_number(sample_library, make_run):
    class Wrong(StandIn):
        def score_and_count(self, premises, images, hypotheses, **_options):
            return np.full(len(premises), np.nan), 0

    with pytest.raises(DataError, match=r"org/stand-in must give one probability between 0 and 1 for each of"):
        evaluate(make_run(sample_library), sample_library, Wrong("1"))


def test_models_judged_by_different_classifiers_are_not_compared(sample_library, make_run):
    run = make_run(sample_library)
    one, two, same = (
        ScoredReport.of(name, evaluate(run, sample_library, StandIn(name)), sample_library) for name in ("1", "2", "1")
    )
    check_comparable(one, same)
    with pytest.raises(InvalidOption, match="the judge of pairs without a label is"):
        check_comparable(one, two)


@pytest.mark.thorough
def test_two_at_once_keep_all_answers(sample_library, make_run, monkeypatch):
    monkeypatch.setattr(StandIn, "pairs_at_once", 20)
    runs = [make_run(sample_library, seed=seed) for seed in (0, 1)]
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda run: evaluate(run, sample_library, StandIn("1")), runs))
    later = StandIn("1")
    for run, report in zip(runs, both, strict=True):
        assert evaluate(run, sample_library, later).results == report.results
    assert not later.asked
