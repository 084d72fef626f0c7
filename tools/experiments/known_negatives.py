"""Does the order of models change when false and true negatives are known? Flickr8k's judged pairs.

    CXC_ECCV_DATA=mirror python tools/experiments/known_negatives.py minilm.npz --chart docs/assets/known_negatives.svg

A file of caption vectors gives two models, an image standing for the largest or mean cosine with its other captions;
TF-IDF bags of words and of three letters give four more. Noisy models are MiniLM's scores with seeded noise, so that
many models lie close. Each metric ranks all of them; the interval of a rank is that of 2,000 bootstrap draws of the
queries, each of a different image.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.cli.demo import TfIdf
from cxc_eccv.evaluation import evaluate
from cxc_eccv.judgments.flickr8k import LINKED, flickr8k_verdicts
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.ranking import ranked
from cxc_eccv.runs import EmbeddingsRun, ScoresRun, load_embeddings
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.untrained.other_captions import score_by_other_captions
from cxc_eccv.types import Embeddings, FloatArray, Judgments, PositiveRanks

MEASURES = {
    "original links, R@1": ("flickr8k_links", "recall_at_1"),
    "human positives, mAP@R": ("flickr8k_human", "map_at_r"),
    "human positives, R@1": ("flickr8k_human", "recall_at_1"),
    "judged only, mAP@R": ("flickr8k_human", "judged_only_map_at_r"),
    "judged only, R@1": ("flickr8k_human", "judged_only_recall_at_1"),
    "bpref": ("flickr8k_human", "bpref"),
}
NOISE = (0.1, 0.2, 0.3, 0.4)
DRAWS = 2_000


def main() -> None:
    """Print a table of values and ranks for each direction, and draw the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path, help="caption vectors of Flickr8k's test split")
    parser.add_argument("--chart", type=Path, help="SVG file of the ranks")
    arguments = parser.parse_args()
    library = Library()
    models = make_models(library, load_embeddings(arguments.vectors))
    for direction in ("i2t", "t2i"):
        values = {name: measure(library, run, direction) for name, run in models.items()}
        print_table(direction, values)
        if arguments.chart is not None and direction == "i2t":
            draw_chart(values, arguments.chart)


def make_models(library: Library, vectors: EmbeddingsRun) -> dict[str, ScoresRun]:
    """Name to scores."""
    content = library.split("test", "flickr8k")
    texts = library.split("train", "flickr8k").captions["text"].to_pylist()
    own = content.captions["text"].to_pylist()
    words = count_words(texts, own)
    letters = count_words(*([cut(text) for text in some] for some in (texts, own)))
    models = {
        f"{name}, {pool}": score_by_other_captions(run, content, pool)
        for name, run in (
            ("MiniLM", vectors),
            ("TF-IDF", EmbeddingsRun(None, Embeddings(content.caption_ids, words))),
            ("letters", EmbeddingsRun(None, Embeddings(content.caption_ids, letters))),
        )
        for pool in ("max", "mean")
    }
    clean = models["MiniLM, mean"]
    random = np.random.default_rng(0)
    for noise in NOISE:
        scores = clean.scores + noise * clean.scores.std() * random.standard_normal(clean.scores.shape).astype(
            np.float32
        )
        models[f"MiniLM, mean, noise {noise}"] = ScoresRun(clean.image_ids, clean.caption_ids, scores)
    return models


def count_words(texts: list[str], own: list[str]) -> NDArray[np.float32]:
    """(P, V) TF-IDF vectors of ``own``, with the words and weights of ``texts``."""
    bag = TfIdf.fit(texts).encode(own).toarray().astype(np.float32)
    bag[~bag.any(axis=1)] = 1e-6  # captions of unknown words alone: like all others a little
    return np.asarray(bag)


def cut(text: str) -> str:
    """The text with every word replaced by its sequences of three letters."""
    return " ".join(word[at : at + 3] for word in text.split() for at in range(max(1, len(word) - 2)))


