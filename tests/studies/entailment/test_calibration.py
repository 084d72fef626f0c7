"""Calibration of judges on pairs of another split, and the file that carries it to an evaluation."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_command

import cxc_eccv as ce
from cxc_eccv.cli.user_tables import policy
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.runs import save_embeddings
from cxc_eccv.studies.entailment import answering
from cxc_eccv.studies.entailment.answerer import Announced, Answerer
from cxc_eccv.studies.entailment.calibration import fit, read_judge
from cxc_eccv.studies.entailment.judge import ClassifierJudge
from cxc_eccv.studies.entailment.labelled import read_labelled, record_seen
from cxc_eccv.studies.entailment.measures import measure_reliability
from cxc_eccv.studies.entailment.quality import measure_by_source


class Overconfident(Answerer):
    """Probabilities of a few values near 0 and 1."""

    name, fingerprint = "overconfident", "e" * 64

    def score_and_count(self, premises, images, hypotheses, **_options):
        pairs = zip(premises, hypotheses, strict=True)
        shares = [len(set(a.lower().split()) & set(b.lower().split())) for a, b in pairs]
        return np.array([1 / (1 + np.exp(6.0 - 2.0 * share)) for share in shares]), 0


@pytest.fixture
def announced(monkeypatch):
    """The answerer that every name but those of files stands for."""
    pytest.importorskip("torch", reason="torch is not installed")
    fake, usual = Overconfident(), answering.announce

    def announce(source, **options):
        return usual(source, **options) if str(source).endswith(".json") else Announced(fake.name, lambda: fake)

    monkeypatch.setattr(answering, "announce", announce)
    monkeypatch.setattr("cxc_eccv.studies.entailment.judge.announce", announce)
    return fake


SCORE = ("entailment", "score", "cxc/test", "--model", "any/model", "--data-dir", "sample", "--calibrate-on")


def noisy(count, seed=0):
    """Probabilities whose true chance is their square."""
    random = np.random.default_rng(seed)
    values = np.round(random.random(count), 2)
    return values, (random.random(count) < values**2).astype(int)


@pytest.mark.reference
def test_isotonic_calibration_is_that_of_scikit_learn():
    isotonic = pytest.importorskip("sklearn.isotonic", reason="scikit-learn is not installed").IsotonicRegression
    values, labels = noisy(1_000)
    expected = isotonic(out_of_bounds="clip", y_min=0, y_max=1).fit(values, labels)
    asked = np.concatenate([np.linspace(0, 1, 301), values])
    found = fit(values, labels, pairs="some", fingerprint="1")
    np.testing.assert_allclose(found(asked), expected.predict(asked), atol=1e-12)
    assert len(found.x) < 60  # knots alone


@pytest.mark.parametrize(("count", "method"), [(999, "platt"), (1_000, "isotonic")])
def test_calibration_lowers_the_error_on_other_pairs(count, method):
    calibration = fit(*noisy(count), pairs="some", fingerprint="1")
    values, labels = noisy(4_000, seed=1)
    before, after = (measure_reliability(labels, part).expected_error for part in (values, calibration(values)))
    assert calibration.method == method
    assert calibration.error_before == pytest.approx(before, abs=0.03)
    assert after < before / 3
    assert (np.diff(calibration(np.linspace(0, 1, 50))) >= 0).all()


@pytest.mark.parametrize("count", [40, 1_000])
def test_pairs_that_cannot_calibrate_are_refused(count):
    values = np.linspace(0, 1, count)
    for labels in (np.ones(count), values < 0.5):
        with pytest.raises(DataError, match="calibration"):
            fit(values, labels.astype(int), pairs="some", fingerprint="1")


def test_each_source_of_pairs_is_measured_alone():
    measures = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    values, labels = noisy(300)
    sources = np.where(np.arange(300) < 100, "random", "near")
    rows = measure_by_source(sources.tolist(), labels, values, 0.6)
    assert [(row.source, row.pairs) for row in rows] == [("all", 300), ("near", 200), ("random", 100)]
    for row, part in zip(rows, (slice(None), slice(100, None), slice(100)), strict=True):
        kappa = measures.cohen_kappa_score(labels[part], values[part] >= 0.6)
        assert row.auc == pytest.approx(measures.roc_auc_score(labels[part], values[part]), abs=1e-12)
        assert (row.positive, row.kappa) == (labels[part].sum(), pytest.approx(kappa, abs=1e-12))
        assert row.calibration_error == measure_reliability(labels[part], values[part]).expected_error
    alone = measure_by_source(["random"] * 5, np.zeros(5, dtype=int), np.zeros(5), 0.5)
    assert (alone[0].auc, alone[0].kappa, alone[0].calibration_error) == (None, None, None)


def test_score_calibrates_on_another_split_and_evaluate_uses_it(announced, tmp_path, sample_library, make_run):
    out = tmp_path / "out"
    printed, _ = run_command(*SCORE, "cxc/val", "--output", out)
    assert "By source of the pairs" in printed
    content = json.loads((out / "judge.json").read_text())
    labelled, others = (read_labelled(name, sample_library) for name in ("cxc/test", "cxc/val"))
    raw = ClassifierJudge(announced, progress=False)
    asked = raw.score(*others.ask(announced, None).part(slice(None)))
    expected = fit(asked, others.labels, pairs="cxc/val", fingerprint="e" * 64)
    assert content["calibration"]["x"] == list(expected.x)
    assert content["judge"] == "any/model"
    values = expected(raw.score(*labelled.ask(announced, None).part(slice(None))))
    error = measure_reliability(labelled.labels, values).expected_error
    assert content["measured"]["calibration_error"] == pytest.approx(error)
    assert json.loads((out / "report.json").read_text())["provenance"]["calibration"]["pairs"] == "cxc/val"
    judge = policy(str(out / "judge.json"))
    options = {"data_dir": sample_library, "unjudged": judge, "confidence": None}
    report = ce.evaluate(make_run(sample_library), "entailment", **options)
    facts = report.provenance["unjudged"]["calibration"]
    assert (facts["pairs"], facts["measured"]["on"]) == ("cxc/val", "cxc/test")
    captions = sample_library.captions("test")[:30].select(["image_id", "caption_id"])
    found = judge.on(sample_library, "test").judge_pairs(captions)["probability"]
    plain = raw.on(sample_library, "test").judge_pairs(captions)["probability"]
    np.testing.assert_allclose(found, expected(plain))


def test_calibration_on_the_measured_images_or_seen_pairs_is_refused(announced, tmp_path, sample_library):
    assert "calibrate on pairs of another split" in " ".join(run_command(*SCORE, "cxc/test", status=2)[1].split())
    others = read_labelled("cxc/val", sample_library)
    record_seen(tmp_path, others.table.slice(0, 5), others.table.slice(5, 2))
    announced.source = str(tmp_path)
    assert "was trained on 5 of" in " ".join(run_command(*SCORE, "cxc/val", status=2)[1].split())


def test_a_calibration_of_another_judge_and_a_broken_file_are_refused(announced, tmp_path):
    found = fit(*noisy(100), pairs="some", fingerprint="another")
    content = {"judge": "any/model", "calibration": {name: getattr(found, name) for name in found.__slots__}}
    path = tmp_path / "judge.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidOption, match="fitted on other answers than those of overconfident"):
        ClassifierJudge(path, progress=False).score(["a"], None, ["b"])
    for change, message in (
        ({"judge": 3}, "judge"),
        ({"threshold": "high"}, "threshold"),
        ({"calibration": {"method": "platt"}}, "calibration"),
        ({"calibration": content["calibration"] | {"x": [-1.0]}}, "no rising map"),
    ):
        path.write_text(json.dumps(content | change))
        with pytest.raises(MalformedSource, match=message):
            read_judge(path)


def test_a_file_of_probabilities_judges_as_labels_do(tmp_path, sample_library, make_run):
    content = sample_library.karpathy("test")
    images, captions = (part.ravel() for part in np.meshgrid(content.image_ids, content.caption_ids, indexing="ij"))
    values = np.random.default_rng(0).random(images.size)
    ids = {"image_id": images, "caption_id": captions}

    def evaluate(**options):
        run, unjudged = make_run(sample_library), pa.table(ids | options.pop("column", {}))
        return ce.evaluate(run, "entailment", data_dir=sample_library, unjudged=unjudged, **options)

    judged = evaluate(column={"probability": values}, bounds=True)
    assert judged.scores == evaluate(column={"label": (values >= 0.5).astype(int)}).scores
    assert all(row.bounds.low <= row.bounds.expected <= row.bounds.high for row in judged.results)
    with pytest.raises(DataError, match="no label or probability among the columns"):
        evaluate()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_listed_pairs_with_probabilities_are_all_that_an_evaluation_asks_for(form, tmp_path, sample_library, make_run):
    for seed in (0, 1):
        save_embeddings(tmp_path / f"{seed}.npz", make_run(sample_library, seed=seed))
    path = tmp_path / f"pairs.{form}"
    files = tmp_path / "0.npz", tmp_path / "1.npz"
    run_command("entailment", "pairs", *files, "--output", path, "--data-dir", "sample")
    table = policy(str(path))
    count = table.num_rows
    texts = sample_library.karpathy("test").texts_of(table["caption_id"].to_numpy())
    assert table["caption"].to_pylist() == texts.to_pylist()
    judged = table.append_column("probability", pa.array(np.random.default_rng(0).random(count)))
    report = ce.evaluate(make_run(sample_library, seed=1), "entailment", data_dir=sample_library, unjudged=judged)
    assert report.scores
    with pytest.raises(DataError, match=r"probabilities lack \d+ of \d+ retrieved pairs"):
        ce.evaluate(make_run(sample_library), "entailment", data_dir=sample_library, unjudged=judged[: count // 2])


def test_pairs_listed_for_a_number_are_all_that_its_expected_value_asks_for(tmp_path, sample_library, make_run):
    run, key = make_run(sample_library), "coco_5k/t2i/recall_at_5"
    save_embeddings(tmp_path / "0.npz", run)
    path = tmp_path / "pairs.parquet"
    run_command("entailment", "pairs", tmp_path / "0.npz", "--for", key, "--output", path, "--data-dir", "sample")
    table = pq.read_table(path)
    table = table.append_column("probability", pa.array(np.full(table.num_rows, 0.5)))
    options = {"metrics": ["recall_at_5"], "data_dir": sample_library, "bounds": True}
    report = ce.evaluate(run, "coco_5k/t2i", probabilities=table, **options)
    assert report.results[0].bounds.expected > report.scores[key]
    with pytest.raises(DataError, match="probabilities lack 1 of"):
        ce.evaluate(run, "coco_5k/t2i", probabilities=table[1:], **options)
