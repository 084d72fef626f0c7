"""Time and memory of the evaluation, as ratios to the bare matrix product M measured in the same process.

The evaluation is the first call in a fresh process, after imports and after the raw files are read. The embeddings are
random, which is the slowest case. ``bare`` is every product of the work, without counting. With ``--peer`` the PyPI
package eccv_caption scores full rankings of the same embeddings (about a minute and 12 GB).

Example:
    CXC_ECCV_DATA=mirror python tools/bench/evaluate.py --repeat 3
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

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
COLUMNS = {
    "M (s)": "product",
    "time (s)": "time",
    "time/M": "ratio",
    "bare/M": "bare_ratio",
    "time/bare": "over_bare",
    "peak MB": "peak_mb",
}


def main() -> None:
    """Run every measurement in its own process and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=WORKS, action="append", help="default: each")
    parser.add_argument("--repeat", type=int, default=3, help="processes per work; the median ratio is shown")
    parser.add_argument("--peer", action="store_true", help="also time the eccv_caption package")
    parser.add_argument("--child", choices=WORKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measured(options.child, peer=options.peer)))
        return
    from cxc_eccv.ranking.kernels import COMPILED

    print(f"scores are counted by {'the compiled kernels' if COMPILED else 'NumPy'}")
    print("".join(f"{title:>10}" for title in ("work", *COLUMNS, "judging")))
    for work in options.work or WORKS:
        runs = [in_fresh_process(work, peer=options.peer and work == "cross") for _ in range(options.repeat)]
        middle = sorted(runs, key=lambda run: run["ratio"])[len(runs) // 2]
        print(f"{work:>10}" + "".join(f"{middle[name]:10.2f}" for name in (*COLUMNS.values(), "judging")))
        if "peer" in middle:
            print(f"eccv_caption, full rankings: {middle['peer']:.1f} s, {middle['peer'] / middle['time']:.0f} x ours")


def in_fresh_process(work: str, *, peer: bool) -> dict[str, float]:
    """What :func:`measured` gives in a process of its own."""
    command = [sys.executable, __file__, "--child", work, *(["--peer"] if peer else [])]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


def measured(work: str, *, peer: bool) -> dict[str, float]:
    """Seconds, ratios and megabytes of one work; ``judging`` is the part of ``time`` that builds the judgments."""
    from cxc_eccv.evaluation import evaluate
    from cxc_eccv.evaluation.select import select
    from cxc_eccv.sources.library import Library

    tasks, metrics = WORKS[work]
    library = Library()
    before = peak_megabytes()
    run = random_run(library)
    read_raw_files(library)
    time_taken = seconds(lambda: evaluate(run, tasks, metrics=metrics, data_dir=library, progress=False))
    figures = {"time": time_taken, "peak_mb": peak_megabytes() - before}
    figures["judging"] = seconds(lambda: select(run, tasks, library, "test", metrics))
    images, captions = run.images.vectors, run.captions.vectors  # type: ignore[union-attr] # both are there
    figures["product"] = min(seconds(lambda: images @ captions.T) for _ in range(3))
    pairs = {"cross": [(images, captions)], "within": [(captions, captions), (images, images)]}
    pairs["all"] = [*pairs["cross"], *pairs["within"]]
    bare = sum(seconds(partial(products, *pair)) for pair in pairs.get(work, pairs["cross"]))
    figures |= {
        "ratio": time_taken / figures["product"],
        "bare_ratio": bare / figures["product"],
        "over_bare": time_taken / bare,
    }
    return figures | ({"peer": seconds(lambda: peer_scores(run))} if peer else {})


def random_run(library: Library) -> EmbeddingsRun:
    """Standard normal vectors for the real test ids."""
    from cxc_eccv.runs import EmbeddingsRun
    from cxc_eccv.types import Embeddings

    random = np.random.default_rng(0)
    ids = library.images("test")["image_id"].to_numpy(), library.captions("test")["caption_id"].to_numpy()
    images, captions = (Embeddings(one, random.standard_normal((one.size, WIDTH), dtype=np.float32)) for one in ids)
    return EmbeddingsRun(images, captions)


def read_raw_files(library: Library) -> None:
    """Read what the tasks need, so that only the work itself is timed."""
    library.fold_order()
    library.flickr30k("test")
    for kind in ("sts", "sis", "sits"):
        library.cxc(kind, "test")
    for direction in ("i2t", "t2i"):
        library.eccv("eccv", direction)
    library.categories("test")
    library.entailment("test")


def products(rows: NDArray[np.float32], columns: NDArray[np.float32]) -> None:
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


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()
