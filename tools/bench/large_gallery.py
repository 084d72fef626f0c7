"""Time and memory of exact ranks in a large gallery, as a ratio to the bare blocked product of the same process.

The bare product multiplies as many float32 blocks, into one array and without reading, preparing or counting anything.
With ``--file`` the gallery is memory-mapped, from a file that is written where it is missing. Under torchrun every
process counts its share of the gallery, multiplies its share of the bare product, and the first one prints.

    gallery   one gallery of the sizes below; the default
    devices   the ranks of 25,000 captions for 5,000 images, a fifth of them without a GPU, by NumPy, and by torch on
              the processor and on the GPU; as ratios to torch's product there, in rows of the table of tools/gpu.sh
    ray       one gallery in 1, 2 and 4 Parquet shards, counted by Ray's workers with a thread each, then once more with
              a worker that dies in the middle of a shard; and the memory of a gallery and of a count

Example:
    python tools/bench/large_gallery.py --full
    python tools/bench/large_gallery.py --items 10000000 --queries 1000 --file gallery.npy
    torchrun --nproc-per-node 2 tools/bench/large_gallery.py --items 10000000 --queries 1000 --file gallery.npy
    python tools/bench/large_gallery.py --work devices
    python tools/bench/large_gallery.py --work ray --items 1000000 --queries 1000
"""

from __future__ import annotations

import argparse
import functools
import itertools
import operator
import os
import pickle
import resource
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cxc_eccv.types import Embeddings, Judgments, PositiveRanks

FULL = {"queries": 5_000, "items": 1_000_000, "width": 256}
SCALED = {"queries": 2_000, "items": 100_000, "width": 256}
ITEMS_AT_ONCE = 8_160
ROWS_AT_ONCE = 512


