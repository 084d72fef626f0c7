"""Bootstrap samples of the scores of two models, drawn together, and the tests they carry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from tqdm import tqdm

from cxc_eccv.comparison.pairing import Pair
from cxc_eccv.evaluation.score import ClusterBootstrap, Draws
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["enough_samples", "holm", "least_p_value", "paired_samples", "two_sided_p_value"]

BATCH = 1_000
"""Samples drawn at once, which bounds the memory."""


def paired_samples(
    pairs: Mapping[str, Pair], seed: int, samples: int, *, progress: bool = False
) -> dict[str, FloatArray]:
    """Key to (2, S) scores of both models in every bootstrap sample.

    A sample draws as many images as there are, with replacement; all queries of an image come along. Both models, and
    all metrics over the same images, get the same draws. A metric over a whole task comes with all its parts.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993; Koehn, Statistical significance tests for machine
        translation evaluation, EMNLP 2004 (paired).
    """
    groups = _by_images(pairs)
    sizes = [BATCH] * (samples // BATCH) + [samples % BATCH] * bool(samples % BATCH)
    seeds = np.random.SeedSequence(seed).generate_state(len(sizes)).tolist()
    with tqdm(total=samples, desc="comparing", unit="sample", leave=False, disable=None if progress else True) as bar:
        batches = []
        for batch_seed, size in zip(seeds, sizes, strict=True):
            batches.append(_batch(groups, pairs, Draws(batch_seed, size)))
            bar.update(size)
    drawn = {key: np.concatenate([batch[key] for batch in batches], axis=-1) for key in batches[0]}
    whole = {
        key: np.asarray(pair.spec.function(np.stack([drawn[part] for part in pair.parts], axis=-1)))
        for key, pair in pairs.items()
        if pair.parts
    }
    return drawn | whole


Group = tuple[IntArray, IntArray, list[str]]


def _by_images(pairs: Mapping[str, Pair]) -> list[Group]:
    """Images behind queries, those that are drawn, and the keys that have just these: a group is resampled once."""
    among = {part: pair.images for pair in pairs.values() for part in pair.parts}
    groups: dict[tuple[bytes, bytes], Group] = {}
    for key, pair in pairs.items():
        if not pair.parts:
            drawn = among.get(key, pair.images)
            same = pair.images.tobytes(), np.unique(drawn).tobytes()
            groups.setdefault(same, (pair.images, drawn, []))[2].append(key)
    return list(groups.values())


def _batch(groups: Sequence[Group], pairs: Mapping[str, Pair], draws: Draws) -> dict[str, FloatArray]:
    drawn: dict[str, FloatArray] = {}
    for images, among, keys in groups:
        bootstrap = ClusterBootstrap(images, draws, among)
        medians = [key for key in keys if pairs[key].spec.aggregate == "median"]
        means = [key for key in keys if key not in medians]
        for key in medians:
            drawn[key] = np.stack([bootstrap.medians(column) for column in pairs[key].values.T])
        if means:
            scores = bootstrap.means(np.concatenate([pairs[key].values for key in means], axis=1))
            drawn |= dict(zip(means, scores.reshape(len(means), 2, -1), strict=True))
    return drawn


FEWEST_SAMPLES = 10_000
ROOM = 5
"""How many times smaller than the level the smallest corrected p-value is, so that a clear difference shows as one."""


def two_sided_p_value(differences: FloatArray) -> float:
    """Achieved significance level of "no difference", two-sided.

    p = min(1, 2 (1 + min(#{d <= 0}, #{d >= 0})) / (S + 1)) over the S resampled differences d: the smallest level at
    which the percentile interval leaves zero out. So a p-value under 0.05 and a 95% interval without zero say the
    same, which a test that first shifts the samples to a mean of zero does not promise. A difference of exactly zero
    counts for both sides, which keeps medians, with their few possible values, on the safe side. The 1 counts the
    observed sample, so that p is never 0.

    References:
        Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 15.4; Davison and Hinkley, Bootstrap
        Methods and their Application, 1997, equation 4.11 (the 1).

    Example:
        >>> two_sided_p_value(np.array([0.1, 0.2, 0.3, -0.1] * 25))
        0.5148514851485149
    """
    fewer = min(np.count_nonzero(differences <= 0), np.count_nonzero(differences >= 0))
    return min(1.0, 2 * (1 + int(fewer)) / (differences.size + 1))


def least_p_value(samples: int) -> float:
    """The smallest p-value that so many samples can give."""
    return 2 / (samples + 1)


def enough_samples(tests: int, level: float) -> int:
    """Samples whose smallest p-value, corrected for all tests, is well under the level: by default a round 10,000.

    Example:
        >>> enough_samples(14, 0.05), enough_samples(54, 0.05), enough_samples(54, 0.01)
        (10000, 11000, 54000)
    """
    return max(FEWEST_SAMPLES, 1_000 * math.ceil(round(2 * ROOM * tests / level, 6) / 1_000))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction, which keeps the chance of any false finding among all tests at the level.

    The i-th smallest of m p-values becomes max over j <= i of min(1, (m - j + 1) p_j). It holds whatever the
    dependence between the tests, and metrics of one model depend on each other heavily.

    References:
        Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 1979.

    Example:
        >>> holm([0.01, 0.5, 0.02])
        [0.03, 0.5, 0.04]
    """
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(values, kind="stable")
    stepped = np.minimum(1.0, values[order] * np.arange(values.size, 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.maximum.accumulate(stepped)
    return [float(value) for value in adjusted]
