"""Facts of the real files: counts of the corpora beside the paper's, and what the guard leaves out of them."""

import numpy as np
import pyarrow.compute as pc
import pytest

from cxc_eccv.sources.collections.collection import collections
from cxc_eccv.sources.readers import read_stsb
from cxc_eccv.studies.entailment.training_data import corpora, load_training_data

PAIRS = {
    "stsb/train": (5_749, 2_994, 5_634),
    "stsb/val": (1_500, 629, 1_462),
    "stsb/test": (1_379, 673, 1_345),
    "sick/train": (4_500, 1_299, 4_443),
    "sick/val": (500, 144, 493),
    "sick/test": (4_927, 1_414, 4_837),
    "cxc/val": (19_722, 12_292, 19_722),
    "cxc/test": (19_833, 10_614, 0),
    "cxc_sts/val": (44_009, 14_783, 44_009),
    "cxc_sts/test": (44_045, 16_184, 0),
    "coco/val": (25_000, 25_000, 25_000),
    "eccv/test": (21_442, 21_442, 0),
    "esnli_ve/val": (14_339, 5_254, 13_501),
    "esnli_ve/test": (14_740, 5_218, 13_761),
    "flickr30k/val": (5_070, 5_070, 4_930),
    "flickr8k/train": (30_000, 30_000, 29_135),
}
"""Part to its pairs, its positives, and the pairs that are in no test split."""


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_positives_and_what_the_guard_leaves(real_library, name):
    corpus, part = name.split("/")
    pairs, positives, guarded = PAIRS[name]
    found = corpora()[corpus].pairs(real_library, part).table
    assert (found.num_rows, pc.sum(found["label"]).as_py()) == (pairs, positives)
    if guarded and corpus != "esnli_ve":  # there are no photographs here
        data = load_training_data(real_library, [name])
        left_out = data.provenance["sources"][name]["left_out"]
        of_test = sum(number for reason, number in left_out.items() if reason.endswith("/test"))
        assert (data.pairs.num_rows, pairs - of_test) == (guarded, guarded)


def test_e_snli_ve_shares_known_photographs_with_test(real_library):
    test = {f"flickr30k/{photo}" for photo in real_library.split("test", "flickr30k").image_ids}
    for part, number in (("val", 39), ("test", 25)):
        table = corpora()["esnli_ve"].pairs(real_library, part).table
        assert len(test & set(table["image_key"].to_pylist())) == number
        data = load_training_data(real_library, [f"esnli_ve/{part}"])
        assert not test & set(data.pairs["image_key"].to_pylist())


def test_sts_benchmark_and_sick_lack_test_captions(real_library):
    def words(text):
        return "".join(filter(str.isalnum, text.lower()))

    captions = set()
    for collection in (name for name, declared in collections().items() if declared.descriptions is None):
        captions |= {words(text) for text in real_library.split("test", collection).captions["text"].to_pylist()}
    data = load_training_data(real_library, ["stsb/train", "sick/train"])
    assert not captions & {words(text) for name in ("premise", "hypothesis") for text in data.pairs[name].to_pylist()}
    scored = real_library.read("stsb_train", read_stsb)
    members = [words(a) in captions or words(b) in captions for a, b in zip(scored.left, scored.right, strict=True)]
    assert sum(data.provenance["sources"]["stsb/train"]["left_out"].values()) == sum(members)


def test_cxc_val_states_its_overlap_with_splits(real_library):
    data = load_training_data(real_library, ["cxc/val"])
    assert data.provenance["holds"] == {"coco/val": 19_722}
    assert data.provenance["shares_words"]["coco/test"] == 1_422
    assert (data.provenance["trained_on_test"], data.provenance["trained_on_val"]) == (False, True)
    rows = data.pairs.slice(0, 1).to_pylist()[0]
    assert (rows["image_key"], rows["caption_key"], rows["label"]) == ("coco/431431", "coco/648388", 0)
    assert rows["rating"] == np.float32(1.8)