def main() -> None:
    """Measure one work and print its lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=("gallery", "devices", "ray"), default="gallery")
    for name, size in SCALED.items():
        parser.add_argument(f"--{name}", type=int, help=f"default: {size:,}; with --full {FULL[name]:,}")
    parser.add_argument("--positives", type=int, default=1, help="per query")
    parser.add_argument("--dtype", choices=("float16", "float32"), default="float16", help="of the gallery in memory")
    parser.add_argument("--shards", type=int, default=1, help="counted one by one and added")
    parser.add_argument("--full", action="store_true", help="5,000 queries, 1,000,000 items")
    parser.add_argument("--file", type=Path, help=".npy file of the gallery, to be memory-mapped")
    options = parser.parse_args()
    if options.work == "devices":
        measure_devices()
    elif options.work == "ray":
        sizes = {name: getattr(options, name) or SCALED[name] for name in SCALED}
        measure_memory(sizes)
        with tempfile.TemporaryDirectory() as folder:
            measure_ray(sizes, Path(folder))
    else:
        measure_gallery(options)


def measure_gallery(options: argparse.Namespace) -> None:
    """Print the line of one gallery."""
    sizes = {name: getattr(options, name) or (FULL if options.full else SCALED)[name] for name in SCALED}
    rank = int(os.environ.get("RANK", "0"))
    count = int(os.environ.get("WORLD_SIZE", "1"))
    vectors = gallery_of(sizes, options.dtype, options.file, rank)
    taken, peak = measure(sizes, vectors, options.positives, options.shards)
    bare = bare_product(sizes["queries"], sizes["items"] // count, sizes["width"])
    if rank == 0:
        print(
            f"{sizes['queries']} queries, {sizes['items']} items x {sizes['width']} {vectors.dtype}, "
            f"{count} processes, {options.shards} shards: {taken:.2f} s, "
            f"{1000 * taken / sizes['queries']:.2f} ms a query, bare product "
            f"{bare:.2f} s, ratio {taken / bare:.2f}, peak {peak:.0f} MB with the gallery"
        )


def gallery_of(sizes: dict[str, int], dtype: str, path: Path | None, rank: int) -> NDArray[np.floating]:
    """Random vectors in memory, or of a file; the first process writes it."""
    if path is None:
        return random_vectors(sizes["items"], sizes["width"], dtype)
    if not path.exists() and rank == 0:
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, random_vectors(sizes["items"], sizes["width"], dtype))
        part.replace(path)
    while not path.exists():
        time.sleep(1)
    vectors: NDArray[np.floating] = np.load(path, mmap_mode="r")
    return vectors


def measure(
    sizes: dict[str, int], vectors: NDArray[np.floating], n_positives: int, n_shards: int
) -> tuple[float, float]:
    """Seconds, and the largest resident size of the process in MB."""
    from cxc_eccv.types import Embeddings

    ids = np.arange(sizes["items"])
    queries = Embeddings(np.arange(sizes["queries"]), random_vectors(sizes["queries"], sizes["width"], "float32", 1))
    qrels = random_judgments(queries.ids, ids, n_positives)
    if "WORLD_SIZE" in os.environ:
        import cxc_eccv.encoding  # noqa: F401 - with torch, before the clock starts
    start = time.perf_counter()
    rank_shards(queries, qrels, ids, vectors, n_shards)
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rank_shards(
    queries: Embeddings, qrels: Judgments, ids: NDArray[np.int64], vectors: NDArray[np.floating], n_shards: int
) -> PositiveRanks:
    """All ranks: on several processes together, each with one shard, or of all shards one after the other."""
    from cxc_eccv.ranking.large_gallery import LargeGallery
    from cxc_eccv.types import Embeddings

    if "WORLD_SIZE" in os.environ:
        from cxc_eccv.encoding import sharded_ranks

        own = shards(ids.size, int(os.environ["WORLD_SIZE"]))[int(os.environ["RANK"])]
        return sharded_ranks(queries, qrels, ids[own], vectors[own])
    wanted = np.unique(qrels.indices)
    gallery = LargeGallery(queries, qrels, Embeddings(ids[wanted], vectors[wanted]))
    counts = [gallery.count(ids[part], vectors[part]) for part in shards(ids.size, n_shards)]
    return gallery.ranks(sum(counts[1:], start=counts[0]))


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


def measure_devices() -> None:
    """Print rows of the table of ``tools/gpu.sh``: caption ranks of all images, five positives each."""
    import torch

    from cxc_eccv.ranking import Options, ranked
    from cxc_eccv.runs import EmbeddingsRun
    from cxc_eccv.types import Embeddings, Judgments

    n_images = 5_000 if torch.cuda.is_available() else 1_000
    width = 512
    images = Embeddings(np.arange(n_images), random_vectors(n_images, width, "float32"))
    captions = Embeddings(np.arange(5 * n_images), random_vectors(5 * n_images, width, "float32", 1))
    run = EmbeddingsRun(images, captions)
    requests = {"": ("i2t", Judgments.from_pairs(images.ids, captions.ids, captions.ids % n_images, captions.ids))}
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        left = torch.from_numpy(images.vectors).to(device)
        right = torch.from_numpy(captions.vectors).to(device)
        bare = least_seconds(partial(multiply_on_device, left, right))
        options = {f"torch on {device}": Options(device=device)}
        if device == "cpu":
            options = {"NumPy": Options(), **options}
        for name, chosen in options.items():
            taken = least_seconds(partial(ranked(run, chosen).rank_all, requests))
            what = f"rank {5 * n_images:,} captions for {n_images:,} images, {width} wide, {name}"
            print(f"| {what} | {taken:.2f} s | {taken / bare:.2f} x the product |")


def measure_memory(sizes: dict[str, int]) -> None:
    """Print the bytes of a gallery per item, and those that a count takes for each item of its shard."""
    from cxc_eccv.ranking import LargeGallery

    vectors = random_vectors(sizes["items"], sizes["width"], "float16")
    ids, queries, qrels, positives = random_work(sizes, vectors)
    gallery = LargeGallery(queries, qrels, positives)
    fixed = 4 * gallery.n_pairs * (2 * sizes["width"] + sizes["queries"])
    held = (len(pickle.dumps(gallery)) - fixed) / ids.size
    half = ids.size // 2
    peaks = []
    for part in (slice(0, half), slice(0, 2 * half)):
        tracemalloc.start()
        gallery.count(ids[part], vectors[part], threads=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    print(
        f"a gallery holds {held:.0f} bytes an item beside {fixed / 1e6:.0f} MB of queries and positives; a count with "
        f"one thread takes {(peaks[1] - peaks[0]) / half:.0f} bytes an item of its shard beside "
        f"{(2 * peaks[0] - peaks[1]) / 1e6:.0f} MB"
    )


def measure_ray(sizes: dict[str, int], folder: Path) -> None:
    """Print a row for each number of shards, and one for a killed worker."""
    import pyarrow.parquet as pq
    import ray

    from cxc_eccv.ranking import LargeGallery, ShardCounts
    from cxc_eccv.runs import make_shard, read_shard

    vectors = random_vectors(sizes["items"], sizes["width"], "float16")
    ids, queries, qrels, positives = random_work(sizes, vectors)
    ray.init(log_to_driver=False)

    def count(gallery: LargeGallery, shard: Path, counts: Path, dies_after: float | None) -> None:
        marker = counts.with_suffix(".started")
        if dies_after is not None and not marker.exists():
            marker.touch()
            threading.Timer(dies_after, os._exit, [1]).start()
        gallery.count(*read_shard(shard), threads=1).save(counts)

    remote_count = ray.remote(num_cpus=1, max_retries=2)(count)

    def rank(paths: list[Path], dies_after: float | None = None) -> float:
        """Seconds from the vectors of the positives to all ranks."""
        start = time.perf_counter()
        gallery = LargeGallery(queries, qrels, positives)
        shared = ray.put(gallery)
        files = [path.with_suffix(".npz") for path in paths]
        deaths = [dies_after, *[None] * len(paths)]
        ray.get([remote_count.remote(shared, *work) for work in zip(paths, files, deaths, strict=False)])
        counts = [ShardCounts.load(file, gallery) for file in files]
        gallery.ranks(functools.reduce(operator.add, counts))
        return time.perf_counter() - start

    taken = 0.0
    for n_shards in (1, 2, 4):
        paths = [folder / f"{n_shards}-{number}.parquet" for number in range(n_shards)]
        for path, part in zip(paths, shards(ids.size, n_shards), strict=True):
            pq.write_table(make_shard(ids[part], vectors[part]), path, use_dictionary=False)
        rank(paths)  # starts the workers, which import the package
        taken = least_seconds(functools.partial(rank, paths))
        bare = least_seconds(functools.partial(bare_product, *sizes.values()))
        print(
            f"| {n_shards} | {taken:.1f} | {sizes['items'] / taken:,.0f} | {bare:.1f} | {taken / bare:.2f} |",
            flush=True,
        )
    killed = rank(paths, taken / 4)
    print(f"a worker killed after {taken / 4:.1f} s: {killed:.1f} s instead of {taken:.1f} s")
    ray.shutdown()


def random_work(
    sizes: dict[str, int], vectors: NDArray[np.floating]
) -> tuple[NDArray[np.int64], Embeddings, Judgments, Embeddings]:
    """Ids of the gallery, queries, one positive for each, and the vectors of the positives."""
    from cxc_eccv.types import Embeddings

    ids = np.arange(sizes["items"])
    queries = Embeddings(np.arange(sizes["queries"]), random_vectors(sizes["queries"], sizes["width"], "float32", 1))
    qrels = random_judgments(queries.ids, ids, 1)
    positives = np.unique(qrels.indices)
    return ids, queries, qrels, Embeddings(ids[positives], vectors[positives])


def multiply_on_device(left: Any, right: Any) -> float:  # noqa: ANN401 - tensors, imported late
    """The bare product; reading one number waits for the device."""
    return float((left @ right.T)[-1, -1].item())


def least_seconds(work: Callable[[], object]) -> float:
    """The least of three calls: whatever else the machine does only adds."""
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
