"""Time and memory of the evaluation, as ratios to the bare matrix product M measured in the same process.

The evaluation is the first call in a fresh process, after imports and after the raw files are read. The embeddings are
random, which is the slowest case. ``bare`` is every product of the work, without counting. With ``--peer`` the PyPI
package eccv_caption scores full rankings of the same embeddings (about a minute and 12 GB).

``beyond`` is processor time, in all threads together, beyond that of the products: the product itself is quick on one
processor and slow on another, what is added to it is much the same on all. ``--stages`` says where it goes, and
``--against COMMIT`` measures another commit in turn, so that no figure has to be believed from another day. A line
below each work says what a user waits for: from the start of the process to the last number, imports and reading
included. The line below that is the least processor time of reading, pandas' import by pyarrow included, beside what
json and csv alone need to parse the same files in the same process.

Example:
    CXC_ECCV_DATA=mirror python tools/bench/evaluate.py --repeat 3
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from stages import Stages

if TYPE_CHECKING:
    from cxc_eccv.runs import EmbeddingsRun
    from cxc_eccv.sources.library import Library

CROSS = ("coco_1k", "coco_5k", "cxc/i2t", "cxc/t2i", "eccv_caption")
WITHIN = ("cxc/t2t", "cxc/i2i")
TOP = (*CROSS, "plausible_match", "entailment")
SHALLOW = ("recall_at_k", "median_rank", "map_at_r", "r_precision", "rsum", "pmrp_at_50", "entail_at_k")
WORKS: dict[str, tuple[str | tuple[str, ...], tuple[str, ...] | None]] = {
    "cross": (CROSS, None),
    "top": (TOP, SHALLOW),
    "pmrp": (TOP, None),
    "within": (WITHIN, None),
    "all": ("all", None),
}
"""Tasks, and metrics or None for each task's own."""
WIDTH, ROWS_AT_ONCE = 512, 500
ROOT = Path(__file__).parents[2]
COLUMNS = {
    "M (s)": "product",
    "time (s)": "time",
    "CPU (s)": "processor",
    "beyond (s)": "beyond",
    "time/M": "ratio",
    "bare/M": "bare_ratio",
    "time/bare": "over_bare",
    "peak MB": "peak_mb",
}

COMPARED = {"time": "time", "processor time": "processor", "processor time beyond the products": "beyond"}


def main() -> None:
    """Run every measurement in its own process and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=WORKS, action="append", help="default: each")
    parser.add_argument("--repeat", type=int, default=3, help="processes per work; the median is shown")
    parser.add_argument("--stages", action="store_true", help="also print where the processor time goes")
    parser.add_argument("--against", metavar="COMMIT", help="compare with another commit, in processes that alternate")
    parser.add_argument("--peer", action="store_true", help="also time the eccv_caption package")
    parser.add_argument("--child", choices=WORKS, help=argparse.SUPPRESS)
    parser.add_argument("--since", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.since, stages=options.stages, peer=options.peer)))
        return
    print(describe_machine())
    with built_tree(options.against) if options.against else nullcontext() as other:
        print(table_row("work", COLUMNS))
        for work in options.work or WORKS:
            flags = [*(["--stages"] * options.stages), *(["--peer"] * (options.peer and work == "cross"))]
            runs, others = [], []
            for _ in range(options.repeat):
                runs.append(in_fresh_process(work, flags))
                if other:
                    others.append(in_fresh_process(work, flags, other))
            show(work, runs)
            if others:
                show("other", others)
                for title, name in COMPARED.items():
                    ratio = np.median([one[name] / two[name] for one, two in zip(runs, others, strict=True)])
                    print(f"{title}: {ratio:.2f} x that of {options.against}")


def show(work: str, runs: list[dict[str, Any]]) -> None:
    """The process with the median of the processor time beyond the product, and its stages."""
    middle = sorted(runs, key=lambda run: run["beyond"])[len(runs) // 2]
    print(table_row(work, [f"{middle[name]:.2f}" for name in COLUMNS.values()]))
    for stage, (taken, system) in sorted(middle.get("stages", {}).items(), key=lambda item: -item[1][0]):
        share = taken / middle["processor"]
        print(f"{stage:>30}{taken:8.3f} s {share:6.1%}   of which the system {system:.3f} s")
    parts = ", ".join(f"{name} {wall:.2f} ({processor:.2f})" for name, (wall, processor) in middle["first"].items())
    wall, processor = (sum(part[i] for part in middle["first"].values()) for i in range(2))
    print(f"process start to last number: {wall:.2f} s ({processor:.2f} s of processor time): {parts}")
    reading = min((run["first"]["reading"][1], run["parsing"]) for run in runs)
    print(f"reading: {reading[0]:.2f} s of processor time, {reading[0] / reading[1]:.2f} x json and csv alone")
    if "peer" in middle:
        print(f"eccv_caption, full rankings: {middle['peer']:.1f} s, {middle['peer'] / middle['time']:.0f} x ours")


def table_row(first: str, cells: Iterable[str]) -> str:
    """A line of the table: every column as wide as its title or a figure, and two blanks apart.

    Example:
        >>> table_row("cross", ["0.12", "1.90"])
        'cross       0.12      1.90'
    """
    widths = [max(len(title), len("1234.56")) for title in COLUMNS]
    return "  ".join([f"{first:<6}", *(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False))])


def describe_machine() -> str:
    """The processor, for which one OpenBLAS works, and who counts."""
    import threadpoolctl

    from cxc_eccv.kernels import COMPILED

    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")] or [platform.processor()]
    kinds = {str(library.get("architecture")) for library in threadpoolctl.threadpool_info()}
    counted = "the compiled kernels" if COMPILED else "NumPy"
    return f"{len(names)} x {names[0]}, OpenBLAS for {', '.join(sorted(kinds))}; scores are counted by {counted}"


@contextmanager
def built_tree(commit: str) -> Iterator[Path]:
    """Another commit of the repository in a folder of its own, with its kernels compiled, as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
            subprocess.run(build, cwd=tree, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            yield tree
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)


