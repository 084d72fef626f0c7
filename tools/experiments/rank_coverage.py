"""How often do all rank intervals contain the true ranks? Simulated models whose true ranks are known.

    python tools/experiments/rank_coverage.py --repetitions 2000

Each repetition draws the values of the queries of M models, computes 95% intervals from 1,000 bootstrap samples over
images, and looks whether every interval contains all ranks of its model: models of equal true value share their ranks.
The last scenario resamples queries where it should resample images, to show that the experiment can fail.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.statistics import ClusterBootstrap, Draws, rank_intervals
from cxc_eccv.types import IntArray

MODELS = (5, 10, 25)
IMAGES = 1_000
SAMPLES = 1_000
EVERY: IntArray = np.arange(IMAGES, dtype=np.int64)
STEP = np.sqrt(2 / IMAGES)
"""Standard error of the difference of two models whose values are independent with variance 1."""

Drawn = tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]], IntArray]
"""True means (M,), values of the queries (Q, M), and the image behind each query (Q,)."""


def main() -> None:
    """Print a Markdown table: share of the repetitions that are covered, and the mean width of an interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=2_000)
    repetitions = parser.parse_args().repetitions
    print(f"| scenario | {' | '.join(f'{count} models' for count in MODELS)} |\n|---|{'---:|' * len(MODELS)}")
    for name, draw in SCENARIOS.items():
        cells = []
        for count in MODELS:
            covered, width = simulate(draw, count, repetitions)
            cells.append(f"{100 * covered:.1f}% ({width:.1f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def simulate(draw: Callable[[np.random.Generator, int], Drawn], count: int, repetitions: int) -> tuple[float, float]:
    """Share of the repetitions in which all intervals are right, and the mean number of ranks in an interval."""
    covered = 0
    width = 0.0
    for seed in range(repetitions):
        means, values, images = draw(np.random.default_rng([seed, count]), count)
        samples = ClusterBootstrap(images, Draws(seed, SAMPLES)).means(values.astype(np.float64))
        found = rank_intervals(values.mean(axis=0), samples, np.unique(images).size)
        best = 1 + (means[None] > means[:, None]).sum(axis=1)
        worst = count - (means[None] < means[:, None]).sum(axis=1)
        covered += bool(((found.low <= best) & (worst <= found.high)).all())
        width += float((found.high - found.low + 1).mean())
    return covered / repetitions, width / repetitions


def independent(spacing: float) -> Callable[[np.random.Generator, int], Drawn]:
    """Normal values; neighbours differ by this many standard errors."""

    def draw(random: np.random.Generator, count: int) -> Drawn:
        means = spacing * STEP * np.arange(count)
        return means, means + random.standard_normal((IMAGES, count)), EVERY

    return draw


def pairs_of_twins(random: np.random.Generator, count: int) -> Drawn:
    """Every two models are equal; pairs differ by half a standard error."""
    means = 0.5 * STEP * (np.arange(count) // 2)
    return means, means + random.standard_normal((IMAGES, count)), EVERY


def hits(random: np.random.Generator, count: int) -> Drawn:
    """Hits or misses, such as R@1, that all models find on the same easy queries: correlated, all models equal."""
    difficulty = random.standard_normal((IMAGES, 1))
    latent = np.sqrt(0.8) * difficulty + np.sqrt(0.2) * random.standard_normal((IMAGES, count))
    return np.zeros(count), (latent > -0.5).astype(float), EVERY


def spaced_hits(random: np.random.Generator, count: int) -> Drawn:
    """The same, but every model is better than the one before, and spreads differ from pair to pair."""
    ability = 0.05 * np.arange(count)
    shared = np.linspace(0.5, 0.9, count)
    difficulty = random.standard_normal((IMAGES, 1))
    latent = np.sqrt(shared) * difficulty + np.sqrt(1 - shared) * random.standard_normal((IMAGES, count))
    return ability, (latent + ability > 0).astype(float), EVERY


def skewed(random: np.random.Generator, count: int) -> Drawn:
    """Values in [0, 1], mostly near 0, such as mAP@R; all models equal."""
    return np.zeros(count), random.beta(0.3, 1.2, (IMAGES, count)), EVERY


def captions(random: np.random.Generator, count: int) -> Drawn:
    """One to five captions per image that share half of their variance; all models equal."""
    images = np.repeat(EVERY, random.integers(1, 6, IMAGES))
    shared = random.standard_normal((IMAGES, count))[images]
    return np.zeros(count), shared + random.standard_normal(shared.shape), images


def captions_alone(random: np.random.Generator, count: int) -> Drawn:
    """The same, resampled as if captions of one image were independent."""
    means, values, images = captions(random, count)
    return means, values, np.arange(images.size, dtype=np.int64)


SCENARIOS: dict[str, Callable[[np.random.Generator, int], Drawn]] = {
    "all equal": independent(0),
    "spaced by 3 standard errors": independent(3),
    "near ties, half a standard error": independent(0.5),
    "twins, half a standard error apart": pairs_of_twins,
    "correlated hits, all equal": hits,
    "correlated hits, spaced": spaced_hits,
    "skewed values, all equal": skewed,
    "clusters of captions, all equal": captions,
    "the same, clusters ignored": captions_alone,
}


if __name__ == "__main__":
    main()
