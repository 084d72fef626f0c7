"""Time of the bootstrap Spearman of STS, SIS and SITS, beside scipy, from the raw files that CXC_ECCV_DATA names.

Ours is measured first: the first call of a fresh process, after imports and file loading. Both peers run in the same
process on the same ratings and similarities (of random vectors, moved towards the ratings). The plain loop draws with
Python and calls ``scipy.stats.spearmanr`` for every sample; the second peer takes our draws and calls ``spearmanr``,
which also shows that the values are equal. Peers run a part of the samples (``--peer-samples``) and are scaled up:
every sample costs them the same. Memory is what a second call allocates at most.

Example:
    CXC_ECCV_DATA=mirror python tools/bench/spearman.py
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Iterable

import numpy as np
from scipy.stats import spearmanr

from cxc_eccv.judgments.merging import rated_pairs
from cxc_eccv.metrics.bootstrap_spearman import bootstrap_spearman, query_draws
from cxc_eccv.ranking import ranked
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, FloatArray, IntArray, RatedPairs

DIRECTIONS = {"sts": "t2t", "sis": "i2i", "sits": "i2t"}
WIDTH = 512


def random_run(library: Library) -> EmbeddingsRun:
    """Random vectors of 512 dimensions for the whole test split."""
    random = np.random.default_rng(0)
    images, captions = (
        Embeddings(ids.to_numpy(), random.standard_normal((len(ids), WIDTH), np.float32))
        for ids in (library.split("test").images["image_id"], library.split("test").captions["caption_id"])
    )
    return EmbeddingsRun(images, captions)


def with_scipy(pairs: RatedPairs, similarities: FloatArray, draws: Iterable[IntArray | list[int]]) -> FloatArray:
    """Spearman of every draw."""
    return np.array([spearmanr(pairs.ratings[rows], similarities[rows]).statistic for rows in draws])


def plain_loop(pairs: RatedPairs, similarities: FloatArray, n_samples: int) -> FloatArray:
    """The protocol written down as it reads."""
    rows_of: dict[int, list[int]] = {}
    for row, query in enumerate(pairs.query_ids.tolist()):
        rows_of.setdefault(query, []).append(row)
    random, queries = np.random.default_rng(0), np.array(list(rows_of))
    draws = []
    for _ in range(n_samples):
        half = random.permutation(queries)[: queries.size // 2].tolist()
        parts = random.random(len(half))
        draws.append([rows_of[query][int(part * len(rows_of[query]))] for query, part in zip(half, parts, strict=True)])
    return with_scipy(pairs, similarities, draws)


def seconds_since(start: float) -> float:
    """Elapsed wall-clock time."""
    return time.perf_counter() - start


def peak_megabytes(run: EmbeddingsRun, pairs: dict[str, RatedPairs]) -> float:
    """Most memory held at once by the similarities and a short bootstrap of every kind."""
    tracemalloc.start()
    for kind, direction in DIRECTIONS.items():
        bootstrap_spearman(pairs[kind], ranked(run).compare(pairs[kind], direction), 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def main() -> None:
    """Measure all three kinds and print times, ratios, and the largest difference from scipy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--peer-samples", type=int, default=100)
    arguments = parser.parse_args()
    library = Library()
    pairs = {kind: rated_pairs(library.split("test"), kind) for kind in DIRECTIONS}
    run = random_run(library)

    start = time.perf_counter()
    scores = {kind: ranked(run).compare(pairs[kind], direction) for kind, direction in DIRECTIONS.items()}
    print(f"similarities of all rated pairs, {WIDTH} dimensions: {seconds_since(start):.2f} s")
    scores = {kind: 10 * scores[kind] + pairs[kind].ratings for kind in DIRECTIONS}
    start = time.perf_counter()
    samples = {kind: bootstrap_spearman(pairs[kind], scores[kind], arguments.samples) for kind in DIRECTIONS}
    ours = seconds_since(start)
    print(f"bootstrap_spearman, STS + SIS + SITS, {arguments.samples} samples, first call: {ours:.2f} s")
    print(f"peak memory of both: {peak_megabytes(run, pairs):.0f} MB")

    some = arguments.peer_samples
    start = time.perf_counter()
    for kind in DIRECTIONS:
        plain_loop(pairs[kind], scores[kind], some)
    loop = seconds_since(start) * arguments.samples / some
    print(f"plain loop with scipy: {loop:.1f} s, {loop / ours:.0f} x ours")
    start = time.perf_counter()
    theirs = {kind: with_scipy(pairs[kind], scores[kind], query_draws(pairs[kind], some)) for kind in DIRECTIONS}
    vectorised = seconds_since(start) * arguments.samples / some
    print(f"vectorised draws with scipy: {vectorised:.1f} s, {vectorised / ours:.0f} x ours")
    difference = max(np.abs(theirs[kind] - samples[kind][:some]).max() for kind in DIRECTIONS)
    print(f"largest difference from scipy on the same draws: {difference:.1e}")


if __name__ == "__main__":
    main()
