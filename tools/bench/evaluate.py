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

Other works stand beside an evaluation; each runs in this process, and each line ends with a ratio to its yardstick:

    rankings   top-50 lists, and reading them from files; beside the eccv_caption package on the same lists
    spearman   the bootstrap of STS, SIS and SITS; beside scipy.stats.spearmanr for each sample
    failures   the four numbers of 25,000 failures; beside networkx, as their paper matched (needs WordNet)
    build      all datasets from the raw files; beside json and csv alone

Example:
    CXC_ECCV_DATA=mirror python tools/bench/evaluate.py --repeat 3
    CXC_ECCV_DATA=mirror python tools/bench/evaluate.py --work spearman
    NLTK_DATA=mirror/nltk_data python tools/bench/evaluate.py --work failures
"""

from __future__ import annotations

import argparse
import csv
import gzip
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
    from cxc_eccv.types import FloatArray, IntArray, RatedPairs
    from cxc_eccv.types.concept_pairs import Concepts

CROSS = ("coco_1k", "coco_5k", "cxc/i2t", "cxc/t2i", "eccv_caption")
WITHIN = ("cxc/t2t", "cxc/i2i")
TOP = (*CROSS, "plausible_match", "entailment")
SHALLOW = ("recall_at_k", "median_rank", "map_at_r", "r_precision", "rsum", "pmrp_at_50", "entail_at_k")
EVALUATIONS: dict[str, tuple[str | tuple[str, ...], tuple[str, ...] | None]] = {
    "cross": (CROSS, None),
    "top": (TOP, SHALLOW),
    "pmrp": (TOP, None),
    "within": (WITHIN, None),
    "all": ("all", None),
}
"""Tasks, and metrics or None for each task's own."""
WIDTH = 512
ROWS_AT_ONCE = 500
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

SHARED = ("eccv_caption", "cxc_rated", "coco_5k")
"""Tasks of the eccv_caption package for which top-50 lists are deep enough."""
OF_LISTS = ["eccv_map_at_r", "eccv_rprecision", "eccv_r1", "cxc_recalls", "coco_5k_recalls"]
"""Their metrics there; it has no intervals."""
DEPTH = 50
RATED = {"sts": "t2t", "sis": "i2i", "sits": "i2t"}
SAMPLES = 1_000
SAMPLES_OF_PEER = 100
FAILURES = 25_000
FAILURES_OF_PEER = 200
IMAGES_OF_FAILURES = 5_000
LIKE = {"COCO": (86, 3, 7), "Visual Genome": (2_000, 25, 35)}
"""Source to its number of concepts, and to the means of concepts and of instances in an image."""
REPEATS = 3
"""Calls of a work in this process, of which the quickest counts."""

Lists = dict[int, list[int]]

COMPARED = {"time": "time", "processor time": "processor", "processor time beyond the products": "beyond"}


def main() -> None:
    """Run every measurement in its own process and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=(*EVALUATIONS, *OTHERS), action="append", help="default: each evaluation")
    parser.add_argument("--repeat", type=int, default=3, help="processes per evaluation; the median is shown")
    parser.add_argument("--stages", action="store_true", help="also print where the processor time goes")
    parser.add_argument("--against", metavar="COMMIT", help="compare with another commit, in processes that alternate")
    parser.add_argument("--peer", action="store_true", help="also time the eccv_caption package")
    parser.add_argument("--child", choices=EVALUATIONS, help=argparse.SUPPRESS)
    parser.add_argument("--since", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.since, stages=options.stages, peer=options.peer)))
        return
    print(describe_machine())
    works = options.work or list(EVALUATIONS)
    measure_evaluations([work for work in works if work in EVALUATIONS], options)
    for work in works:
        if work in OTHERS:
            OTHERS[work]()


def measure_evaluations(works: Sequence[str], options: argparse.Namespace) -> None:
    """Print the table of these evaluations, with another commit's where one is named."""
    if not works:
        return
    with built_tree(options.against) if options.against else nullcontext() as other:
        print(table_row("work", COLUMNS))
        for work in works:
            flags = [*(["--stages"] * options.stages), *(["--peer"] * (options.peer and work == "cross"))]
            runs = []
            others = []
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
    from cxc_eccv.evaluation import evaluate
    from cxc_eccv.sources.library import Library

    first = {"imports": [time.time() - since, time.process_time()]}
    tasks, metrics = EVALUATIONS[work]
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
    images = run.images.vectors  # type: ignore[union-attr] # both are there
    captions = run.captions.vectors  # type: ignore[union-attr]
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


