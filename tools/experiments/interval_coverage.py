"""How often do 95% intervals contain the true value? Data sets of few images, drawn from populations that are known.

    python tools/experiments/interval_coverage.py --repetitions 4000
    python tools/experiments/interval_coverage.py --repetitions 4000 --report runs/model

Each repetition draws images with all their queries. It computes the percentile interval of 1,000 bootstrap samples of
these images, and the interval that a report shows. Simulated queries are hits or misses (R@1) that the queries of an
image share, values between 0 and 1 with many near 0 (mAP@R), or ranks. Differences are those of two models, of which
``compare`` shows the percentile interval. With ``--report`` the populations are the values of a report's queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import norm
from tqdm import trange

from cxc_eccv.comparison import load_reports
from cxc_eccv.registry import metric_labelled
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval, mean_interval
from cxc_eccv.types import FloatArray, IntArray

IMAGES = (60, 300, 1_000)
SAMPLES = 1_000
CONFIDENCE = 0.95
QUERIES = {"i2t": 1, "t2i": 5}
"""Direction to the number of queries of an image."""
REPORTED = ("recall_at_1", "map_at_r", "median_rank")

DrawQueries = Callable[[np.random.Generator, int], tuple[FloatArray, IntArray]]
"""Draws a number of images; returns the value (Q,) of each of their queries, and the image (Q,) behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Images with queries, and the true value of a metric or of a difference."""

    name: str
    value: float
    draw: DrawQueries
    is_median: bool = False
    is_binary: bool = False
    is_difference: bool = False


def main() -> None:
    """Print a Markdown table: how often the interval that a report shows contains the value."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=4_000)
    parser.add_argument("--images", type=int, nargs="+", default=IMAGES)
    parser.add_argument("--report", type=Path, help="report.json with the values of single queries, or its folder")
    options = parser.parse_args()
    populations = list(simulate() if options.report is None else read_populations(options.report))
    columns = [f"{images:,} images" for images in options.images]
    print(f"| {' | '.join(['population', *columns])} |\n|---|{'---:|' * len(columns)}")
    shares = [find_coverage(populations, images, options.repetitions) for images in options.images]
    for place, population in enumerate(populations):
        cells = [_show(*of_images[place]) for of_images in shares]
        print(f"| {' | '.join([population.name, *cells])} |")


def _show(of_bootstrap: float, shown: float) -> str:
    """The coverage of the interval that is shown, and in parentheses that of the bootstrap where it differs."""
    other = "" if of_bootstrap == shown else f" ({100 * of_bootstrap:.1f}%)"
    return f"{100 * shown:.1f}%{other}"


def find_coverage(populations: Sequence[Population], n_images: int, repetitions: int) -> FloatArray:
    """(P, 2) share of the repetitions whose interval contains the value: the bootstrap's, and the one shown."""
    covered = np.zeros((len(populations), 2))
    for repetition in trange(repetitions, desc=f"{n_images} images", disable=None):
        draws = Draws(repetition, SAMPLES)
        for place, population in enumerate(populations):
            values, images = population.draw(np.random.default_rng([repetition, place]), n_images)
            for column, (low, high) in enumerate(_find_intervals(population, values, images, draws)):
                covered[place, column] += low <= population.value <= high
    return covered / repetitions


