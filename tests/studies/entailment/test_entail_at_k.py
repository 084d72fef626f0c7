"""Entail@K judged by hand, and the mean over COCO and Flickr30k."""

import json

import numpy as np
import pyarrow as pa
import pytest
from answer_tables import read_rows, write_rows
from command_line import run_command
from tiny_flickr import IMAGES, flickr_library, run_in_order
from tiny_world import TinyWorld

import cxc_eccv as ce
from cxc_eccv.comparison import ScoredReport
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, MissingIds, RunTooShallow
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun, RankingsRun
from cxc_eccv.studies.entailment.by_hand import ASKED, export_pairs, score_answers
from cxc_eccv.studies.entailment.mean_scores import mean_entailment
from cxc_eccv.types import Embeddings, Result
from cxc_eccv.types.provenance import Provenance


@pytest.fixture
def runs(sample_library, make_run):
    return {name: make_run(sample_library, seed=seed) for seed, name in enumerate(("a", "b"))}


def export(runs, folder, library, **options):
    """The exported questions."""
    given = {"images": "images/{file_name}", "sample": 3, "data_dir": library, "form": "jsonl"} | options
    return export_pairs(runs, folder, **given)[0]


def fill(path, entailed, worker="ann"):
    """A person's copy beside the questions, answered by a function of image and caption."""
    rows = []
    for row in read_rows(path):
        both = bool(entailed(row["image_id"], row["caption_id"]))
        rows.append(row | {"answer": {"describes": both, "follows": both}, "worker": worker})
    return write_rows(path.with_name(f"{worker}.jsonl"), rows)


def about_of(path):
    return json.loads(path.with_name(ASKED).read_text())


def test_every_pair_is_asked_once_in_random_order(tmp_path, runs, sample_library):
    files = [
        export(runs, tmp_path / str(number), sample_library, sample=7, seed=seed, ask_known=True)
        for number, seed in enumerate((0, 0, 1))
    ]
    rows, again, other = (read_rows(file) for file in files)
    about = about_of(files[0])
    asked = [(row["image_id"], row["caption_id"]) for row in rows]
    expected = set()
    for run in runs.values():
        scores = run.images.vectors @ run.captions.vectors.T / np.linalg.norm(run.captions.vectors, axis=1)
        for place, image in enumerate(run.images.ids.tolist()):
            if image in about["images"]:
                top = run.captions.ids[np.argsort(-scores[place])[:10]].tolist()
                expected |= {(image, caption) for caption in top}
    assert len(about["images"]) == 7
    assert len(asked) == len(set(asked)) == len({row["pair_id"] for row in rows})
    assert set(asked) == expected
    assert rows == again
    assert {row["image_id"] for row in rows} != {row["image_id"] for row in other}
    lists = zip(about["images"], about["models"][0]["captions"], strict=True)
    in_order = [(image, caption) for image, captions in lists for caption in captions]
    assert [pair for pair in asked if pair in set(in_order)] != in_order


@pytest.mark.parametrize("ask_known", [False, True])
def test_values_are_those_of_a_slow_loop(tmp_path, runs, sample_library, ask_known):
    path = export(runs, tmp_path, sample_library, sample=9, ask_known=ask_known)
    answered = fill(path, lambda _, caption: caption % 2)
    scores = score_answers(answered, data_dir=sample_library)
    content = sample_library.split("test")
    about = about_of(path)
    owner = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    asked = {(row["image_id"], row["caption_id"]) for row in read_rows(path)}
    own = {(image, caption) for image, caption in asked if owner[caption] == image}
    assert bool(own) is ask_known
    rows = sample_library.split("test").entailment().table.to_pylist() if not ask_known else []
    known = {(row["image_id"], row["caption_id"]): row["label"] for row in rows}
    for model in about["models"]:
        values = [
            np.mean([owner[caption] == image or known.get((image, caption), caption % 2) for caption in captions])
            for image, captions in zip(about["images"], model["captions"], strict=True)
        ]
        result = scores.results[model["name"]]
        assert result.value == pytest.approx(np.mean(values), abs=1e-12)
        assert result.low <= result.value <= result.high
        assert (result.n_queries, result.coverage) == (9, 1)
    assert scores.provenance.others["against_original_links"] == sum(caption % 2 == 0 for _, caption in own)


def test_the_majority_of_several_people_decides(tmp_path, runs, sample_library):
    path = export(runs, tmp_path, sample_library, sample=5)
    says = {"ann": lambda *_: True, "ben": lambda _, caption: caption % 2, "cleo": lambda *_: False}
    files = [fill(path, say, worker) for worker, say in says.items()]
    three = score_answers(files, data_dir=sample_library)
    assert three.results == score_answers(files[1], data_dir=sample_library).results
    assert three.provenance.others["people"] == 3