def measure(library: Library, run: ScoresRun, direction: str) -> dict[str, FloatArray]:
    """Measure to (1,000,) values of the queries, which are the same for all."""
    report = evaluate(run, f"flickr8k_human/{direction}", data_dir=library, per_query=True, intervals="none")
    assert report.per_query is not None  # noqa: S101 - asked for
    table = report.per_query.to_pandas()
    of_metric = {metric: rows.sort_values("query_id")["value"].to_numpy() for metric, rows in table.groupby("metric")}
    of_metric["links"] = hits_of_links(library, run, direction)
    return {
        name: of_metric["links" if task == "flickr8k_links" else metric] for name, (task, metric) in MEASURES.items()
    }


def hits_of_links(library: Library, run: ScoresRun, direction: str) -> FloatArray:
    """R@1 of the original links alone, in the gallery of the task ``flickr8k_human``."""
    judged = flickr8k_verdicts(library.split("test", "flickr8k"), direction)
    linked = np.asarray(judged.gains) == LINKED
    queries = judged.query_ids[judged.rows[linked]]
    items = judged.gallery_ids[judged.indices[linked]]
    links = Judgments.from_pairs(judged.query_ids, judged.gallery_ids, queries, items)
    ranks = ranked(run).rank(links, direction)
    hits = recall_at_k(ranks if isinstance(ranks, PositiveRanks) else ranks.ranks, k=1)
    return np.asarray(hits[np.argsort(links.query_ids)])


def rank_intervals(values: Mapping[str, FloatArray]) -> dict[str, tuple[int, int, int]]:
    """Rank of each model by its mean, with the 95% interval of bootstrap draws of the queries."""
    table = np.stack(list(values.values()))
    random = np.random.default_rng(0)
    weights = random.multinomial(table.shape[1], np.full(table.shape[1], 1 / table.shape[1]), DRAWS)
    drawn = table @ weights.T
    ranks = 1 + (drawn[None] > drawn[:, None]).sum(axis=1)
    means = table.mean(axis=1)
    own = 1 + (means[None] > means[:, None]).sum(axis=1)
    low, high = np.quantile(ranks, [0.025, 0.975], axis=1, method="nearest")
    return {name: (int(a), int(b), int(c)) for name, a, b, c in zip(values, own, low, high, strict=True)}


def print_table(direction: str, values: Mapping[str, Mapping[str, FloatArray]]) -> None:
    """A Markdown table: value in percent, rank and its interval of every model under every measure."""
    ranks = {name: rank_intervals({model: each[name] for model, each in values.items()}) for name in MEASURES}
    print(f"\n{direction}\n\n| model | {' | '.join(MEASURES)} |\n|---|{'---|' * len(MEASURES)}")
    for model, each in values.items():
        cells = []
        for name in MEASURES:
            rank, low, high = ranks[name][model]
            cells.append(f"{100 * each[name].mean():.1f}: {rank} [{low}, {high}]")
        print(f"| {model} | {' | '.join(cells)} |")


def draw_chart(values: Mapping[str, Mapping[str, FloatArray]], path: Path) -> None:
    """Ranks with intervals, a column for each measure."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "known negatives", "svg.fonttype": "none"}
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    for place, name in enumerate(MEASURES):
        found = rank_intervals({model: each[name] for model, each in values.items()})
        for number, (model, (rank, low, high)) in enumerate(found.items()):
            x = place + 0.07 * (number - len(found) / 2)
            line = axes.plot([x, x], [low, high], color=f"C{number}", linewidth=2)
            axes.plot(x, rank, "o", color=line[0].get_color(), label=model if place == 0 else None)
    axes.set_xticks(range(len(MEASURES)), [name.replace(", ", ",\n") for name in MEASURES], fontsize="small")
    axes.invert_yaxis()
    axes.set_ylabel("rank, with 95% interval")
    figure.legend(loc="outside right upper", fontsize="small")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
