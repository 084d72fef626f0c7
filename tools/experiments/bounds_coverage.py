"""Do bounds and expected values cover the number that all judgments give? Judgments are hidden to find out.

    CXC_ECCV_DATA=mirror python tools/experiments/bounds_coverage.py minilm.npz

The truth is a number under all judged pairs: those of Flickr8k's crowd, or those that CxC rated (positive from 3 of 5)
of 1,000 images of COCO's test split. A draw hides a share of the judged pairs; original links stay. Bounds range over
every pair without a label. Expected values take pairs that nobody ever judged as negative, as the truth does, and give
a hidden pair a probability learnt from the kept pairs: the share of positives among those with its text cosine (an
isotonic regression), or a logistic regression on the text cosine and the model's rank of the pair. The first interval
of an expected value is the normal one of random labels. The second has the 2.5% and 97.5% quantiles of values that are
simulated with random labels, from probabilities that are learnt anew in each of 50 bootstrap draws of the images.
``minilm.npz`` has vectors of Flickr8k's test captions.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from known_negatives import make_models
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from cxc_eccv.cli.demo import TfIdf
from cxc_eccv.evaluation.bounds.extremes import bound_ranks, find_rank_extremes
from cxc_eccv.evaluation.bounds.retrieved import Retrieved, read_tops, retrieve
from cxc_eccv.judgments.flickr8k import FOUND, LINKED, flickr8k_verdicts
from cxc_eccv.judgments.merging import coco_links, judged_pairs, merged_qrels
from cxc_eccv.metrics.kinds import Variant
from cxc_eccv.ranking.by_scores import rank_rows
from cxc_eccv.registry import metric_labelled
from cxc_eccv.runs import EmbeddingsRun, load_embeddings
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.untrained.other_captions import score_by_other_captions
from cxc_eccv.types import Embeddings, FloatArray, IntArray, Judgments, PositiveRanks, find_positions

Flags = NDArray[np.bool_]

MODELS = (("MiniLM, max", "i2t"), ("TF-IDF, max", "i2t"), ("MiniLM, max", "t2i"), ("MiniLM, mean, noise 0.4", "i2t"))
HIDDEN = (0.1, 0.3, 0.9)
DEPTH = 50
SHALLOW = ("recall_at_1", "recall_at_5", "recall_at_10", "mrr")
DEEP = ("r_precision", "map_at_r")
DEEP_EVERY = 20
"""Metrics at R take long: they are computed in every 20th draw."""
RECALLS = (1, 10)
RESAMPLES = 50
SIMULATED = 20
COSINES = 100
LEAST_RANKS = (2, 4, 11, 51)
"""Quantiles of the cosine, and the ranks from which on a pair is in the next cell."""
CXC_IMAGES = 1_000
WORD_DIMENSIONS = 512


@dataclass
class Setting:
    """The scores of one model in one direction, and the judged pairs."""

    name: str
    query_ids: IntArray
    gallery_ids: IntArray
    scores: FloatArray  # (Q, N)
    rows: IntArray  # (P,) judged pairs
    columns: IntArray
    positive: Flags  # (P,)
    linked: Flags  # (P,) never hidden
    images: IntArray  # (P,) numbers of the images
    cosines: FloatArray  # (P,) of the text model

    @cached_property
    def sorted_pairs(self) -> tuple[IntArray, IntArray]:
        """The (P,) judged pairs as numbers in ascending order, and their places."""
        pairs = self.rows * self.gallery_ids.size + self.columns
        order = np.argsort(pairs)
        return pairs[order], order

    def rank(self, kept: Flags) -> tuple[Retrieved, PositiveRanks]:
        """The top of every query with the kept labels, and the ranks of the kept positives."""
        queries = self.query_ids[self.rows]
        items = self.gallery_ids[self.columns]
        chosen = kept & self.positive
        judged = Judgments.from_pairs(self.query_ids, self.gallery_ids, queries[chosen], items[chosen])
        tops = read_tops(judged, (queries[kept], items[kept]), DEPTH)
        ranks = rank_rows(lambda rows: self.scores[rows], self.query_ids, self.gallery_ids, {"": judged}, tops)[""]
        return retrieve(judged, tops, ranks), ranks

    def calibrators(self) -> dict[str, Calibrator]:
        """The two ways to learn probabilities."""
        of_pairs = self.scores[self.rows, self.columns]
        ranks = np.array([1 + np.sum(self.scores[row] > at) for row, at in zip(self.rows, of_pairs, strict=True)])
        cell = np.searchsorted(np.quantile(self.cosines, np.linspace(0, 1, COSINES + 1)[1:-1]), self.cosines)
        groups = np.searchsorted(LEAST_RANKS, ranks, side="right")
        both = cell * (len(LEAST_RANKS) + 1) + groups
        columns = (self.cosines, self.cosines**2, np.log2(ranks), (ranks == 1).astype(np.float64))
        size = both.max() + 1
        sums = [np.bincount(both, weights=column, minlength=size) for column in (np.ones(both.size), *columns)]
        features = np.stack([np.ones(size), *(total / np.maximum(sums[0], 1) for total in sums[1:])], axis=1)
        return {"cosine": Calibrator(self, cell, None), "cosine and rank": Calibrator(self, both, features)}


class Calibrator:
    """Learns the probability of a positive in each cell of judged pairs."""

    def __init__(self, setting: Setting, cell: IntArray, features: FloatArray | None) -> None:
        self.setting = setting
        self.cell = cell
        self.features = features

    def learn(self, kept: Flags, weights: IntArray) -> FloatArray:
        """(B, C) probabilities from the kept pairs, for (B, I) weights of the images."""
        setting = self.setting
        n_cells = int(self.cell.max()) + 1
        judged = kept & ~setting.linked
        keys = setting.images[judged] * n_cells + self.cell[judged]
        shape = (weights.shape[1], n_cells)
        totals, positives = (
            np.bincount(keys, weights=values, minlength=shape[0] * shape[1]).reshape(shape)
            for values in (np.ones(keys.size), setting.positive[judged].astype(np.float64))
        )
        counts, hits = (weights.astype(np.float64) @ table for table in (totals, positives))
        if self.features is not None:
            return fit_logistic(self.features, counts, hits)
        overall = hits.sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
        shares = (hits + overall) / (counts + 1)
        return np.stack([isotonic_regression(row, weights=n + 1).x for row, n in zip(shares, counts, strict=True)])


def fit_logistic(features: FloatArray, counts: FloatArray, hits: FloatArray) -> FloatArray:
    """(B, C) probabilities of B regressions on (C, F) features, by Newton's method with a slight ridge."""
    beta = np.zeros((len(counts), features.shape[1]))
    ridge = 0.01 * np.eye(features.shape[1])
    for _ in range(10):
        p = 1 / (1 + np.exp(-np.clip(beta @ features.T, -30, 30)))
        slope = (hits - counts * p) @ features - beta @ ridge
        weighted = (counts * p * (1 - p))[:, None, :] * features.T
        beta += np.linalg.solve(weighted @ features + ridge, slope[..., None])[..., 0]
    return np.asarray(1 / (1 + np.exp(-np.clip(beta @ features.T, -30, 30))))


