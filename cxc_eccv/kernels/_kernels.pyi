from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray, IntArray

_Scores = NDArray[np.float32]
_Times = NDArray[np.integer]
_Count = Callable[[_Scores, IntArray, _Scores, _Scores, IntArray, IntArray, IntArray, IntArray, IntArray, _Scores], int]
"""Scores, rows or columns, low, high, bounds; to be written: at_least, above, near pairs, near indices, near scores."""

count_rows: _Count
count_columns: _Count

def multiply_pairs(
    queries: _Scores,
    items: _Scores,
    rows: IntArray,
    columns: IntArray,
    width: int,
    sums: FloatArray,
    magnitudes: FloatArray,
    /,
) -> None: ...
def count_matches(
    scores: _Scores,
    rows: IntArray,
    items: NDArray[np.int32],
    classes: NDArray[np.int32],
    distances: NDArray[np.uint8],
    query_classes: IntArray,
    zetas: IntArray,
    depths: IntArray,
    lowest: _Scores,
    counts: IntArray,
    /,
) -> None: ...
def select_in_columns(scores: _Scores, rows: IntArray, depths: IntArray, selected: _Scores, /) -> None: ...
def reach_bounds(
    scores: _Scores, items: NDArray[np.int32], bounds: _Scores, starts: IntArray, kept: IntArray, /
) -> int: ...
def spread_kept(
    kept: IntArray,
    starts: IntArray,
    columns: IntArray,
    filled: IntArray,
    scores: _Scores,
    items: NDArray[np.int32],
    /,
) -> None: ...
def scale_to_unit(
    vectors: _Scores, indices: IntArray, targets: IntArray, width: int, out: _Scores, lengths: FloatArray, /
) -> None: ...
def draw_times(random: object, size: int, times: _Times, /) -> None: ...
def sum_drawn(times: _Times, values: NDArray[np.int16], size: int, sums: FloatArray, /) -> None: ...
def find_ranks(
    times: _Times, size: int, members: IntArray, below: IntArray, ranks: IntArray, indices: IntArray, /
) -> None: ...
def draw_rows(random: object, rows: IntArray, ends: IntArray, drawn: IntArray, /) -> None: ...
def correlate_ranks(
    codes: NDArray[np.int32], n_first: int, n_second: int, rows: IntArray, products: FloatArray, /
) -> None: ...
def count_orders(levels: NDArray[np.int32], others: NDArray[np.int32], width: int, counts: IntArray, /) -> None: ...
