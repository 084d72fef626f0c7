"""Keyword matching before people rate failures, against plain loops over the words of the sample's captions."""

import re

import numpy as np
import pytest
from answer_tables import read_rows
from report_samples import near_run

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.explain.concepts import load_concepts
from cxc_eccv.studies.explain.explanation import explain_run
from cxc_eccv.studies.explain.exported_failures import export_failures, keep_matched
from cxc_eccv.studies.explain.failure_report import join_tables

SHAPES = {"square", "star", "heart", "circle", "cross", "triangle"}


@pytest.fixture(scope="module")
def explained(sample_library, wordnet_folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NLTK_DATA", wordnet_folder)
        split = sample_library.split()
        return join_tables([explain_run(near_run(sample_library, noise=2.0), split, load_concepts(split))])


def shapes_of(text):
    return [word for word in re.findall("[a-z]+", text.lower()) if word in SHAPES]


def test_matched_keywords_equal_plain_loops(explained, sample_library):
    captions = sample_library.split().captions.to_pylist()
    texts = {row["caption_id"]: row["text"] for row in captions}
    checked = 0
    for row in explained.to_pylist():
        if row["direction"] == "i2t":
            assert row["matched_keywords"] is None
            continue
        others = [
            caption["text"]
            for caption in captions
            if caption["image_id"] == row["truth_id"] and caption["caption_id"] != row["query_id"]
        ]
        shared = {shape for text in others for shape in shapes_of(text)}
        assert row["matched_keywords"] == sum(shape in shared for shape in shapes_of(texts[row["query_id"]])), row
        checked += 1
    assert checked > 100


@pytest.mark.parametrize("keywords", [1, 2])
def test_only_matched_failures_are_asked(explained, sample_library, tmp_path, keywords):
    kept = keep_matched(explained, keywords)
    assert 0 < kept.num_rows < explained.num_rows
    names = {
        f"{row['direction']}-{row['query_id']}-{row['truth_id']}-{row['retrieved_id']}" for row in kept.to_pylist()
    }
    options = {"form": "csv", "images": "images/{file_name}", "sample": len(names), "keywords": keywords}
    path = export_failures(explained, tmp_path, sample_library.split(), **options)[0]
    asked = {row["pair_id"] for row in read_rows(path)}
    assert names <= asked
    options["sample"] += 1
    with pytest.raises(InvalidOption, match=rf"failures of text queries with {keywords} matched keywords? or more"):
        export_failures(explained, tmp_path, sample_library.split(), **options)


def test_no_keyword_keeps_every_text_query(explained):
    directions = np.asarray(explained["direction"].to_pylist())
    assert keep_matched(explained, 0).num_rows == (directions != "i2t").sum()
