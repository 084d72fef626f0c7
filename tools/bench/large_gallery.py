"""Time and memory of exact ranks in a large gallery, as a ratio to the bare blocked product of the same process.

The bare product multiplies as many float32 blocks, into one array and without reading, preparing or counting anything.

Example:
    python tools/bench/large_gallery.py --full
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cxc_eccv.types import Judgments

FULL = {"queries": 5_000, "items": 1_000_000, "width": 256}
SCALED = {"queries": 2_000, "items": 100_000, "width": 256}
ITEMS_AT_ONCE, ROWS_AT_ONCE = 8_160, 512


def main() -> None:
    """Measure once and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in SCALED.items():
        parser.add_argument(f"--{name}", type=int, help=f"default: {size:,}; with --full {FULL[name]:,}")
    parser.add_argument("--positives", type=int, default=1, help="per query")
    parser.add_argument("--dtype", choices=("float16", "float32"), default="float16", help="of the gallery in memory")
    parser.add_argument("--shards", type=int, default=1, help="counted one by one and added")
    parser.add_argument("--full", action="store_true", help="5,000 queries, 1,000,000 items")
    options = parser.parse_args()
    sizes = {name: getattr(options, name) or (FULL if options.full else SCALED)[name] for name in SCALED}
    taken, peak = measured(sizes, options.positives, options.dtype, options.shards)
    bare = bare_product(**sizes)
    print(
        f"{sizes['queries']} queries, {sizes['items']} items x {sizes['width']} {options.dtype}, "
        f"{options.shards} shards: {taken:.2f} s, bare product {bare:.2f} s, ratio {taken / bare:.2f}, "
        f"peak {peak:.0f} MB with the gallery"
    )


def measured(sizes: dict[str, int], n_positives: int, dtype: str, n_shards: int) -> tuple[float, float]:
    """Seconds, and the largest resident size of the process in MB."""
    from cxc_eccv.ranking.large_gallery import LargeGallery
    from cxc_eccv.types import Embeddings

    vectors = random_vectors(sizes["items"], sizes["width"], dtype)
    ids = np.arange(sizes["items"])
    queries = Embeddings(np.arange(sizes["queries"]), random_vectors(sizes["queries"], sizes["width"], "float32", 1))
    qrels = random_judgments(queries.ids, ids, n_positives)
    wanted = np.unique(qrels.indices)
    start = time.perf_counter()
    gallery = LargeGallery(queries, qrels, Embeddings(ids[wanted], vectors[wanted]))
    counts = [gallery.count(ids[part], vectors[part]) for part in shards(sizes["items"], n_shards)]
    gallery.ranks(sum(counts[1:], start=counts[0]))
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def random_vectors(count: int, width: int, dtype: str, seed: int = 0) -> NDArray[np.floating]:
    """(count, width) standard normal, made piece by piece."""
    random = np.random.default_rng(seed)
    out = np.empty((count, width), dtype=dtype)
    for start in range(0, count, ITEMS_AT_ONCE):
        part = out[start : start + ITEMS_AT_ONCE]
        part[:] = random.standard_normal(part.shape, dtype=np.float32)
    return out


def random_judgments(query_ids: NDArray[np.int64], ids: NDArray[np.int64], n_positives: int) -> Judgments:
    """As many random positives for every query."""
    from cxc_eccv.types import Judgments

    rows = np.repeat(query_ids, n_positives)
    pairs = np.unique([rows, np.random.default_rng(2).integers(ids.size, size=rows.size)], axis=1)
    return Judgments.from_pairs(query_ids, ids, *pairs)


def shards(n_items: int, count: int) -> list[slice]:
    """Equal parts of the gallery."""
    edges = np.linspace(0, n_items, count + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def bare_product(queries: int, items: int, width: int) -> float:
    """Seconds of the blocked product alone."""
    rows, tile = (random_vectors(count, width, "float32") for count in (queries, ITEMS_AT_ONCE))
    out = np.empty((ROWS_AT_ONCE, ITEMS_AT_ONCE), dtype=np.float32)
    start = time.perf_counter()
    for first in range(0, items, ITEMS_AT_ONCE):
        columns = tile[: items - first]
        for row in range(0, queries, ROWS_AT_ONCE):
            block = rows[row : row + ROWS_AT_ONCE]
            np.matmul(block, columns.T, out=out[: len(block), : len(columns)])
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