def main() -> None:
    """Print a Markdown table of both promises."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path, help="vectors of Flickr8k's test captions")
    parser.add_argument("--draws", type=int, default=200, help="draws of hidden pairs")
    arguments = parser.parse_args()
    library = Library()
    print(
        "| data, model | hidden | bounds that cover | values of queries outside | R@K: truth | "
        "probabilities by | mean error | covered by labels alone | and probabilities |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for setting in flickr8k_settings(library, load_embeddings(arguments.vectors)):
        for share in HIDDEN:
            check(setting, share, arguments.draws)
    for share in HIDDEN:
        check(cxc_setting(library), share, arguments.draws)


def flickr8k_settings(library: Library, vectors: EmbeddingsRun) -> Iterator[Setting]:
    """Models on Flickr8k's judged captions; the text cosine is MiniLM's."""
    models = make_models(library, vectors)
    text = models["MiniLM, max"]
    for name, direction in MODELS:
        run = models[name]
        judged = flickr8k_verdicts(library.split("test", "flickr8k"), direction)
        gains = np.asarray(judged.gains)
        forward = direction == "i2t"
        captions = find_positions(judged.gallery_ids if forward else judged.query_ids, run.caption_ids)[0]
        scores, texts = (
            np.ascontiguousarray(some[:, captions] if forward else some[:, captions].T)
            for some in (run.scores, text.scores)
        )
        yield Setting(
            f"Flickr8k {direction}, {name}",
            judged.query_ids,
            judged.gallery_ids,
            scores,
            judged.rows,
            judged.indices,
            gains >= min(LINKED, FOUND),
            gains == LINKED,
            judged.rows if forward else judged.indices,
            texts[judged.rows, judged.indices],
        )


def cxc_setting(library: Library) -> Setting:
    """A projected bag of words on CxC's ratings, from images to captions."""
    content = library.split("test")
    random = np.random.default_rng(0)
    words = TfIdf.fit(library.split("validation").captions["text"].to_pylist())
    bag = words.encode(content.captions["text"].to_pylist())
    vectors = bag @ random.standard_normal((bag.shape[1], WORD_DIMENSIONS)).astype(np.float32)
    vectors[~vectors.any(axis=1)] = 1
    run = score_by_other_captions(EmbeddingsRun(None, Embeddings(content.caption_ids, vectors)), content)
    asked = np.sort(random.choice(run.image_ids, CXC_IMAGES, replace=False))
    images, captions = judged_pairs(library.split("test"), "i2t", ["coco", "cxc"])
    truth = merged_qrels(library.split("test"), "i2t")
    links = coco_links(library.split("test"), "i2t")
    rows, chosen = find_positions(images, asked)
    columns = find_positions(captions, run.caption_ids)[0]
    scores = run.scores[find_positions(asked, run.image_ids)[0]]
    rows = rows[chosen]
    columns = columns[chosen]
    return Setting(
        "CxC i2t, bag of words",
        asked,
        run.caption_ids,
        scores,
        rows,
        columns,
        _are_positive(truth, asked[rows], run.caption_ids[columns]),
        _are_positive(links, asked[rows], run.caption_ids[columns]),
        rows,
        scores[rows, columns],
    )