def test_answer_overrides_ratings_and_known_pairs_are_skipped(tmp_path):
    """21 is rated 3 with image 1 and answered 0; 31 was labelled 0; 11 is the own caption; asked about all, 31 is 1."""
    world = TinyWorld(tmp_path / "world")
    world.folder.mkdir()
    library = world.write()
    run = RankingsRun.from_dicts({1: [21, 31, 11, 12, 22, 32]})
    path = export({"one": run}, tmp_path / "some", library, sample=1, depth=3)
    assert [row["caption_id"] for row in read_rows(path)] == [21]
    scores = score_answers(fill(path, lambda *_: False), data_dir=library)
    assert scores.results["one"].value == pytest.approx(1 / 3)
    assert scores.provenance.others["against_derived_labels"] == 1
    path = export({"one": run}, tmp_path / "all", library, sample=1, depth=3, ask_known=True)
    assert {row["caption_id"] for row in read_rows(path)} == {11, 21, 31}
    scores = score_answers(fill(path, lambda _, caption: caption == 31), data_dir=library)
    assert scores.results["one"].value == pytest.approx(2 / 3)
    assert scores.provenance.others["against_original_links"] == 1
    assert scores.provenance.others["against_derived_labels"] == 1


def test_flickr30k_answers_are_also_a_label_file(tmp_path):
    """The answers, put into the mirror folder, give the same number as Entail@K of the whole report."""
    library = flickr_library(tmp_path / "first", [(IMAGES[0], 5, 1)])
    run = run_in_order([(0, 5, 6), (7, 8, 0), (10, 1, 2)])
    path = export({"mine": run}, tmp_path / "asked", library, sample=3, depth=3)
    scores = score_answers(fill(path, lambda _, caption: caption == 6), data_dir=library)
    assert scores.results["mine"].value == pytest.approx((3 / 3 + 2 / 3 + 1 / 3) / 3)
    assert scores.results["mine"].key == "flickr30k_entailment/i2t/entail_at_3"
    second = flickr_library(tmp_path / "second")
    (tmp_path / "second/entailment").mkdir()
    scores.save_labels(tmp_path / "second/entailment/entailment_f30k_test.jsonl")
    report = ce.evaluate(run, "flickr30k_entailment", metrics=["entail_at_3"], data_dir=second)
    assert report.results[0].value == pytest.approx(scores.results["mine"].value)
    assert report.results[0].coverage == 1
    with pytest.raises(InvalidOption, match="COCO does not host the images of Flickr30k"):
        export({"mine": run}, tmp_path / "coco", library, sample=3, depth=3, images="coco")


def test_missing_row_gives_no_number(tmp_path, runs, sample_library):
    path = fill(export(runs, tmp_path, sample_library, ask_known=True), lambda *_: True)
    write_rows(path, read_rows(path)[1:])
    with pytest.raises(MalformedSource, match=r"pairs, without coco-.*put missing rows back"):
        score_answers(path, data_dir=sample_library)


def test_answers_need_their_export(tmp_path, runs, sample_library):
    """An export is never overwritten, as answers may belong to it."""
    path = fill(export(runs, tmp_path, sample_library), lambda *_: True)
    world = TinyWorld(tmp_path / "world")
    world.folder.mkdir()
    with pytest.raises(DataError, match="exported from the edition 'sample' of the data, and this is"):
        score_answers(path, data_dir=world.write())
    with pytest.raises(InvalidOption, match="exists, and answers may belong to it"):
        export(runs, tmp_path, sample_library)
    path.with_name(ASKED).unlink()
    with pytest.raises(DataError, match=r"asked\.json is missing\. It records the export"):
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
        (lambda about: {"models": about["models"][:1] * 2}, "model 'a': .* a unique name"),
        (lambda about: {"models": [about["models"][0] | {"name": ["a"]}]}, r"models\[0\], name: found"),
        (lambda about: {"models": [about["models"][0] | {"captions": [[1, 2], [3], [4]]}]}, "10 captions for each"),
        (lambda about: {"models": [about["models"][0] | {"captions": [["x"] * 10] * 3}]}, "found 'x'"),
    ],
)
def test_damaged_export_record_gives_no_number(tmp_path, runs, sample_library, changed, message):
    path = fill(export(runs, tmp_path, sample_library), lambda *_: True)
    about = about_of(path)
    path.with_name(ASKED).write_text(json.dumps(about | changed(about)))
    with pytest.raises(MalformedSource, match=message):
        score_answers(path, data_dir=sample_library)


