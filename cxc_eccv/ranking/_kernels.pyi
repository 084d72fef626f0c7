import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import FloatArray, IntArray

def count_rows(
    scores: NDArray[np.float32],
    rows: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
    reached: IntArray,
    beyond: IntArray,
    near_pairs: IntArray,
    near_places: IntArray,
    near_scores: NDArray[np.float32],
    /,
) -> int: ...
def count_columns(
    scores: NDArray[np.float32],
    columns: IntArray,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    bounds: IntArray,
    reached: IntArray,
    beyond: IntArray,
    near_pairs: IntArray,
    near_places: IntArray,
    near_scores: NDArray[np.float32],
    /,
) -> int: ...
def multiply_pairs(
    queries: NDArray[np.float32],
    items: NDArray[np.float32],
    rows: IntArray,
    columns: IntArray,
    width: int,
    sums: FloatArray,
    magnitudes: FloatArray,
    /,
) -> None: ...
