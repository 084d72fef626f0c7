"""Whole numbers as options, and when a table over ids pays."""

import re

import numpy as np
import pytest

from cxc_eccv.errors import InvalidOption
from cxc_eccv.types import find_positions
from cxc_eccv.types.ids import DENSE_SPAN, check_whole, measure_span
from cxc_eccv.types.result import group_by_reason


@pytest.mark.parametrize("value", [True, False, 0, -1, 1.0, "3", None, np.int64(3), np.float64(2), [3]])
def test_invalid_whole_number_is_refused_and_shown(value):
    message = f"batch_size is {value!r}, expected a whole number of at least 1"
    with pytest.raises(InvalidOption, match=f"^{re.escape(message)}$"):
        check_whole("batch_size", value)


def test_more_than_64_bits_are_refused():
    check_whole("seed", 2**63 - 1)
    with pytest.raises(InvalidOption, match="seed is a number of more than 64 bits"):
        check_whole("seed", 10**5000)


def test_least_value_is_allowed_and_reasons_keep_order():
    check_whole("k", 1)
    check_whole("seed", 0, least=0)
    with pytest.raises(InvalidOption, match="seed is -1, expected a whole number of at least 0"):
        check_whole("seed", -1, least=0)
    reasons = {"b": "no images", "c": "too shallow", "a": "no images"}
    assert list(group_by_reason(reasons).items()) == [("no images", ["b", "a"]), ("too shallow", ["c"])]
    assert not group_by_reason({})


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(("beyond", "pays"), [(0, True), (1, False)])
def test_id_table_and_search_find_the_same_positions(dtype, beyond, pays):
    ids = np.array([-7, 2 * DENSE_SPAN - 8 + beyond], dtype=dtype)
    assert measure_span(ids) == (-7, 2 * DENSE_SPAN + beyond, pays)
    assert measure_span(ids, 3)[2]
    places, known = find_positions([ids[1], 5, ids[0]], ids.astype(np.int64))
    assert known.tolist() == [True, False, True]
    assert places[known].tolist() == [1, 0]