def parse_alone(names: Iterable[str]) -> None:
    """Parse raw files with json and csv alone, without any check: what every reader must at least do."""
    from cxc_eccv.sources.download import fetch

    for name in names:
        path = fetch(name, offline=True)
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if path.name.removesuffix(".gz").endswith(".json"):
            json.loads(data)
        elif path.name.removesuffix(".gz").endswith(".csv"):
            list(csv.reader(data.decode().splitlines()))


def measure_rankings() -> None:
    """Top-50 lists beside the eccv_caption package: with the raw files to read, and again without intervals."""
    import cxc_eccv as ce
    from cxc_eccv.sources.library import Library

    library = Library()
    content = library.split("test")
    random = np.random.default_rng(0)
    images = content.image_ids
    captions = content.caption_ids
    i2t = {query: random.choice(captions, DEPTH, replace=False).tolist() for query in images.tolist()}
    t2i = {query: random.choice(images, DEPTH, replace=False).tolist() for query in captions.tolist()}

    def score(tasks: str | Sequence[str], data: Library | None = None, **options: Any) -> None:  # noqa: ANN401
        ce.evaluate(i2t=i2t, t2i=t2i, tasks=tasks, data_dir=data or Library(), progress=False, **options)

    theirs = spend_least(partial(score_lists_with_peer, i2t, t2i)).wall
    print_ratio("eccv_caption", theirs, theirs)
    print_ratio("the same tasks", spend_least(partial(score, SHARED)).wall, theirs)
    print_ratio("all tasks", spend_least(partial(score, "all")).wall, theirs)
    again = partial(score, SHARED, library, confidence=None)
    again()
    print_ratio("the same tasks, again", spend_least(again).wall, theirs)
    with tempfile.TemporaryDirectory() as folder:
        for name, files in write_lists(Path(folder), {"i2t": i2t, "t2i": t2i}).items():
            print_ratio(f"read {name}", spend_least(partial(ce.load_run, *files)).wall, theirs)


def score_lists_with_peer(i2t: Lists, t2i: Lists) -> None:
    """What the eccv_caption package computes of the shared tasks, its own files read."""
    from eccv_caption import Metrics

    Metrics().compute_all_metrics(i2t, t2i, target_metrics=OF_LISTS, Ks=[1, 5, 10])


