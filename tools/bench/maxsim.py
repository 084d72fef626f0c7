"""Time and memory of exact MaxSim ranks in both directions, as a ratio to the bare product of the same process.

The bare product multiplies all vectors of the images with all of the captions once, in the same tiles and on the same
number of threads, without preparing, reducing or counting anything. Memory is the most that Python and NumPy allocate
beyond the run; its tracing is part of the time.

Example:
    python tools/bench/maxsim.py
    python tools/bench/maxsim.py --images 5000 --captions 25000
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from cxc_eccv.ranking import ranks_of_run
from cxc_eccv.ranking.maxsim import VECTORS_AT_ONCE
from cxc_eccv.ranking.scores import one_blas_thread, workers
from cxc_eccv.runs import MultiVectorRun, MultiVectors
from cxc_eccv.types import IntArray, Judgments

SIZES = {"images": 1_000, "image_vectors": 32, "captions": 5_000, "caption_vectors": 12, "width": 64}


def main() -> None:
    """Measure once and print a line per direction."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in SIZES.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size, help="default: %(default)s")
    sizes = parser.parse_args()
    random = np.random.default_rng(0)
    images = draw(random, sizes.images, sizes.image_vectors, sizes.width)
    captions = draw(random, sizes.captions, sizes.caption_vectors, sizes.width)
    run = MultiVectorRun(images, captions)
    ranks_of_run(run, {"": ("t2i", judge(captions.ids[:8], images.ids[:8]))})  # loads the libraries
    bare = multiply(len(images.all_vectors), len(captions.all_vectors), sizes.width)
    held = sum(side.all_vectors.nbytes for side in (images, captions)) / 1e6
    print(f"{vars(sizes)}: vectors {held:.0f} MB, bare product {bare:.2f} s on {workers()} threads")
    for direction, (queries, gallery) in {"t2i": (captions, images), "i2t": (images, captions)}.items():
        tracemalloc.start()
        start = time.perf_counter()
        ranks_of_run(run, {"": (direction, judge(queries.ids, gallery.ids))})
        taken, most = time.perf_counter() - start, tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        print(f"{direction}: {taken:.2f} s, ratio {taken / bare:.2f}, peak memory +{most:.0f} MB")


def draw(random: np.random.Generator, count: int, vectors: int, width: int) -> MultiVectors:
    """Items with half to one and a half times as many vectors."""
    offsets = np.append(0, np.cumsum(random.integers(vectors // 2, vectors + vectors // 2 + 1, size=count)))
    return MultiVectors(np.arange(count), random.standard_normal((offsets[-1], width), dtype=np.float32), offsets)


def judge(query_ids: IntArray, gallery_ids: IntArray) -> Judgments:
    """One positive for every query."""
    rows = np.arange(query_ids.size)
    return Judgments(
        query_ids, gallery_ids, np.append(rows, rows.size), gallery_ids[rows % gallery_ids.size], np.ones_like(rows)
    )


def multiply(rows: int, columns: int, width: int) -> float:
    """Seconds for as many products of tiles."""
    tiles, threads = round(rows * columns / VECTORS_AT_ONCE**2), workers()
    left, right = np.random.default_rng(0).standard_normal((2, VECTORS_AT_ONCE, width), dtype=np.float32)

    def multiply_share(_: int) -> None:
        out = np.empty((VECTORS_AT_ONCE, VECTORS_AT_ONCE), dtype=np.float32)
        for _tile in range(tiles // threads):
            np.matmul(left, right.T, out=out)

    start = time.perf_counter()
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        list(pool.map(multiply_share, range(threads)))
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
