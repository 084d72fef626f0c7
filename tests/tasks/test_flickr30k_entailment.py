"""Entail@K on Flickr30k: original links, and a file of labels for what else is retrieved."""

import pytest
from tiny_flickr import IMAGES, flickr_library, run_in_order

import cxc_eccv as ce

TASK = "flickr30k_entailment"


def test_entail_at_k_counts_original_and_entailed_captions(tmp_path):
    """The first image finds 0 (its own), 5 (entailed), 6 (not), 7 (unlabelled) first; the second two of its own."""
    library = flickr_library(tmp_path, [(IMAGES[0], 5, 1), (IMAGES[0], 6, 0)])
    run = run_in_order([(0, 5, 6, 7), (5, 6, 0, 1), (10, 11, 12, 13)])
    report = ce.evaluate(run, TASK, metrics=["entail_at_1", "entail_at_2", "entail_at_4"], data_dir=library)
    found = report.scores
    assert found[f"{TASK}/i2t/entail_at_1"] == 1
    assert found[f"{TASK}/i2t/entail_at_2"] == 1
    assert found[f"{TASK}/i2t/entail_at_4"] == pytest.approx((2 / 4 + 2 / 4 + 1) / 3)
    assert report.results[-1].coverage == pytest.approx((3 + 2 + 4) / 12)


def test_original_links_stay_positive_despite_labels(tmp_path):
    """Labels that contradict them are counted."""
    library = flickr_library(tmp_path, [(IMAGES[0], 0, 0), (IMAGES[0], 5, 1)])
    report = ce.evaluate(
        run_in_order([(0,), (5,), (10,)]), TASK, metrics=["entail_at_1"], data_dir=library, split="test"
    )
    assert report.scores[f"{TASK}/i2t/entail_at_1"] == 1
    assert report.provenance.flickr30k_entailment_labels == {"pairs": 2, "against_original_links": 1}


def test_labels_of_other_images_or_sentences_are_counted(tmp_path):
    library = flickr_library(tmp_path, [(IMAGES[0], 5, 1), (IMAGES[0], 99, 1), (42, 3, 1)])
    report = ce.evaluate(run_in_order([(5,), (5,), (10,)]), TASK, metrics=["entail_at_1"], data_dir=library)
    assert report.scores[f"{TASK}/i2t/entail_at_1"] == 1
    said = report.provenance.flickr30k_entailment_labels
    assert (said["pairs"], list(said["left_out"].values())) == (1, [2])


def test_report_without_labels_has_four_depths(tmp_path):
    """The default report has 1, 5, 10 and 30; without a file only original captions are labelled."""
    report = ce.evaluate(run_in_order([(0,), (5,), (9,)]), TASK, data_dir=flickr_library(tmp_path), confidence=None)
    assert [row.metric for row in report.results] == [f"entail_at_{k}" for k in (1, 5, 10, 30)]
    assert report.scores[f"{TASK}/i2t/entail_at_1"] == pytest.approx(2 / 3)
    assert report.provenance.flickr30k_entailment_labels == {}
    shown = str(report)
    assert all(f"Entail@{k}" in shown for k in (1, 5, 10, 30))
