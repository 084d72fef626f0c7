"""Finds vectors with the same bytes, which must tie.

A matrix product may round the same row differently at another position (edge kernels, threads), so exact ties are found
by bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.types import IntArray


def find_twins(vectors: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """Index of the first row with the same bytes, and index of the copy, for all copies."""
    first = find_leaders(vectors)
    copies = np.flatnonzero(first != np.arange(first.size))
    return first[copies], copies


def group_twins(vectors: NDArray[np.float32]) -> tuple[IntArray, IntArray]:
    """The first row of each group with the same bytes, and (N,) the group of every row, -1 for a row without copy."""
    originals, copies = find_twins(vectors)
    group = np.full(len(vectors), -1)
    leaders, group[copies] = np.unique(originals, return_inverse=True)
    group[leaders] = np.arange(leaders.size)
    return leaders, group


def find_leaders(vectors: NDArray[np.float32]) -> IntArray:
    """(N,) index of the first row with the same bytes."""
    twins = np.arange(len(vectors))
    hashes = hash_rows(vectors)
    _, group, size = np.unique(hashes, return_inverse=True, return_counts=True)
    candidates = np.flatnonzero(size[group] > 1)
    if candidates.size:
        rows = np.ascontiguousarray(vectors[candidates]).view(np.dtype((np.void, 4 * vectors.shape[1]))).ravel()
        _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
        twins[candidates] = candidates[first[inverse]]
    return twins


def hash_rows(vectors: NDArray[np.float32]) -> NDArray[Any]:
    """(N,) hashes of rows."""
    word = np.dtype(np.uint64 if vectors.shape[1] % 2 == 0 else np.uint32)
    words = np.ascontiguousarray(vectors).view(word)
    odd = np.random.default_rng(0).integers(1, 2**31, size=words.shape[1]) * 2 + 1
    return np.asarray(np.dot(words, odd.astype(word)))