def test_what_cannot_be_exported(tmp_path, runs, sample_library):
    content = sample_library.split("test")
    images = content.image_ids
    captions = content.caption_ids
    few = EmbeddingsRun(Embeddings(images[:5], np.eye(5)), Embeddings(captions, np.ones((captions.size, 5))))
    lacking = EmbeddingsRun(Embeddings(images, np.ones((60, 2))), Embeddings(captions[:9], np.ones((9, 2))))
    short = RankingsRun.from_dicts({image: captions[:9].tolist() for image in images.tolist()})
    texts = EmbeddingsRun(None, Embeddings(captions, np.ones((captions.size, 2))))
    for given, error, message in (
        ({}, InvalidOption, "no run to export"),
        (runs | {"few": few}, InvalidOption, "only 5 images of the split are in every run, fewer than 7"),
        ({"lacking": lacking}, MissingIds, "captions"),
        ({"short": short}, RunTooShallow, "9"),
        ({"texts": texts}, InvalidOption, "texts ranks no captions for images: the run has no images"),
    ):
        with pytest.raises(error, match=message):
            export(given, tmp_path / "asked", sample_library, sample=7)
    with pytest.raises(InvalidOption, match=r"depth 301 \(--depth\): the split has only 300 captions"):
        export(runs, tmp_path / "asked", sample_library, sample=7, depth=301)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def reports(sample_library, make_run, tmp_path):
    """What evaluate gives of a model's two files, under any options."""
    flickr = flickr_library(tmp_path / "data")
    on_flickr = run_in_order([(0,), (5, 9), (1,)])

    def evaluate_both(**options):
        given = (make_run(sample_library), "entailment", sample_library), (on_flickr, "flickr30k_entailment", flickr)
        return [ce.evaluate(run, task, data_dir=data, per_query=True, **options) for run, task, data in given]

    return evaluate_both


def scored(pair):
    return [ScoredReport.of(name, report) for name, report in zip(("coco", "f30k"), pair, strict=True)]


def test_each_collection_counts_half(reports):
    coco, flickr = reports()
    found = mean_entailment(scored((coco, flickr)), name="mine")
    means = {row.metric: row for row in found.results if row.task == "entailment_mean"}
    assert list(means) == [f"entail_at_{k}" for k in (1, 5, 10, 30)]
    for metric, row in means.items():
        both = coco.scores[f"entailment/i2t/{metric}"], flickr.scores[f"flickr30k_entailment/i2t/{metric}"]
        assert row.value == pytest.approx(sum(both) / 2, abs=1e-15)
        assert row.low <= row.value <= row.high
        assert row.parameters["unjudged"] == "not_entailed"
    reversed_order = mean_entailment(scored((coco, flickr))[::-1], name="mine")
    assert reversed_order.results == found.results


def test_judged_mean_says_what_its_interval_omits(reports):
    judged = mean_entailment(scored(reports(judge=lambda images, captions: captions % 2)))
    assert any("interval over images only; the judge's precision" in text for text in judged.tables()[0].cautions)
    assert not mean_entailment(scored(reports())).tables()[0].cautions


def test_each_collection_has_draws_of_its_own():
    """Equal values of both: the mean of two independent draws spreads 1 / sqrt(2) as wide as one of them."""
    values = np.arange(200) % 2
    queries = np.arange(200)

    def report(task):
        row = Result(task, "i2t", "entail_at_1", 0.5, 200, parameters={"k": 1})
        columns = {"task": [task] * 200, "direction": ["i2t"] * 200, "metric": ["entail_at_1"] * 200}
        columns |= {"value": values.astype(float), "cluster": queries, "fold": pa.nulls(200, pa.int64())}
        table = pa.table({"query_id": queries, **columns})
        return ScoredReport.of(task, Report((row,), {}, Provenance(split="test"), table))

    found = mean_entailment([report("entailment"), report("flickr30k_entailment")]).results[-1]
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / np.sqrt(2 * 200), rel=0.1)


def test_mismatched_reports_have_no_mean(reports):
    coco, flickr = reports()
    for pair, message in (
        ((coco, coco), "coco and f30k|give one report with the task|f30k has entailment"),
        ((coco, reports(unjudged="leave_out")[1]), "the policy for pairs without a label is not_entailed for"),
    ):
        with pytest.raises(InvalidOption, match=message):
            mean_entailment(scored(pair))
    with pytest.raises(InvalidOption, match="no report has the task flickr30k_entailment"):
        mean_entailment(scored((coco, flickr))[:1])


def test_mean_command_prints_collections_and_mean(reports, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name, report in zip(("coco", "f30k"), reports(), strict=True):
        report.save(tmp_path / name)
    file = tmp_path / "mean.json"
    command = ("entailment", "mean", tmp_path / "coco")
    printed, _ = run_command(*command, tmp_path / "f30k", "--name", "mine", "--output", file)
    assert all(word in printed for word in ("mine", "COCO", "Flickr30k", "mean", "Entail@30", "not entailed"))
    (model,) = json.loads(file.read_text())["models"]
    assert [row["key"] for row in model["results"]][-1] == "entailment_mean/i2t/entail_at_30"
    assert "reports given: 1. Give two reports for each model" in run_command(*command, status=2)[1]
