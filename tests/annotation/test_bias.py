"""Annotator bias against the figures that follow from Table E.1 of the ECCV Caption paper."""

import pytest

from cxc_eccv.annotation.worth.bias import Bias, bias_by_size, measure_bias
from cxc_eccv.errors import DataError

MODELS = ("PVSE", "VSRN", "PCME", "ViLT", "CLIP")
RECALL = [
    [76.5, 63.6, 67.6, 45.3, 42.0, 76.6],
    [68.0, 80.1, 69.0, 51.1, 47.2, 80.1],
    [67.7, 64.3, 77.3, 46.0, 44.1, 77.4],
    [59.5, 59.8, 58.8, 62.0, 49.3, 72.4],
    [51.7, 51.5, 52.6, 42.8, 49.3, 64.3],
]
R_PRECISION = [
    [53.5, 39.4, 42.1, 30.1, 31.3, 42.1],
    [41.8, 55.9, 41.6, 33.8, 35.9, 43.2],
    [42.9, 39.9, 54.8, 31.8, 33.8, 43.1],
    [34.0, 34.5, 33.9, 45.5, 37.0, 35.8],
    [31.0, 31.5, 31.9, 29.6, 39.6, 32.1],
]
"""Rows are models, columns the annotator; the last is all five."""


def column(table, place):
    return dict(zip(MODELS, (row[place] for row in table), strict=True))


def biases(table):
    return [measure_bias(column(table, place), column(table, 5), [model]) for place, model in enumerate(MODELS)]


@pytest.mark.reference
def test_the_biases_that_follow_from_table_e1():
    assert [round(bias.all, 2) for bias in biases(RECALL)] == [9.48, 10.3, 9.1, 24.72, 27.78]
    assert [round(bias.all, 2) for bias in biases(R_PRECISION)] == [3.18, 4.1, 3.08, 8.98, 7.22]
    pvse = biases(RECALL)[0]
    assert (round(pvse.own, 2), round(pvse.others, 3)) == (0.1, 11.825)


def test_all_models_as_annotators_have_no_bias_and_no_others():
    full = column(RECALL, 5)
    assert measure_bias(full, full, MODELS) == Bias(0, 0, None)


def test_sets_of_one_size_count_alike():
    """Each model gains 1 where its proposals were verified, as in a loop over all sets by hand."""

    def score(own):
        return {model: float(model in own) + len(own) for model in MODELS}

    found = bias_by_size(MODELS, score)
    assert list(found) == [1, 2, 3, 4]
    for size, bias in found.items():
        assert bias.own == 5 - size
        assert bias.others == 6 - size
        assert bias.all == pytest.approx((size * (5 - size) + (5 - size) * (6 - size)) / 5)


@pytest.mark.parametrize("annotators", [[], ["BLIP"]])
def test_annotators_are_among_the_models(annotators):
    with pytest.raises(DataError, match="annotators"):
        measure_bias(column(RECALL, 0), column(RECALL, 5), annotators)