def in_fresh_process(work: str, flags: Sequence[str], tree: Path | None = None) -> dict[str, Any]:
    """What :func:`measure` gives in a process of its own, of this package or of the one in another folder."""
    command = [sys.executable, __file__, "--child", work, "--since", str(time.time()), *flags]
    environment = os.environ | {"PYTHONPATH": str(tree or ROOT)}
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    figures: dict[str, Any] = json.loads(output.splitlines()[-1])
    return figures


def measure(work: str, since: float, *, stages: bool, peer: bool) -> dict[str, Any]:
    """Seconds, ratios and megabytes of one work; ``beyond`` is processor time beyond that of the products.

    ``since`` is the time at which this process was started.
    """
    from raw_files import parse_alone

    from cxc_eccv.evaluation import evaluate
    from cxc_eccv.sources.library import Library

    first = {"imports": [time.time() - since, time.process_time()]}
    tasks, metrics = WORKS[work]
    library = Library()
    before = peak_megabytes()
    read = spend(lambda: read_raw_files(library))
    run = random_run(library)
    watched = Stages()
    if stages:
        watched.watch()
    took = spend(lambda: evaluate(run, tasks, metrics=metrics, data_dir=library, progress=False))
    figures: dict[str, Any] = {"time": took.wall, "processor": took.processor, "peak_mb": peak_megabytes() - before}
    first |= {"reading": [read.wall, read.processor], "evaluation": [took.wall, took.processor]}
    figures["first"] = first
    if stages:
        figures["stages"] = watched.shares((took.processor, took.system))
    images, captions = run.images.vectors, run.captions.vectors  # type: ignore[union-attr] # both are there
    products = [spend(lambda: images @ captions.T) for _ in range(3)]
    pairs = {"cross": [(images, captions)], "within": [(captions, captions), (images, images)]}
    pairs["all"] = [*pairs["cross"], *pairs["within"]]
    bare = [spend(partial(multiply, *pair)) for pair in pairs.get(work, pairs["cross"])]
    alone = bare if work in pairs and work != "cross" else [min(products, key=lambda one: one.processor)]
    figures["product"] = min(one.wall for one in products)
    bare_time = sum(one.wall for one in bare)
    figures |= {
        "ratio": took.wall / figures["product"],
        "bare_ratio": bare_time / figures["product"],
        "over_bare": took.wall / bare_time,
        "beyond": took.processor - sum(one.processor for one in alone),
    }
    figures["parsing"] = spend(lambda: parse_alone(library.files_used())).processor
    return figures | ({"peer": spend(lambda: peer_scores(run)).wall} if peer else {})


def random_run(library: Library) -> EmbeddingsRun:
    """Standard normal vectors for the real test ids."""
    from cxc_eccv.runs import EmbeddingsRun
    from cxc_eccv.types import Embeddings

    random = np.random.default_rng(0)
    ids = library.split("test").images["image_id"].to_numpy(), library.split("test").captions["caption_id"].to_numpy()
    images, captions = (Embeddings(one, random.standard_normal((one.size, WIDTH), dtype=np.float32)) for one in ids)
    return EmbeddingsRun(images, captions)


def read_raw_files(library: Library) -> None:
    """Read what the tasks need, so that only the work itself is timed."""
    library.split("test")
    library.path("coco_test_ids")
    for name in ("flickr8k_split", "flickr30k"):
        if hasattr(library, name):  # another commit may have no such task
            getattr(library, name)("test")
    for kind in ("sts", "sis", "sits"):
        library.split("test").ratings(kind)
    for direction in ("i2t", "t2i"):
        library.split("test").eccv("eccv", direction)
    library.split("test").categories()
    library.split("test").entailment()


def multiply(rows: NDArray[np.float32], columns: NDArray[np.float32]) -> None:
    """The bare product in blocks, into one array."""
    out = np.empty((ROWS_AT_ONCE, len(columns)), dtype=np.float32)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        np.matmul(rows[start : start + ROWS_AT_ONCE], columns.T, out=out)


def peer_scores(run: EmbeddingsRun) -> None:
    """All metrics of the eccv_caption package on full rankings, sorting included."""
    from eccv_caption import Metrics

    sides = run.images, run.captions
    scores = sides[0].vectors @ sides[1].vectors.T  # type: ignore[union-attr] # both are there
    ids = [side.ids for side in sides if side is not None]
    i2t = {int(key): ids[1][order].tolist() for key, order in zip(ids[0], np.argsort(-scores, axis=1), strict=True)}
    t2i = {int(key): ids[0][order].tolist() for key, order in zip(ids[1], np.argsort(-scores.T, axis=1), strict=True)}
    names = ["coco_1k_recalls", "coco_5k_recalls", "cxc_recalls", "eccv_map_at_r", "eccv_rprecision", "eccv_r1"]
    Metrics().compute_all_metrics(i2t, t2i, target_metrics=names, Ks=[1, 5, 10])


class Spent(NamedTuple):
    """Wall-clock and processor seconds of a call, and the system's part of the latter."""

    wall: float
    processor: float
    system: float


def spend(work: Callable[[], object]) -> Spent:
    """What one call takes, in all threads of the process together."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    return Spent(wall, after.ru_utime - before.ru_utime + system, system)


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.path.append(str(ROOT))  # behind PYTHONPATH, which may name another tree
    main()