def write_lists(folder: Path, lists: dict[str, Lists]) -> dict[str, list[Path]]:
    """Write the lists in every form of file; gives form to files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = {"json": [folder / "run.json"], "parquet": [folder / "run.parquet"], "trec": []}
    (folder / "run.json").write_text(json.dumps(lists))
    columns: dict[str, list[Any]] = {"query_id": [], "direction": [], "item_ids": []}
    for direction, ranked_items in lists.items():
        columns["query_id"] += ranked_items
        columns["direction"] += [direction] * len(ranked_items)
        columns["item_ids"] += ranked_items.values()
        files["trec"].append(folder / f"run_{direction}.trec")
        with files["trec"][-1].open("w") as file:
            for query, items in ranked_items.items():
                file.writelines(f"{query} Q0 {item} {rank} {-rank} run\n" for rank, item in enumerate(items, 1))
    pq.write_table(pa.table(columns), folder / "run.parquet")
    return files


def measure_spearman() -> None:
    """The bootstrap Spearman of STS, SIS and SITS beside scipy, on random vectors moved towards the ratings.

    The plain loop draws with Python; the second peer takes our draws, so that the values can be compared. Both run a
    tenth of the samples and are scaled up: every sample costs them the same.
    """
    from cxc_eccv.judgments.merging import rated_pairs
    from cxc_eccv.metrics.bootstrap_spearman import bootstrap_spearman, query_draws
    from cxc_eccv.ranking import ranked
    from cxc_eccv.sources.library import Library

    library = Library()
    run = ranked(random_run(library))
    pairs = {kind: rated_pairs(library.split("test"), kind) for kind in RATED}
    scores = {}
    samples = {}
    theirs = {}
    for kind, direction in RATED.items():
        scores[kind] = 10 * run.compare(pairs[kind], direction) + pairs[kind].ratings

    def bootstrap() -> None:
        for kind in RATED:
            samples[kind] = bootstrap_spearman(pairs[kind], scores[kind], SAMPLES)

    def loop() -> None:
        for kind in RATED:
            loop_with_scipy(pairs[kind], scores[kind], draw_plainly(pairs[kind], SAMPLES_OF_PEER))

    def loop_over_our_draws() -> None:
        for kind in RATED:
            theirs[kind] = loop_with_scipy(pairs[kind], scores[kind], query_draws(pairs[kind], SAMPLES_OF_PEER))

    ours = spend(bootstrap).wall
    scale = SAMPLES / SAMPLES_OF_PEER
    print_ratio("bootstrap_spearman", ours, ours)
    print_ratio("plain loop with scipy", scale * spend(loop).wall, ours)
    print_ratio("our draws with scipy", scale * spend(loop_over_our_draws).wall, ours)
    differences = [np.abs(theirs[kind] - samples[kind][:SAMPLES_OF_PEER]).max() for kind in RATED]
    print(f"largest difference from scipy on the same draws: {max(differences):.1e}")


def draw_plainly(pairs: RatedPairs, n_samples: int) -> Iterator[list[int]]:
    """Rows of every sample, by the protocol as it reads: half of the queries, and one pair of each."""
    rows_of: dict[int, list[int]] = {}
    for row, query in enumerate(pairs.query_ids.tolist()):
        rows_of.setdefault(query, []).append(row)
    random = np.random.default_rng(0)
    queries = np.array(list(rows_of))
    for _ in range(n_samples):
        half = random.permutation(queries)[: queries.size // 2].tolist()
        parts = random.random(len(half))
        yield [rows_of[query][int(part * len(rows_of[query]))] for query, part in zip(half, parts, strict=True)]


def loop_with_scipy(pairs: RatedPairs, scores: FloatArray, draws: Iterable[IntArray | list[int]]) -> FloatArray:
    """Spearman of every draw."""
    from scipy.stats import spearmanr

    return np.array([spearmanr(pairs.ratings[rows], scores[rows]).statistic for rows in draws])


def measure_failures() -> None:
    """The four numbers of failures among random images beside networkx, in processor time of one thread.

    networkx matches a sample of the same failures with the same similarities, and its time is scaled up; it has to give
    the same values. The table of similarities is made once, and is not part of the four.
    """
    from cxc_eccv.sources.wordnet import load_wordnet

    corpus = load_wordnet()
    random = np.random.default_rng(0)
    objects = corpus.synset("physical_entity.n.01").closure(lambda synset: synset.hyponyms())
    names = sorted({synset.name() for synset in objects})
    for source, (vocabulary, n_concepts, n_instances) in LIKE.items():
        concepts = random.choice(names, vocabulary, replace=False).tolist()
        images = [draw_image(random, concepts, n_concepts, n_instances) for _ in range(IMAGES_OF_FAILURES)]
        print(f"{FAILURES:,} failures like {source}, {np.mean([*map(len, images)]):.1f} concepts an image")
        measure_failures_of(images, random)


def draw_image(random: np.random.Generator, names: Sequence[str], n_concepts: int, n_instances: int) -> Concepts:
    """What one image shows; some concepts are far more frequent than others."""
    places = np.unique((len(names) * random.uniform(size=1 + random.poisson(n_concepts - 1)) ** 2).astype(int))
    more = random.poisson(n_instances / n_concepts - 1, places.size)
    return {names[place]: random.uniform(0.001, 1, 1 + extra) for place, extra in zip(places, more, strict=True)}


def measure_failures_of(images: Sequence[Concepts], random: np.random.Generator) -> None:
    """The rows of one source."""
    from cxc_eccv.metrics.concept_agreement import concept_agreement
    from cxc_eccv.metrics.concept_enumeration import concept_enumeration
    from cxc_eccv.metrics.non_common_similarity import non_common_similarity
    from cxc_eccv.metrics.size_disagreement import size_disagreement
    from cxc_eccv.sources.wordnet import similarity_matrix
    from cxc_eccv.types.concept_pairs import ConceptPairs

    names = sorted({name for shown in images for name in shown})
    places = {name: place for place, name in enumerate(names)}
    table = similarity_matrix(names)

    def similarity(asked: Sequence[str]) -> FloatArray:
        rows = [places[name] for name in asked]
        return table[np.ix_(rows, rows)]

    chosen = random.integers(0, len(images), (FAILURES, 2)).tolist()
    truths = [images[truth] for truth, _ in chosen]
    retrieved = [images[shown] for _, shown in chosen]
    pairs = ConceptPairs(np.arange(FAILURES), truths, retrieved)
    few = ConceptPairs(np.arange(FAILURES_OF_PEER), truths[:FAILURES_OF_PEER], retrieved[:FAILURES_OF_PEER])
    theirs = []

    def match_all() -> None:
        for truth, shown in zip(few.truths, few.retrieved, strict=True):
            theirs.append(match_with_networkx(truth, shown, places, table))

    peer = spend(match_all).processor * FAILURES / FAILURES_OF_PEER
    ours = zip(non_common_similarity(few, similarity), size_disagreement(few), strict=True)
    np.testing.assert_allclose(list(ours), theirs, atol=1e-9)
    works: dict[str, Callable[[], object]] = {
        "check": partial(ConceptPairs, np.arange(FAILURES), truths, retrieved),
        "concept_agreement": partial(concept_agreement, pairs),
        "non_common_similarity": partial(non_common_similarity, pairs, similarity),
        "concept_enumeration": partial(concept_enumeration, pairs),
        "size_disagreement": partial(size_disagreement, pairs),
    }
    taken = {name: spend_least(work).processor for name, work in works.items()}
    for name, seconds in {**taken, "all four": sum(taken.values()), "networkx, NCS and SD": peer}.items():
        print_ratio(name, seconds, peer)


def match_with_networkx(
    truth: Concepts, shown: Concepts, places: dict[str, int], table: FloatArray
) -> tuple[float, float]:
    """NCS and SD of one failure, by the functions that the paper names."""
    import networkx
    from networkx.algorithms.bipartite import minimum_weight_full_matching

    graph = networkx.Graph()
    ncs = np.nan
    sizes = []
    for one in truth.keys() - shown.keys():
        for other in shown.keys() - truth.keys():
            graph.add_edge(one, other, weight=table[places[one], places[other]])
    if graph:
        matched = networkx.max_weight_matching(graph, maxcardinality=True)
        ncs = float(np.mean([table[places[one], places[other]] for one, other in matched]))
    for name in truth.keys() & shown.keys():
        graph = networkx.Graph()
        for row, one in enumerate(truth[name].tolist()):
            for column, other in enumerate(shown[name].tolist()):
                graph.add_edge(("truth", row), ("shown", column), weight=abs(one - other) / min(one, other))
        partners = minimum_weight_full_matching(graph, [("truth", row) for row in range(truth[name].size)])
        sizes += [graph.edges[node, other]["weight"] for node, other in partners.items() if node[0] == "truth"]
    return ncs, float(np.mean(np.array(sizes) >= 1)) if sizes else np.nan


def measure_build() -> None:
    """All datasets from the raw files, in two processes, beside json and csv alone on the same files in one."""
    from cxc_eccv.builders.folder_writing import build_folder

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        summary = build_folder(Path(folder) / "built", num_proc=2, progress=False)
        seconds = time.perf_counter() - start
    alone = spend(lambda: parse_alone(sorted(summary.provenance.sources))).wall
    print_ratio("json and csv alone", alone, alone)
    print_ratio("build, 2 processes", seconds, alone)


OTHERS: dict[str, Callable[[], None]] = {
    "rankings": measure_rankings,
    "spearman": measure_spearman,
    "failures": measure_failures,
    "build": measure_build,
}
"""Works that stand beside an evaluation."""


def print_ratio(name: str, seconds: float, yardstick: float) -> None:
    """One line: seconds, and their ratio to the yardstick's."""
    print(f"{name:>24}{seconds:10.2f} s{seconds / yardstick:10.4f}")


class Spent(NamedTuple):
    """Wall-clock and processor seconds of a call, and the system's part of the latter."""

    wall: float
    processor: float
    system: float


def spend(work: Callable[[], object]) -> Spent:
    """What one call takes, in all threads of the process together."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    work()
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    system = after.ru_stime - before.ru_stime
    return Spent(wall, after.ru_utime - before.ru_utime + system, system)


def spend_least(work: Callable[[], object]) -> Spent:
    """The least of a few calls: whatever else the machine does only adds."""
    calls = [spend(work) for _ in range(REPEATS)]
    return Spent(*(min(times) for times in zip(*calls, strict=True)))


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.path.append(str(ROOT))  # behind PYTHONPATH, which may name another tree
    main()
