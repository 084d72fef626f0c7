"""Time of top-50 lists, as ratios to the eccv_caption package on the same lists in the same process.

``shared`` are the tasks that the package has too and that 50 items are deep enough for, ``all`` is what they allow
altogether. Both begin with the dicts and a library that has read no file; ``shared, again`` has the files read and no
intervals, of which the package has none. ``read`` is ``load_run`` alone, for each form of a ranking file.

``--rows`` prints rows of the table of ``tools/gpu.sh`` instead: the ranks of random embeddings of COCO's numbers, a
fifth of them without a GPU, on the processor and on the GPU, as ratios to torch's product of the same matrices there.

Example:
    CXC_ECCV_DATA=mirror python tools/bench/rankings.py
    python tools/bench/rankings.py --rows
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

SHARED = ("eccv_caption", "cxc_rated", "coco_5k")
THEIRS = ["eccv_map_at_r", "eccv_rprecision", "eccv_r1", "cxc_recalls", "coco_5k_recalls"]
DEPTH = 50
REPEATS = 3

Lists = dict[int, list[int]]


def main() -> None:
    """Print a table."""
    import cxc_eccv as ce
    from cxc_eccv.sources.library import Library

    library = Library()
    ids = {side: getattr(library, side)("test")[f"{side[:-1]}_id"].to_numpy() for side in ("images", "captions")}
    random = np.random.default_rng(0)
    i2t, t2i = (
        {query: random.choice(ids[gallery], DEPTH, replace=False).tolist() for query in ids[queries].tolist()}
        for queries, gallery in (("images", "captions"), ("captions", "images"))
    )
    theirs = seconds(partial(peer_scores, i2t, t2i))
    print(f"{'work':>20}{'seconds':>10}{'ratio':>8}")
    show("eccv_caption", theirs, theirs)
    for name, tasks in (("shared", SHARED), ("all", "all")):
        taken = seconds(lambda tasks=tasks: ce.evaluate_rankings(i2t, t2i, tasks, data_dir=Library(), progress=False))  # type: ignore[misc]
        show(name, taken, theirs)
    again = partial(ce.evaluate_rankings, i2t, t2i, SHARED, data_dir=library, confidence=None, progress=False)
    again()
    show("shared, again", seconds(again), theirs)
    with tempfile.TemporaryDirectory() as folder:
        for name, files in written(Path(folder), {"i2t": i2t, "t2i": t2i}).items():
            show(f"read {name}", seconds(partial(ce.load_run, *files)), theirs)


def print_rows() -> None:
    """Rows of the table of ``tools/gpu.sh``: caption ranks of all images, five positives each."""
    import torch

    from cxc_eccv.ranking import Options, ranked
    from cxc_eccv.runs import EmbeddingsRun
    from cxc_eccv.types import Embeddings, Judgments

    images, width = 5_000 if torch.cuda.is_available() else 1_000, 512
    captions, random = 5 * images, np.random.default_rng(0)
    vectors = [random.standard_normal((count, width)).astype(np.float32) for count in (images, captions)]
    ids = [np.arange(len(side)) for side in vectors]
    run = EmbeddingsRun(Embeddings(ids[0], vectors[0]), Embeddings(ids[1], vectors[1]))
    requests = {"": ("i2t", Judgments.from_pairs(ids[0], ids[1], ids[1] % images, ids[1]))}
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        left, right = (torch.from_numpy(side).to(device) for side in vectors)
        bare = seconds(lambda left=left, right=right: (left @ right.T)[-1, -1].item())  # type: ignore[misc]
        options = [("NumPy", Options())] if device == "cpu" else []
        for name, chosen in [*options, (f"torch on {device}", Options(device=device))]:
            taken = seconds(lambda chosen=chosen: ranked(run, chosen).rank_all(requests))  # type: ignore[misc]
            what = f"rank {captions:,} captions for {images:,} images, {width} wide, {name}"
            print(f"| {what} | {taken:.2f} s | {taken / bare:.2f} x the product |")


def show(name: str, taken: float, theirs: float) -> None:
    """One row."""
    print(f"{name:>20}{taken:10.2f}{taken / theirs:8.2f}")


def peer_scores(i2t: Lists, t2i: Lists) -> None:
    """What the eccv_caption package computes of the shared tasks, its own files read."""
    from eccv_caption import Metrics

    Metrics().compute_all_metrics(i2t, t2i, target_metrics=THEIRS, Ks=[1, 5, 10])


def written(folder: Path, lists: dict[str, Lists]) -> dict[str, list[Path]]:
    """The lists in every form of file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "run.json").write_text(json.dumps(lists))
    rows = [(query, name, row) for name, own in lists.items() for query, row in own.items()]
    columns = dict(zip(("query_id", "direction", "item_ids"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "run.parquet")
    for name, own in lists.items():
        lines = (
            f"{query} Q0 {item} {rank} {-rank} run\n" for query, row in own.items() for rank, item in enumerate(row, 1)
        )
        (folder / f"run_{name}.trec").write_text("".join(lines))
    forms = {"json": ["run.json"], "parquet": ["run.parquet"], "trec": [f"run_{name}.trec" for name in lists]}
    return {form: [folder / name for name in names] for form, names in forms.items()}


def seconds(work: Callable[[], object]) -> float:
    """Shortest of a few calls: whatever else the machine does only adds."""
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    print_rows() if "--rows" in sys.argv else main()
