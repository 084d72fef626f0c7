"""Bootstrap samples of the scores of two models, drawn together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tqdm import tqdm

from cxc_eccv.comparison.pairing import Pair
from cxc_eccv.statistics import ClusterBootstrap, Draws
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["paired_samples"]

BATCH = 1_000
"""Samples drawn at once, which bounds the memory."""


def paired_samples(
    pairs: Mapping[str, Pair], seed: int, samples: int, *, progress: bool = False
) -> dict[str, FloatArray]:
    """Key to (2, S) scores of both models in every bootstrap sample of images, drawn alike for both and all metrics.

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