def check(setting: Setting, share: float, draws: int) -> None:
    """Print the rows of one setting."""
    _, ranks = setting.rank(np.ones(setting.rows.size, dtype=bool))
    truth = {label: _values(label, ranks) for label in (*SHALLOW, *DEEP)}
    calibrators = setting.calibrators()
    covered, outside = np.zeros((2, 2), dtype=np.int64)  # numbers or values of queries, and how many were looked at
    errors: dict[tuple[str, int], list[Sequence[float]]] = {}
    for seed in range(draws):
        kept = setting.linked | (np.random.default_rng(seed).random(setting.rows.size) >= share)
        retrieved, _ = setting.rank(kept)
        for label in (*SHALLOW, *(DEEP if seed % DEEP_EVERY == 0 else ())):
            low, high = find_rank_extremes(Variant[Any](*metric_labelled(label)), retrieved)
            within = (low - 1e-9 <= truth[label]) & (truth[label] <= high + 1e-9)
            covered += [int(low.mean() - 1e-9 <= truth[label].mean() <= high.mean() + 1e-9), 1]
            outside += [int(np.sum(~within)), within.size]
        for name, calibrator in calibrators.items():
            for k, result in zip(RECALLS, expect(calibrator, retrieved, kept, seed), strict=True):
                errors.setdefault((name, k), []).append([*result, truth[f"recall_at_{k}"].mean()])
    print_rows(setting.name, share, covered, outside, errors)


