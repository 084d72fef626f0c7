"""Preferences between systems: strengths of the Bradley-Terry model from counts of pairwise choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from cxc_eccv.errors import DataError, MalformedSource
from cxc_eccv.sources.columns import fold_names, refuse_misnamed
from cxc_eccv.sources.reading import parse_number, read_csv, shown
from cxc_eccv.statistics import Intervals
from cxc_eccv.types import FloatArray

TOLERANCE = 1e-12
SAMPLES = 2_000
MOST = 10**15
"""Counts below it are exact in float64."""


@dataclass(frozen=True, slots=True)
class Strength:
    """A system's share of all strengths, in percent, with the interval over drawn choices."""

    name: str
    value: float
    low: float
    high: float


def rate_preferences(
    wins: ArrayLike, names: Sequence[str], *, confidence: float = 0.95, seed: int = 0
) -> tuple[Strength, ...]:
    r"""Maximum-likelihood strengths in percent, strongest first, with bootstrap intervals.

    Strengths have :math:`P(i > j) = p_i / (p_i + p_j)`. The zero of the likelihood's gradient is a fixed point,
    :math:`p_i = W_i / \sum_j n_{ij} / (p_i + p_j)` with the :math:`W_i` choices that i won and the :math:`n_{ij}`
    between i and j; iterating it converges.

    Args:
        wins: (S, S) counts of choices of the row's system over the column's; the diagonal is ignored.
        names: (S,) names of the systems.
        confidence: level of the intervals.
        seed: seed of the drawn choices.

    Raises:
        DataError: some systems never lost to the others, so no finite strengths exist.

    References:
        Bradley and Terry, Biometrika 1952; Hunter, MM Algorithms for Generalized Bradley-Terry Models, 2004.
    """
    Intervals(seed=seed, confidence=confidence)  # checks both
    counts = np.asarray(wins, dtype=np.float64) * (1 - np.eye(len(names)))
    _check_connected(counts, names)
    strengths = 100 * _iterate(counts[None])[0]
    random = np.random.default_rng(seed)
    upper = np.triu_indices(len(counts), 1)
    played = (counts + counts.T)[upper].astype(np.int64)
    won = counts[upper]
    shares = np.divide(won, played, out=np.zeros_like(won), where=played > 0)
    samples = np.zeros((SAMPLES, *counts.shape))
    samples[:, upper[0], upper[1]] = random.binomial(played, shares, (SAMPLES, played.size))
    samples[:, upper[1], upper[0]] = played - samples[:, upper[0], upper[1]]
    drawn = 100 * _fit_limits(samples)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    order = np.argsort(-strengths, kind="stable").tolist()
    return tuple(Strength(names[row], float(strengths[row]), float(low[row]), float(high[row])) for row in order)


def read_preferences(path: Path) -> tuple[FloatArray, tuple[str, ...]]:
    """(S, S) counts for :func:`rate_preferences` and the S names, from a CSV file of choices."""
    table = read_csv(path, ["winner", "loser"])
    table = table.rename_columns(fold_names(path, table.column_names))
    if "count" not in table.column_names:
        refuse_misnamed(path, table, ("winner", "loser"), "count", "counts of choices in a column count")
    rows = table.to_pylist()
    names = tuple(dict.fromkeys(row[side] for side in ("winner", "loser") for row in rows))
    wins = np.zeros((len(names), len(names)))
    for line, row in enumerate(rows, start=2):
        winner = row["winner"]
        loser = row["loser"]
        cell = row.get("count", "1")
        if winner == loser or not (winner.strip() and loser.strip()):
            choice = f"{shown(winner)} preferred to {shown(loser)}"
            raise MalformedSource(path, f"line {line}", choice, "the names of two systems")
        count = parse_number(cell.strip())
        if not isinstance(count, int) or not 0 <= count < MOST:
            expected = "a count of choices, a whole number"
            raise MalformedSource(path, f"line {line}, column 'count'", shown(cell), expected)
        wins[names.index(winner), names.index(loser)] += count
    return wins, names


def _iterate(counts: FloatArray) -> FloatArray:
    """(B, S) strengths of (B, S, S) counts."""
    played = counts + counts.transpose(0, 2, 1)
    won = counts.sum(axis=2)
    strengths = np.full(won.shape, 1 / won.shape[1])
    while True:
        again = won / (played / (strengths[:, :, None] + strengths[:, None, :])).sum(axis=2)
        again /= again.sum(axis=1, keepdims=True)
        if np.abs(again - strengths).max() < TOLERANCE:
            return np.asarray(again)
        strengths = again


def _fit_limits(samples: FloatArray) -> FloatArray:
    """(B, S) strengths of the samples that have any, if only in the limit."""
    groups = [_find_unbeaten(sample) for sample in samples]
    strengths = np.zeros(samples.shape[:2])
    for unbeaten in {group for group in groups if group is not None}:
        rows = np.flatnonzero([other == unbeaten for other in groups])
        group = np.array(unbeaten)
        strengths[np.ix_(rows, group)] = 1.0 if group.size == 1 else _iterate(samples[np.ix_(rows, group, group)])
    return strengths[[group is not None for group in groups]]


def _find_unbeaten(counts: FloatArray) -> tuple[int, ...] | None:
    """The systems of the only group that never lost to another; None if there are several such groups."""
    parts, labels = connected_components(counts > 0, connection="strong")
    groups = [labels == part for part in range(parts)]
    unbeaten = [group for group in groups if not counts[np.ix_(~group, group)].any()]
    return tuple(np.flatnonzero(unbeaten[0]).tolist()) if len(unbeaten) == 1 else None


def _check_connected(counts: FloatArray, names: Sequence[str]) -> None:
    parts, labels = connected_components(counts > 0, connection="strong")
    if parts > 1:
        groups = [", ".join(names[row] for row in np.flatnonzero(labels == part).tolist()) for part in range(parts)]
        raise DataError(
            f"preferences fall into {parts} groups ({'; '.join(groups)}), and one never lost to another, so there are "
            "no finite strengths; collect more choices between them, or leave a group out"
        )
