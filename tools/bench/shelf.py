"""Size and time of a shelf of seeded noisy scorers of the test split, and the time to score all of them again.

Seconds of the clock and of the processor; the ratio is to the evaluation of one scorer's embeddings.

Example:
    CXC_ECCV_DATA=mirror python tools/bench/shelf.py 25 /tmp/shelf
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from cxc_eccv.runs import EmbeddingsRun
    from cxc_eccv.sources.library import Library

WIDTH = 64
SOURCES = ("coco", "cxc", "eccv")


def main(n_models: int, folder: Path) -> None:
    """Make the shelf unless it is there, and print a table."""
    import cxc_eccv as ce
    from cxc_eccv.comparison import ScoredReport
    from cxc_eccv.runs.kept import SUFFIX
    from cxc_eccv.shelf import add_run, read_shelf, rescore
    from cxc_eccv.sources.library import Library

    library = Library()
    quiet: dict[str, Any] = {"progress": False}
    print(f"{'work':>28}{'clock':>9}{'processor':>11}{'ratio':>8}")
    run = noisy_run(library, 0)
    whole = show("evaluate embeddings", lambda: ce.evaluate(run, data_dir=library, sources=SOURCES, **quiet))
    for number in range(n_models):
        if not (folder / f"noise-{number}{SUFFIX}").is_file():
            file = folder / f"noise-{number}.npz"
            folder.mkdir(parents=True, exist_ok=True)
            ce.save_embeddings(file, noisy_run(library, number))
            add = partial(add_run, folder, file, data_dir=library, **quiet)
            show(f"shelf add, model {number}", add, whole)
            file.unlink()
    runs = read_shelf(folder)
    print(f"{'size of a run file':>28}{np.mean([run.size for run in runs]) / 1e6:9.1f} MB")
    show("read a run file", lambda: ce.load_run(folder / runs[0].file), whole)
    scored: list[ScoredReport] = []
    again = partial(rescore, folder, sources=SOURCES, data_dir=Library(), **quiet)
    show(f"rescore {len(runs)} models", lambda: scored.extend(again()), whole)
    show("compare them", lambda: ce.compare(*scored), whole)


def noisy_run(library: Library, seed: int) -> EmbeddingsRun:
    """Vectors of images, of noise around them, and of captions around both; noisier with every seed."""
    from cxc_eccv.runs import EmbeddingsRun
    from cxc_eccv.types import Embeddings, positions_of

    content, random = library.karpathy("test"), np.random.default_rng(seed)
    meaning = random.normal(size=(content.image_ids.size, WIDTH)).astype(np.float32)
    images = meaning + random.normal(size=meaning.shape).astype(np.float32)
    described = meaning[positions_of(content.caption_image_ids, content.image_ids)[0]]
    captions = described + (1 + seed / 100) * random.normal(size=described.shape).astype(np.float32)
    sides = Embeddings(content.image_ids, images), Embeddings(content.caption_ids, captions)
    return EmbeddingsRun(*sides, model=f"noise {seed}")


def show(name: str, work: Callable[[], object], whole: float | None = None) -> float:
    """One row; returns the seconds of the clock."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    taken, used = time.perf_counter() - clock, time.process_time() - processor
    print(f"{name:>28}{taken:9.1f}{used:11.1f}{taken / (whole or taken):8.2f}", flush=True)
    return taken


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main(int(sys.argv[1]), Path(sys.argv[2]))