def expect(calibrator: Calibrator, retrieved: Retrieved, kept: Flags, seed: int) -> Iterator[tuple[float, ...]]:
    """Each expected recall, and the ends of both intervals."""
    setting = calibrator.setting
    cell = calibrator.cell
    columns = find_positions(retrieved.ids, setting.gallery_ids)[0]
    wanted = np.arange(len(columns))[:, None] * setting.gallery_ids.size + columns
    pairs, order = setting.sorted_pairs
    found = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
    places = order[found]
    hidden = (pairs[found] == wanted) & ~kept[places]
    n_images = int(setting.images.max()) + 1
    n_queries = len(hidden)
    random = np.random.default_rng(seed)
    drawn = random.multinomial(n_images, np.full(n_images, 1 / n_images), RESAMPLES)
    probabilities = calibrator.learn(kept, np.vstack([np.ones((1, n_images), int), drawn]))
    for k in RECALLS:
        missed = retrieved.ranks.best > k
        rows, ranked = np.nonzero(hidden[missed, :k])
        nones = np.ones((len(probabilities), int(missed.sum())))
        np.multiply.at(nones.T, rows, 1 - probabilities[:, cell[places[missed][rows, ranked]]].T)
        recalls = 1 - nones.sum(axis=1) / n_queries
        if seed == 0:
            chances = np.where(hidden, probabilities[0][cell[places]], 0.0)
            exact = bound_ranks(Variant[Any](*metric_labelled(f"recall_at_{k}")), retrieved, chances).expected
            if exact is None or abs(exact - recalls[0]) > 0.001:  # ties differ
                raise ValueError(f"the expected R@{k} is {exact}, without ties {recalls[0]}")
        of_labels = 1.96 * np.sqrt((nones[0] * (1 - nones[0])).sum()) / n_queries
        simulated = random.random((SIMULATED, *nones[1:].shape)) >= nones[1:]
        missing = int(missed.sum())
        low, high = np.quantile(
            1 - (missing - simulated.sum(axis=2)) / n_queries, [0.025, 0.975], method="inverted_cdf"
        )
        yield recalls[0], recalls[0] - of_labels, recalls[0] + of_labels, low, high


def print_rows(
    name: str, share: float, covered: IntArray, outside: IntArray, errors: dict[tuple[str, int], list[Sequence[float]]]
) -> None:
    """A row for each way to calibrate and each K."""
    for (cells, k), rows in errors.items():
        expected, *ends, truth = np.array(rows).T
        error = expected - truth
        alone, both = ((low - 1e-9 <= truth) & (truth <= high + 1e-9) for low, high in (ends[:2], ends[2:]))
        print(
            f"| {name} | {share:.0%} | {covered[0]} of {covered[1]} | {outside[0]} of {outside[1]:,} | "
            f"R@{k}: {100 * truth[0]:.1f} | {cells} | {100 * error.mean():+.2f} (SD {100 * error.std():.2f}) | "
            f"{alone.mean():.1%} | {both.mean():.1%}, ±{50 * (ends[3] - ends[2]).mean():.2f} |",
            flush=True,
        )


def _values(label: str, ranks: PositiveRanks) -> FloatArray:
    spec, parameters = metric_labelled(label)
    return spec.function(ranks, **parameters)


def _are_positive(judged: Judgments, queries: IntArray, items: IntArray) -> Flags:
    size = judged.gallery_ids.size
    rows = find_positions(queries, judged.query_ids)[0]
    columns = find_positions(items, judged.gallery_ids)[0]
    return np.isin(rows * size + columns, judged.rows * size + judged.indices)


if __name__ == "__main__":
    main()
