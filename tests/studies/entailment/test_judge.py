"""A classifier as the judge of pairs without a label: what it is asked, and what a report says of it."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_command
from stand_in_classifier import StandInClassifier
from tiny_flickr import IMAGES, flickr_library, run_in_order

import cxc_eccv as ce
from cxc_eccv.cli.user_tables import load_judge
from cxc_eccv.comparison import ScoredReport
from cxc_eccv.comparison.pairing import check_comparable
from cxc_eccv.errors import DataError, InvalidOption, SourceMissing
from cxc_eccv.registry import task
from cxc_eccv.runs import save_embeddings
from cxc_eccv.sources.download import image_folder
from cxc_eccv.studies.entailment.judge import ClassifierJudge


class StandIn(StandInClassifier):
    """Entailed with probability 0.75 where the hypothesis has an even number of letters, else 0.25."""

    context = 10_000

    def __init__(self, fingerprint, *, visual=False, training_data=None, threshold=0.5):
        self.name = "org/stand-in"
        self.fingerprint = fingerprint
        self.threshold = threshold
        self.has_visual = visual
        self.training_data = training_data
        self.asked = []
        self.images = []

    def score_and_count(self, premises, images, hypotheses, **_options):
        self.asked += zip(premises, hypotheses, strict=True)
        self.images += images or []
        cut = sum(len(premise) > self.context for premise in premises)
        return np.where([len(text) % 2 == 0 for text in hypotheses], 0.75, 0.25), cut


def evaluate(run, library, classifier, tasks="entailment", **options):
    judge = ClassifierJudge(classifier, progress=False, **options)
    return ce.evaluate(run, tasks, data_dir=library, judge=judge, confidence=None, per_query=True)


def texts_of(library):
    content = library.split("test")
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    premises = {}
    for caption, image in zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True):
        premises.setdefault(image, []).append(texts[caption].strip())
    return {image: " ".join(own) for image, own in premises.items()}, texts


def test_unlabelled_retrieved_pairs_are_asked_once(sample_library, make_run):
    """By loops: the top 30 of every image, each unlabelled pair by the stand-in, others by their label."""
    run = make_run(sample_library)
    asked = StandIn("1")
    report = evaluate(run, sample_library, asked)
    judged = task("entailment").judgments(sample_library.split("test"), "i2t")
    labels = dict(
        zip(
            zip(judged.query_ids[judged.rows].tolist(), judged.gallery_ids[judged.indices].tolist(), strict=True),
            judged.gains.tolist(),
            strict=True,
        )
    )
    premises, texts = texts_of(sample_library)
    cosines = run.images.vectors @ (run.captions.vectors / np.linalg.norm(run.captions.vectors, axis=1)[:, None]).T
    values = {k: [] for k in (1, 5, 10, 30)}
    pairs = []
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
    assert report.provenance.unjudged.pairs == {"entailment/i2t": len(pairs)}


def test_report_names_the_judge_and_its_training_data(sample_library, make_run, tmp_path):
    data = {"holds": {"coco/val": 120}, "trained_on_test": False, "trained_on_val": True}
    report = evaluate(make_run(sample_library), sample_library, StandIn("f" * 64, training_data=data, threshold=0.75))
    said = report.provenance.unjudged
    assert {name: getattr(said, name) for name in ("model", "fingerprint", "threshold", "looks_at", "trained_on")} == {
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
    assert "it may have seen val and test data" in untold.provenance.unjudged.cautions[0]


def test_a_threshold_is_reached_by_what_equals_it(sample_library, make_run):
    run = make_run(sample_library)
    at, above = (
        evaluate(run, sample_library, StandIn("1", threshold=threshold)).scores["entailment/i2t/entail_at_10"]
        for threshold in (0.75, np.nextafter(0.75, 1))
    )
    nothing = ce.evaluate(run, "entailment", data_dir=sample_library).scores["entailment/i2t/entail_at_10"]
    assert at > above == nothing


def test_a_judge_asks_no_pair_twice(sample_library, make_run):
    first = make_run(sample_library)
    second = make_run(sample_library, seed=1)
    asked = StandIn("1")
    other = StandIn("1")
    judge = ClassifierJudge(asked, progress=False)
    options = {"data_dir": sample_library, "judge": judge, "confidence": None}
    reports = [ce.evaluate(run, "entailment", bounds=True, **options) for run in (first, second, first)]
    assert len(asked.asked) == len(set(asked.asked)) > 0
    assert reports[0].results == reports[2].results
    evaluate(second, sample_library, other)
    assert set(other.asked) < set(asked.asked)


def test_classifier_reading_images_gets_their_files(sample_library, make_run, tmp_path):
    with pytest.raises(InvalidOption, match=r"org/stand-in looks at images: give their folder \(--images\)"):
        ClassifierJudge(StandIn("1", visual=True))
    folder = tmp_path / "images"
    shutil.copytree(image_folder("sample"), folder)
    first = StandIn("1", visual=True)
    run = make_run(sample_library)
    report = evaluate(run, sample_library, first, images=folder)
    assert report.provenance.unjudged.looks_at == "captions and image"
    assert len(first.images) == len(first.asked)
    assert {path.parent for path in first.images} == {folder}
    first.images[0].unlink()
    with pytest.raises(SourceMissing, match=f"of the .* photographs found in .*missing one is {first.images[0].name}"):
        evaluate(run, sample_library, StandIn("1", visual=True), images=folder)


def test_flickr30k_is_judged_with_its_own_captions(tmp_path):
    library = flickr_library(tmp_path / "data", [(IMAGES[0], 5, 0)])
    asked = StandIn("1")
    report = evaluate(run_in_order([(0, 5, 10), (5,), (10,)]), library, asked, tasks="flickr30k_entailment")
    assert report.provenance.unjudged.pairs == {"flickr30k_entailment/i2t": 3 * 10 - 1}
    assert {premise for premise, _ in asked.asked} == {
        " ".join(f"a thing {number}" for number in range(start, start + 5)) for start in (0, 5, 10)
    }
    # "a thing 10" has ten letters; the label of the file, 0, decides on "a thing 5".
    assert report.scores["flickr30k_entailment/i2t/entail_at_1"] == 1
    values = report.per_query.to_pylist()
    (first,) = [row["value"] for row in values if row["query_id"] == IMAGES[0] and row["metric"] == "entail_at_5"]
    assert 0 < first < 1


def test_probabilities_of_pairs(sample_library):
    judge = ClassifierJudge(StandIn("1"), progress=False).for_split(sample_library.split("test"))
    content = sample_library.split("test")
    rows = np.append(np.arange(40), [3, 4])
    images = content.caption_image_ids[rows]
    captions = content.caption_ids[rows]
    texts = content.texts_of(captions).to_pylist()
    expected = [0.75 if len(text) % 2 == 0 else 0.25 for text in texts]
    assert judge.probabilities(images, captions).tolist() == expected
    assert judge.probabilities(images[:0], captions[:0]).size == 0
    for name, pair in (("image 5", (np.array([5]), captions[:1])), ("caption 6", (images[:1], np.array([6])))):
        with pytest.raises(DataError, match=f"{name} is not in the test split of COCO"):
            judge.probabilities(*pair)


def test_models_judged_by_different_classifiers_are_not_compared(sample_library, make_run):
    run = make_run(sample_library)
    one, two, same = (ScoredReport.of(name, evaluate(run, sample_library, StandIn(name))) for name in ("1", "2", "1"))
    check_comparable(one, same)
    with pytest.raises(InvalidOption, match="the judge of pairs without a label is"):
        check_comparable(one, two)


def test_a_file_of_probabilities_judges_as_labels_do(tmp_path, sample_library, make_run):
    content = sample_library.split("test")
    images, captions = (part.ravel() for part in np.meshgrid(content.image_ids, content.caption_ids, indexing="ij"))
    values = np.random.default_rng(0).random(images.size)
    ids = {"image_id": images, "caption_id": captions}

    def evaluate(**options):
        run = make_run(sample_library)
        judge = pa.table(ids | options.pop("column", {}))
        return ce.evaluate(run, "entailment", data_dir=sample_library, judge=judge, **options)

    judged = evaluate(column={"probability": values}, bounds=True)
    assert judged.scores == evaluate(column={"label": (values >= 0.5).astype(int)}).scores
    assert all(row.bounds.low <= row.bounds.expected <= row.bounds.high for row in judged.results)
    with pytest.raises(DataError, match="no label or probability among the columns"):
        evaluate()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_listed_pairs_suffice_for_an_evaluation(form, tmp_path, sample_library, make_run):
    for seed in (0, 1):
        save_embeddings(tmp_path / f"{seed}.npz", make_run(sample_library, seed=seed))
    path = tmp_path / f"pairs.{form}"
    files = tmp_path / "0.npz", tmp_path / "1.npz"
    run_command("entailment", "pairs", *files, "--output", path, "--data-dir", "sample")
    table = load_judge(str(path))
    count = table.num_rows
    texts = sample_library.split("test").texts_of(table["caption_id"].to_numpy())
    assert table["caption"].to_pylist() == texts.to_pylist()
    judged = table.append_column("probability", pa.array(np.random.default_rng(0).random(count)))
    report = ce.evaluate(make_run(sample_library, seed=1), "entailment", data_dir=sample_library, judge=judged)
    assert report.scores
    with pytest.raises(DataError, match=r"probabilities lack \d+ of \d+ retrieved pairs"):
        ce.evaluate(make_run(sample_library), "entailment", data_dir=sample_library, judge=judged[: count // 2])


def test_pairs_listed_for_a_number_suffice(tmp_path, sample_library, make_run):
    """The expected value of the number asks for no other pairs."""
    run = make_run(sample_library)
    key = "coco_5k/t2i/recall_at_5"
    save_embeddings(tmp_path / "0.npz", run)
    path = tmp_path / "pairs.parquet"
    run_command("entailment", "pairs", tmp_path / "0.npz", "--number", key, "--output", path, "--data-dir", "sample")
    table = pq.read_table(path)
    table = table.append_column("probability", pa.array(np.full(table.num_rows, 0.5)))
    options = {"metrics": ["recall_at_5"], "data_dir": sample_library, "bounds": True}
    report = ce.evaluate(run, "coco_5k/t2i", judge=table, **options)
    assert report.results[0].bounds.expected > report.scores[key]
    with pytest.raises(DataError, match="probabilities lack 1 of"):
        ce.evaluate(run, "coco_5k/t2i", judge=table[1:], **options)