def _find_intervals(
    population: Population, values: FloatArray, images: IntArray, draws: Draws
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The interval of the bootstrap, and the one that is shown."""
    bootstrap = ClusterBootstrap(images, draws)
    samples = bootstrap.medians(values) if population.is_median else bootstrap.means(values[:, None])[0]
    usual = interval(samples, CONFIDENCE)
    if population.is_median or population.is_difference:
        return usual, usual
    shown = mean_interval(values, images, samples, CONFIDENCE, is_binary=population.is_binary)
    return usual, (shown.low, shown.high)


def simulate() -> Iterator[Population]:
    """The simulated populations."""
    for direction, share in [(way, share) for way in QUERIES for share in (0.05, 0.5, 0.9, 0.97)]:
        name = f"R@1 {direction}, {100 * share:g}%"
        yield Population(name=name, value=share, draw=draw_hits(share, QUERIES[direction]), is_binary=True)
    yield Population(
        name="R@1, 70%, 1 to 5 queries an image, nearly all alike",
        value=0.7,
        draw=draw_hits(0.7, 5, correlation=0.95, equal_sizes=False),
        is_binary=True,
    )
    for mean, spread in ((0.05, 0.8), (0.1, 1.0), (0.3, 2.0)):
        yield Population(name=f"mAP@R, {100 * mean:g}%", value=mean, draw=draw_precisions(mean, spread))
    for direction in QUERIES:
        draw = draw_ranks(39.5, QUERIES[direction])
        yield Population(name=f"median rank {direction}, 40", value=40.0, draw=draw, is_median=True)
    for direction, share in [(way, share) for way in QUERIES for share in (0.1, 0.5)]:
        for gain in (0.0, 0.3):
            true = round(float(norm.cdf(norm.ppf(share) + gain)) - share, 12)  # 0 without a gain
            name = f"difference in R@1 {direction}, {100 * share:g}%: {100 * true:+.1f}"
            yield Population(
                name=name, value=true, draw=draw_differences(share, gain, QUERIES[direction]), is_difference=True
            )


def draw_hits(share: float, queries: int, *, correlation: float = 0.4, equal_sizes: bool = True) -> DrawQueries:
    """Hits or misses; the queries of an image have the same chance of a hit, which varies between images."""

    def draw(random: np.random.Generator, n_images: int) -> tuple[FloatArray, IntArray]:
        chances = random.beta(share * (1 / correlation - 1), (1 - share) * (1 / correlation - 1), n_images)
        sizes = np.full(n_images, queries) if equal_sizes else random.integers(1, queries + 1, n_images)
        images = np.repeat(np.arange(n_images), sizes)
        return (random.random(images.size) < chances[images]).astype(np.float64), images

    return draw


def draw_precisions(mean: float, spread: float) -> DrawQueries:
    """Values between 0 and 1 of 1 to 5 queries an image, half of which have the value of their image."""

    def draw(random: np.random.Generator, n_images: int) -> tuple[FloatArray, IntArray]:
        images = np.repeat(np.arange(n_images), random.integers(1, 6, n_images))
        shared = random.beta(mean * spread, (1 - mean) * spread, n_images)[images]
        alone = random.beta(mean * spread, (1 - mean) * spread, images.size)
        return np.where(random.random(images.size) < 0.5, shared, alone), images

    return draw


def draw_ranks(middle: float, queries: int) -> DrawQueries:
    """Ranks whose logarithm is normal; half of its variance is that of the images."""

    def draw(random: np.random.Generator, n_images: int) -> tuple[FloatArray, IntArray]:
        images = np.repeat(np.arange(n_images), queries)
        difficulty = random.standard_normal(n_images)[images] + random.standard_normal(images.size)
        return np.ceil(middle * np.exp(difficulty)), images

    return draw


def draw_differences(share: float, gain: float, queries: int) -> DrawQueries:
    """Hits of a better model, less those of another, which finds mostly the same queries easy."""

    def draw(random: np.random.Generator, n_images: int) -> tuple[FloatArray, IntArray]:
        images = np.repeat(np.arange(n_images), queries)
        shared = random.standard_normal(n_images)[images] + random.standard_normal(images.size)
        ease = np.sqrt(0.4) * shared + np.sqrt(0.2) * random.standard_normal((2, images.size))
        better, other = ease + norm.ppf(share) + [[gain], [0.0]] > 0
        return better.astype(np.float64) - other, images

    return draw


def read_populations(report: Path) -> Iterator[Population]:
    """The values of single queries of a report, by task, direction and metric; data sets are drawn from its images."""
    (scored,) = load_reports([report])
    for key, queries in scored.per_query.items():
        label = key.rpartition("/")[2]
        if label in REPORTED and queries.folds is None:
            spec, _ = metric_labelled(label)
            yield Population(
                name=key,
                value=spec.average(queries.values),
                draw=_draw_from(queries.values, queries.clusters),
                is_median=spec.aggregate == "median",
                is_binary=spec.binary,
            )


def _draw_from(values: FloatArray, images: IntArray) -> DrawQueries:
    """Draws of images with replacement; an image that is drawn twice counts as two."""
    order = np.argsort(images, kind="stable")
    _, starts, sizes = np.unique(images[order], return_index=True, return_counts=True)

    def draw(random: np.random.Generator, n_images: int) -> tuple[FloatArray, IntArray]:
        drawn = random.integers(0, sizes.size, n_images)
        drawn_images = np.repeat(np.arange(n_images), sizes[drawn])
        ends = np.cumsum(sizes[drawn])
        within = np.arange(ends[-1]) - np.repeat(ends - sizes[drawn], sizes[drawn])
        return values[order][starts[drawn][drawn_images] + within], drawn_images

    return draw


if __name__ == "__main__":
    main()
