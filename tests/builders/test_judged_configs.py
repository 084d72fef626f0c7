"""Configs of judged pairs that the sample lacks: their rows on the real data, and their pages' examples."""

from collections import Counter

import pytest

import cxc_eccv as ce
from cxc_eccv.builders.dataset_config import dataset_configs


@pytest.fixture
def dataset(request, real_library, tmp_path):
    """A config's test split."""
    return ce.load(request.param, split="test", data_dir=real_library.data_dir, cache_dir=tmp_path)


def names_of(dataset, column):
    names = dataset.features[column].names
    return Counter("" if code is None else names[code] for code in dataset[column])


@pytest.mark.parametrize("dataset", ["flickr8k_human"], indirect=True)
def test_what_people_said_of_flickr8k(dataset, capsys):
    asked = names_of(dataset, "source")
    assert (asked["crowd"] + asked["both"], asked["experts"] + asked["both"]) == (47_830, 5_822)
    assert names_of(dataset, "decision") == {"no": 45_078, "undecided": 27, "yes": 2_004, "original": 722, "": 3_492}
    for row in dataset.select(range(0, len(dataset), 997)):
        decision = None if row["decision"] is None else dataset.features["decision"].int2str(row["decision"])
        own = row["caption_id"] // 10 == row["image_id"]
        surplus = None if row["yes"] is None else row["yes"] - row["no"]
        words = None if surplus is None else "yes" if surplus > 0 else "no" if surplus < 0 else "undecided"
        assert decision == ("original" if own else words)
    exec(dataset_configs()["flickr8k_human"].example, {"dataset": dataset})
    assert capsys.readouterr().out == "45078\n"
