"""Which pairs a classifier was trained on: found again by words or by image, and kept through runs that go on."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.labelled import SEEN_FILE, LabelledPairs, read_seen, record_seen
from cxc_eccv.studies.entailment.quality import report_classifier
from cxc_eccv.studies.entailment.training_data import SCHEMA


def pairs_of(*rows):
    """A table of (premise, image key, hypothesis)."""
    given = dict(zip(("premise", "image_key", "hypothesis"), map(list, zip(*rows, strict=True)), strict=True))
    given |= {"label": [row % 2 for row in range(len(rows))]}
    columns = [pa.array(given.get(field.name, [None] * len(rows)), field.type) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA)


DOG, CAT = ("A dog runs. A brown dog.", "coco/7", "a dog"), ("", "coco/8", "A cat.")
SENTENCE = ("Two men talk.", None, "men talk")


def test_a_pair_is_found_again_by_its_words_or_by_its_image(tmp_path):
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


def test_a_run_that_goes_on_has_seen_what_the_one_before_saw(tmp_path):
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


def test_a_report_says_how_many_of_its_pairs_were_trained_on(tmp_path):
    seen = record_seen(tmp_path, pairs_of(DOG), pairs_of(CAT))
    labelled = LabelledPairs("pairs.csv", pairs_of(DOG, CAT, SENTENCE, ("x", None, "y")), {})
    report = report_classifier(labelled, [0.1, 0.9, 0.2, 0.8], Library("sample"), model="it", seen=seen)
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
