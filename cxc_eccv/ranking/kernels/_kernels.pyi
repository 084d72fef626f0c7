from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray, IntArray

_Scores = NDArray[np.float32]
_Count = Callable[[_Scores, IntArray, _Scores, _Scores, IntArray, IntArray, IntArray, IntArray, IntArray, _Scores], int]
"""Scores, rows or columns, low, high, bounds; to be written: at_least, above, near pairs, near places, near scores."""

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
