"""Labelled pairs, the report of a classifier on them, and which of them it was trained on."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import run_command
from label_files import write_label_file
from stand_in_classifier import StandInClassifier

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.labelled import SEEN_FILE, LabelledPairs, read_labelled, read_seen, record_seen
from cxc_eccv.studies.entailment.measures import choose_threshold, measure_classifier, measure_reliability
from cxc_eccv.studies.entailment.quality import measure_by_source, report_classifier
from cxc_eccv.studies.entailment.training_data import LABELLED_SCHEMA


@pytest.fixture(scope="module")
def library():
    return Library("sample")


@pytest.fixture(scope="module")
def pairs(library):
    return read_labelled("cxc/test", library)


@pytest.fixture(scope="module")
def said(pairs):
    noise = np.random.default_rng(0).normal(0, 1.2, pairs.labels.size)
    return 1 / (1 + np.exp(-1.5 * (np.asarray(pairs.table["rating"]) - 3 + noise)))


def test_labels_of_people_are_labelled_pairs(library, tmp_path):
    content = library.split("train")
    pairs = [(int(content.image_ids[0]), int(caption)) for caption in content.caption_ids[5:8]]
    write_label_file(tmp_path / "labels.parquet", library, pairs, [0, 1, 1], split="train")
    found = read_labelled(str(tmp_path / "labels.parquet"), library)
    assert found.table["caption_key"].to_pylist() == [f"coco/{caption}" for _, caption in pairs]
    assert found.table["hypothesis"].to_pylist() == content.captions["text"][5:8].to_pylist()
    assert found.table["premise"][0].as_py() == " ".join(map(str.strip, content.captions["text"][:5].to_pylist()))
    assert found.labels.tolist() == [0, 1, 1]


def test_parts_are_read_by_name_including_test(pairs, library):
    assert (pairs.name, pairs.table.schema) == ("cxc/test", LABELLED_SCHEMA)
    rated = library.split("test").ratings("sits")
    others = [row for row in rated.to_pylist() if row["sampling_method"] != "c2i_original"]
    assert pairs.labels.tolist() == [int(row["rating"] >= 3) for row in others]
    assert pairs.images.tolist() == [f"coco/{row['right_id']}" for row in others]
    with pytest.raises(UnknownName, match="did you mean 'cxc'"):
        read_labelled("cxcc/test", library)


JSONL = [
    {"image": "a.jpg", "premise": ["A dog. ", "It runs."], "hypothesis": "An animal.", "label": 1},
    {"image": "a.jpg", "premise": ["A dog. ", "It runs."], "hypothesis": "A cat.", "label": "contradiction"},
    {"image": "b.jpg", "image_id": 7, "premise": [], "hypothesis": "A cat.", "label": 0},
]


def test_users_jsonl_of_labels_is_read(tmp_path, library):
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, JSONL)))
    found = read_labelled(str(path), library)
    assert found.table.schema == LABELLED_SCHEMA
    assert found.table["premise"].to_pylist() == ["A dog. It runs.", "A dog. It runs.", ""]
    assert found.table["kind"].to_pylist() == ["multimodal", "multimodal", "visual"]
    assert found.labels.tolist() == [1, 0, 0]
    assert found.images.tolist() == ["image/a.jpg", "image/a.jpg", "coco/7"]


def test_table_needs_only_three_columns(tmp_path, pairs, library):
    """The columns are premise, hypothesis and label."""
    path = tmp_path / "pairs.parquet"
    pq.write_table(pairs.table, path)
    assert read_labelled(str(path), library).table.equals(pairs.table)
    pq.write_table(pa.table({"premise": ["a", "a", "b"], "hypothesis": ["b", "c", "d"], "label": [1, 0, 1]}), path)
    found = read_labelled(str(path), library)
    assert found.table.schema == LABELLED_SCHEMA
    assert found.images.tolist() == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"premise": ["a"], "label": [1]}, "hypothesis, label, and premise or image among them"),
        ({"hypothesis": ["a"], "label": [1]}, "hypothesis, label, and premise or image among them"),
        ({"premise": [""], "hypothesis": ["a"], "label": [1]}, "neither premise nor image"),
        ({"premise": ["a"], "hypothesis": [None], "label": [1]}, "row 0: found no hypothesis"),
        ({"premise": [], "hypothesis": [], "label": []}, "no labelled pair"),
        *(
            (
                {"premise": ["a"] * 2, "hypothesis": ["b"] * 2, "label": [1, label]},
                r"row 1, label: .*1 \(entailed\) or 0",
            )
            for label in (2, -1, None)
        ),
    ],
)
def test_table_without_labelled_pairs_is_refused(tmp_path, library, columns, message):
    types = {"premise": pa.string(), "hypothesis": pa.string(), "label": pa.int64()}
    table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
    pq.write_table(table, tmp_path / "pairs.parquet")
    with pytest.raises(MalformedSource, match=message):
        read_labelled(str(tmp_path / "pairs.parquet"), library)


def test_other_files_are_refused(tmp_path, library):
    with pytest.raises(SourceMissing, match=r"does not exist\. Give a file of labelled pairs"):
        read_labelled(str(tmp_path / "pairs.csv"), library)
    (tmp_path / "pairs.parquet").write_bytes(b"no table")
    with pytest.raises(MalformedSource, match="expected a table of labelled pairs"):
        read_labelled(str(tmp_path / "pairs.parquet"), library)
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, [JSONL[0], JSONL[1] | {"label": "yes"}])))
    with pytest.raises(MalformedSource, match="line 2"):
        read_labelled(str(tmp_path / "pairs.jsonl"), library)


def test_the_report_has_what_the_measures_say(pairs, said, library):
    report = report_classifier(pairs, said, library, model="mine", precision=0.9)
    threshold = choose_threshold(said, pairs.labels, precision=0.9)
    assert report.threshold == threshold
    assert report.rates == measure_classifier(pairs.labels, said, threshold, pairs.images)
    assert report.reliability == measure_reliability(pairs.labels, said)
    assert (report.n_pairs, report.n_positive, report.n_images) == (80, 36, len(set(pairs.images)))
    assert report.n_predicted == int((said >= threshold).sum())
    for row in report.precisions:
        lowest = choose_threshold(said, pairs.labels, precision=row.wanted)
        found = said >= lowest
        assert (row.threshold, row.found) == (lowest, int(found.sum()))
        assert row.precision == pytest.approx(pairs.labels[found].mean())
        assert row.precision >= row.wanted
        assert row.recall == pytest.approx(pairs.labels[found].sum() / 36)


def test_unreachable_precision_is_reported_or_refused(pairs, library):
    backwards = np.where(pairs.labels, 0.2, 0.8)
    report = report_classifier(pairs, backwards, library, model="backwards")
    assert [row.threshold for row in report.precisions] == [None] * 4
    assert [str(cell) for cell in report.tables()[1].rows[2]] == ["at least 90", "not reached", "—", "—"]
    with pytest.raises(InvalidOption, match=r"no threshold reaches a precision of 0\.9"):
        report_classifier(pairs, backwards, library, model="backwards", precision=0.9)


def test_probabilities_match_by_ids_or_order(pairs, said, tmp_path):
    ids = [
        [int(key.partition("/")[2]) for key in pairs.table[name].to_pylist()] for name in ("image_key", "caption_key")
    ]
    order = np.random.default_rng(1).permutation(said.size)
    by_ids = pa.table({"image_id": ids[0], "caption_id": ids[1], "probability": said}).take(pa.array(order))
    assert pairs.align(by_ids, tmp_path).tolist() == said.tolist()
    assert pairs.align(pa.table({"probability": said}), tmp_path).tolist() == said.tolist()
    mixed = pairs.table.append_column("probability", pa.array(said)).take(pa.array(order))
    for table, message in (
        (by_ids.slice(1), "has no probability for 1 of 80 pairs"),
        (pa.concat_tables([by_ids, by_ids.slice(3, 1)]), "row 80 repeats the pair of row 3; give every pair once"),
        (pa.table({"probability": said[1:]}), "has 79 probabilities, .* has 80 pairs"),
        (mixed, "the column image_key differs from that of"),
        (by_ids.rename_columns(["image_id", "caption", "probability"]), "column 'image_id': found .* and no column"),
        (by_ids.rename_columns(["iid", "cid", "probability"]), "column 'iid': found .* no column image_id and caption"),
    ):
        with pytest.raises(DataError, match=message):
            pairs.align(table, tmp_path)


def test_each_source_of_pairs_is_measured_alone():
    measures = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    random = np.random.default_rng(0)
    values = np.round(random.random(300), 2)
    labels = (random.random(300) < values**2).astype(int)
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


class FakeClassifier(StandInClassifier):
    """Says what the ratings of the pairs say."""

    name = "fake"
    fingerprint = "f" * 64
    threshold = 0.4

    def __init__(self, said, holds):
        self.said = said
        self.training_data = {"holds": holds, "sources": {"sick/train": {}}}

    def score_and_count(self, premises, images, hypotheses, **_options):
        return self.said, 0


def score(*arguments, **options):
    return run_command("entailment", "score", *arguments, "--data-dir", "sample", **options)


def test_score_command_writes_what_it_reads_again(pairs, said, tmp_path, monkeypatch):
    scoring = pytest.importorskip("cxc_eccv.studies.entailment.scoring", exc_type=ImportError)
    fake = FakeClassifier(said, {"coco/test": 39, "flickr30k/test": 1, "coco/val": 5})
    monkeypatch.setattr(scoring, "find_classifier", lambda *_, **__: fake)
    out = tmp_path / "report"
    printed, _ = score("cxc/test", "--model", "org/fake", "--output", out)
    assert "fake on cxc/test, 80 pairs of 45 images, 36 entailed" in printed
    assert "Threshold 0.4, the classifier's own" in printed
    assert "not recorded" not in printed
    content = json.loads((out / "report.json").read_text())
    assert content["cautions"] == [
        "Trained on test data: 39 pairs hold images, captions or words of coco/test and 1 pairs hold images, captions "
        "or words of flickr30k/test.",
        "Trained on val data: 5 pairs hold images, captions or words of coco/val.",
    ]
    assert "Trained on test data: 39 pairs" in printed
    assert content["kind"] == "entailment classifier 1"
    assert {name: content["provenance"][name] for name in ("fingerprint", "training_data", "left_out")} == {
        "fingerprint": fake.fingerprint,
        "training_data": fake.training_data,
        "left_out": {"pairs of an image with its own caption": 63},
    }
    expected = measure_classifier(pairs.labels, said, 0.4, pairs.images)
    assert [(row["name"], row["value"]) for row in content["rates"]] == [(rate.name, rate.value) for rate in expected]
    table = pq.read_table(out / "probabilities.parquet")
    assert table.drop_columns(["probability"]).equals(pairs.table)
    assert np.asarray(table["probability"]).tolist() == said.tolist()
    (tmp_path / "said.csv").write_text("\n".join(["probability", *map(repr, said.tolist())]) + "\n")
    for scores in (out / "probabilities.parquet", tmp_path / "said.csv"):
        printed, _ = score("cxc/test", "--model", scores, "--threshold", "0.4", "--output", tmp_path / "again")
        assert json.loads((tmp_path / "again/report.json").read_text())["rates"] == content["rates"]
        assert "may have seen val and test data" in printed
    score(out / "probabilities.parquet", "--model", out / "probabilities.parquet")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "'--model'"),
        (("--model", "b.csv", "--threshold", "0.5", "--precision", "0.9"), "give one of them"),
        (("--model", "none.csv"), "none.csv"),
        (("--model", "wrong.csv"), "no column probability"),
        (("--model", "text.csv"), "line 3, column 'probability'"),
        (("--model", "high.csv"), "high.csv, line 2, column 'probability': found '1.5'"),
        (("--model", "low.csv", "--threshold", "0.9"), "no pair reaches the threshold 0.9"),
    ],
)
def test_bad_input_ends_without_a_number(arguments, message, tmp_path):
    rows = {"text": ["0.5", "a half"], "high": ["1.5"] * 80, "low": ["0.25"] * 80}
    for name, cells in rows.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["probability", *cells]) + "\n")
    (tmp_path / "wrong.csv").write_text("score\n0.5\n")
    printed, errors = score("cxc/test", *arguments, status=2, cwd=tmp_path)
    assert message in errors
    assert not printed


def pairs_of(*rows):
    """A table of (premise, image key, hypothesis)."""
    given = dict(zip(("premise", "image_key", "hypothesis"), map(list, zip(*rows, strict=True)), strict=True))
    given |= {"label": [row % 2 for row in range(len(rows))]}
    columns = [pa.array(given.get(field.name, [None] * len(rows)), field.type) for field in LABELLED_SCHEMA]
    return pa.table(columns, schema=LABELLED_SCHEMA)


DOG = ("A dog runs. A brown dog.", "coco/7", "a dog")
CAT = ("", "coco/8", "A cat.")
SENTENCE = ("Two men talk.", None, "men talk")


def test_seen_pair_is_recognised_by_words_or_image(tmp_path):
    record_seen(tmp_path, pairs_of(DOG, SENTENCE), pairs_of(CAT, SENTENCE))
    asked = pairs_of(
        ("a dog runs, a brown dog", None, "A dog!"),
        ("other words", "coco/7", "a dog"),
        ("A dog runs. A brown dog.", "coco/7", "a cat"),
        ("", "coco/8", "a cat"),
        ("", "coco/9", "a cat"),
        ("two men talk", None, "Men talk."),
        ("", "coco/7", "men talk"),
    )
    found = read_seen(tmp_path / SEEN_FILE).among(asked)
    assert found["trained"].tolist() == [True, True, False, False, False, True, False]
    assert found["held_out"].tolist() == [False, False, False, True, False, False, False]


def test_continued_run_inherits_the_seen_pairs(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    first, second, third = folders = [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()
    record_seen(first, pairs_of(DOG), pairs_of(SENTENCE))
    seen = record_seen(second, pairs_of(CAT), pairs_of(CAT).slice(0, 0), str(first))
    assert seen.complete
    uses = seen.among(pairs_of(DOG, CAT, SENTENCE))
    assert [uses[name].tolist() for name in ("trained", "held_out")] == [[True, True, False], [False, False, True]]
    assert read_seen(second / SEEN_FILE).among(pairs_of(DOG, CAT))["trained"].all()
    (first / SEEN_FILE).unlink()
    assert not record_seen(third, pairs_of(CAT), pairs_of(SENTENCE), str(first)).complete
    assert not read_seen(third / SEEN_FILE).complete


def test_report_counts_the_pairs_trained_on(library, tmp_path):
    seen = record_seen(tmp_path, pairs_of(DOG), pairs_of(CAT))
    labelled = LabelledPairs("pairs.csv", pairs_of(DOG, CAT, SENTENCE, ("x", None, "y")), {})
    report = report_classifier(labelled, [0.1, 0.9, 0.2, 0.8], library, model="it", seen=seen)
    assert report.cautions[-1] == (
        "Of these 4 pairs the classifier was trained on 1, and its checkpoint, threshold and calibration were chosen "
        "on 1: expect lower numbers on other pairs."
    )
    assert seen.warn(pairs_of(SENTENCE)) == ()


def test_a_damaged_record_is_refused(tmp_path):
    path = tmp_path / SEEN_FILE
    path.write_bytes(b"PAR1 nothing")
    with pytest.raises(MalformedSource, match=SEEN_FILE):
        read_seen(path)
    pq.write_table(pa.table({"pair": [1]}), path)
    with pytest.raises(MalformedSource, match="columns pair, expected"):
        read_seen(path)
