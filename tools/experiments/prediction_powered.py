"""Do intervals from a machine's probabilities and few people's answers hold? Pairs that people judged all of.

    CXC_ECCV_DATA=mirror python tools/experiments/prediction_powered.py minilm_flickr8k.npz \
        --coco minilm_val.npz minilm_test.npz

Flickr8k's crowd judged 47,109 pairs of an image and a caption of another; Crisscrossed Captions rates image-caption
pairs, positive from 3 on. Each experiment hides all labels but those of a drawn sample, and asks whether the interval
holds the value on all labels. "Width" is the mean width over that of people's answers alone, as many of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.cli.user_tables import read_probabilities
from cxc_eccv.evaluation.bounds import Retrieved, SamplingUnits, make_rank_units, make_top_units
from cxc_eccv.judgments.flickr8k import read_votes
from cxc_eccv.metrics.kinds import Variant
from cxc_eccv.registry import metric_labelled
from cxc_eccv.runs import ScoresRun, load_embeddings
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import Estimate, choose_probabilities, draw, estimate_mean, estimate_ratio
from cxc_eccv.studies.baselines.untrained.other_captions import score_by_other_captions
from cxc_eccv.types import FloatArray, IntArray, Judgments, PositiveRanks, TopK, find_positions
from cxc_eccv.unjudged.judges import PairValues

REPETITIONS = 1_000
ANSWERS = 1_000
DEPTH = 20
SHARE = 0.3
NOISE = 0.2
METRICS = ("recall_at_1", "recall_at_5", "mrr_at_10", "r_precision", "map_at_r")


class Pairs(NamedTuple):
    """Pairs that people judged."""

    images: IntArray  # (P,) ids
    captions: IntArray
    labels: FloatArray  # 1 or 0
    scores: ScoresRun  # largest cosine of every caption with the other captions of every image

    @property
    def cosines(self) -> FloatArray:
        """(P,) their entries of the scores."""
        rows = find_positions(self.images, self.scores.image_ids)
        columns = find_positions(self.captions, self.scores.caption_ids)
        return self.scores.scores[rows[0], columns[0]].astype(np.float64)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flickr8k", type=Path, help="caption vectors of Flickr8k's test split")
    parser.add_argument("--coco", type=Path, nargs=2, help="caption vectors of COCO's validation and test split")
    parser.add_argument("--judge", type=Path, help="another judge of Flickr8k's pairs: a file of probabilities")
    arguments = parser.parse_args()
    library = Library()
    flickr8k = read_flickr8k(library, arguments.flickr8k)
    fitted = fit_by_folds(flickr8k.images, expand(flickr8k.cosines), flickr8k.labels)
    judges = {"MiniLM, calibrated on other images": fitted, **useless_judges(fitted)}
    if arguments.judge is not None:
        values = PairValues(read_probabilities(arguments.judge), "probability", "probabilities")
        judges["given"] = values(flickr8k.images, flickr8k.captions)
    if arguments.coco is not None:
        splits = zip(("validation", "test"), arguments.coco, strict=True)
        val, test = (read_sits(library, split, path) for split, path in splits)
        compare_sits(library, val, test)
        judges["MiniLM, calibrated on CxC val"] = calibrate(val.cosines, val.labels)(flickr8k.cosines)
    compare("Flickr8k", flickr8k, judges)
    print(f"\nFlickr8k, over images too: coverage {cover_images(flickr8k, fitted):.1%}")
    compare_metrics(library, flickr8k, fitted)


def read_flickr8k(library: Library, path: Path) -> Pairs:
    """The crowd's verdicts on an image and a caption of another."""
    votes = read_votes(library.split("test", "flickr8k"))
    scores = score_by_other_captions(load_embeddings(path), library.split("test", "flickr8k"))
    kept = ~votes.linked
    images = votes.images[kept]
    captions = votes.captions[kept]
    labels = (votes.yes > votes.no)[kept].astype(np.float64)
    return Pairs(images, captions, labels, scores)


def read_sits(library: Library, split: str, path: Path) -> Pairs:
    """All rated pairs of an image and a caption."""
    table = library.split(split).ratings("sits")
    content = library.split(split)
    captions = np.asarray(table["left_id"])
    images = np.asarray(table["right_id"])
    scores = score_by_other_captions(load_embeddings(path), content)
    return Pairs(images, captions, (np.asarray(table["rating"]) >= 3).astype(np.float64), scores)


def calibrate(cosines: FloatArray, labels: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Maps cosines to probabilities by logistic regression on the cosine and its square."""
    fitted = fit_logistic(expand(cosines), labels)
    return lambda others: fitted(expand(others))


def expand(cosines: FloatArray) -> FloatArray:
    """(P, 2) cosine and its square."""
    return np.stack([cosines, cosines**2], axis=1)


def fit_logistic(features: FloatArray, labels: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Maps (P, F) features to probabilities, by Newton's method."""
    design = np.column_stack([np.ones(len(features)), features])
    weights = np.zeros(design.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(-design @ weights))
        weights += np.linalg.solve((design * (p * (1 - p))[:, None]).T @ design, design.T @ (labels - p))
    return lambda others: 1 / (1 + np.exp(-weights[0] - others @ weights[1:]))


def fit_by_folds(images: IntArray, features: FloatArray, labels: FloatArray) -> FloatArray:
    """(P,) probabilities, each fitted on the (P, F) features of pairs of other images."""
    probabilities = np.empty_like(labels)
    folds = np.unique(images, return_inverse=True)[1] % 5
    for fold in range(5):
        train = folds != fold
        test = folds == fold
        probabilities[test] = fit_logistic(features[train], labels[train])(features[test])
    return probabilities


def useless_judges(probabilities: FloatArray) -> dict[str, FloatArray]:
    """Judges that know nothing of a pair."""
    random = np.random.default_rng(0)
    return {"random numbers": random.random(probabilities.size), "MiniLM, shuffled": random.permutation(probabilities)}


def repeat(truth: float, experiment: Callable[[np.random.Generator], Estimate]) -> tuple[float, float]:
    """Share of the intervals that hold the true value, and their mean width."""
    intervals = [experiment(np.random.default_rng(seed)) for seed in range(REPETITIONS)]
    widths = [interval.high - interval.low for interval in intervals]
    return float(np.mean([interval.low <= truth <= interval.high for interval in intervals])), float(np.mean(widths))


def measure(
    values: FloatArray,
    predicted: FloatArray,
    deviations: FloatArray,
    costs: IntArray | None = None,
    budget: int = ANSWERS,
) -> tuple[float, float]:
    """Coverage and width for units with all their values known."""
    chances = choose_probabilities(deviations, budget, costs=costs)

    def experiment(random: np.random.Generator) -> Estimate:
        drawn = draw(chances, random, costs=costs)
        return estimate_mean(predicted, drawn, values[drawn], chances[drawn])

    return repeat(float(values.mean()), experiment)


def compare(name: str, pairs: Pairs, judges: Mapping[str, FloatArray]) -> None:
    """Print a row per judge: coverage and width for pairs drawn uniformly, and by the judge's deviation."""
    labels = pairs.labels
    even = np.ones_like(labels)
    covered, alone = measure(labels, even, even)
    print(f"\n{name}: {labels.size:,} pairs, {labels.mean():.1%} positive, {ANSWERS:,} answers")
    print("| judge | uniform: coverage | width | active: coverage | width |\n|---|---:|---:|---:|---:|")
    print(f"| none | {covered:.1%} | 1.00 | | |")
    for judge, probabilities in judges.items():
        rows = [measure(labels, probabilities, even)]
        rows.append(measure(labels, probabilities, np.sqrt(probabilities * (1 - probabilities))))
        print(f"| {judge} | " + " | ".join(f"{covered:.1%} | {width / alone:.2f}" for covered, width in rows) + " |")


def compare_sits(library: Library, val: Pairs, test: Pairs) -> None:
    """Compare on test with judges calibrated on val: on all rated pairs, and on those of a caption of another image."""
    is_own = find_own(library, "test", test)
    cosine = "MiniLM, calibrated on val"
    probabilities = calibrate(val.cosines, val.labels)(test.cosines)
    of_val = find_own(library, "validation", val)
    others = calibrate(val.cosines[~of_val], val.labels[~of_val])(test.cosines)
    with_links = np.where(is_own, val.labels[of_val].mean(), others)
    compare("CxC SITS test", test, {cosine: probabilities, "the same, and original links": with_links})
    apart = Pairs(test.images[~is_own], test.captions[~is_own], test.labels[~is_own], test.scores)
    compare("CxC SITS test, captions of other images", apart, {cosine: others[~is_own]})


def find_own(library: Library, split: str, pairs: Pairs) -> NDArray[np.bool_]:
    """(P,) whether the caption was written for the image."""
    content = library.split(split)
    return np.asarray(content.caption_image_ids[find_positions(pairs.captions, content.caption_ids)[0]] == pairs.images)


def cover_images(pairs: Pairs, probabilities: FloatArray) -> float:
    """Coverage over draws of images and of pairs: each experiment draws as many images, with replacement."""
    order = np.argsort(pairs.images, kind="stable")
    starts = np.searchsorted(pairs.images[order], np.unique(pairs.images))
    by_image = np.split(order, starts[1:])

    def experiment(random: np.random.Generator) -> Estimate:
        rows = [by_image[place] for place in random.integers(len(by_image), size=len(by_image))]
        clusters = np.repeat(np.arange(len(rows)), [row.size for row in rows])
        units = np.concatenate(rows)
        labels = pairs.labels[units]
        p = probabilities[units]
        chances = choose_probabilities(np.sqrt(p * (1 - p)), ANSWERS)
        drawn = draw(chances, random)
        return estimate_mean(p, drawn, labels[drawn], chances[drawn], clusters=clusters)

    return repeat(float(pairs.labels.mean()), experiment)[0]


def compare_metrics(library: Library, pairs: Pairs, probabilities: FloatArray) -> None:
    """Print a row per metric of a model that ranks, for each caption, its own image and the judged ones."""
    print("\nFlickr8k, text to image among judged images\n")
    print("| metric | value | links alone | answers | coverage | width |\n|---|---:|---:|---:|---:|---:|")
    for name, units, labels in rank_judged(library, pairs, probabilities):
        values = units.value(labels)
        before = units.value(np.zeros_like(labels))
        rows = np.flatnonzero(units.costs)
        costs = units.costs[rows]
        even = np.ones(rows.size)
        deviations = units.deviations[rows]
        budget = round(SHARE * costs.sum())
        covered, width = measure(values[rows], units.predicted[rows], deviations, costs, budget)
        alone = measure(values[rows], even, even, costs, budget)[1]
        shares = f"{values.mean():.1%} | {before.mean():.1%} | {budget:,} of {costs.sum():,} | {covered:.1%}"
        print(f"| {name} | {shares} | {width / alone:.2f} |")
    print(f"| all positives in the top 5 | {measure_ratio(pairs, probabilities)} |")


def rank_judged(
    library: Library, pairs: Pairs, probabilities: FloatArray
) -> Iterator[tuple[str, SamplingUnits, FloatArray]]:
    """Each metric with its units, and the labels of their open pairs."""
    content = library.split("test", "flickr8k")
    scores = add_noise(pairs.scores)
    queries = np.unique(pairs.captions)
    owners = content.caption_image_ids[find_positions(queries, content.caption_ids)[0]]
    by_query = np.split(
        np.argsort(pairs.captions, kind="stable"), np.searchsorted(np.sort(pairs.captions), queries[1:])
    )
    tops = np.zeros((queries.size, DEPTH), np.int64)
    sizes = np.array([rows.size + 1 for rows in by_query])
    own_ranks = np.zeros_like(queries)
    chances = np.zeros(tops.shape)
    truth = np.zeros(tops.shape)
    for place, (query, owner, rows) in enumerate(zip(queries, owners, by_query, strict=True)):
        images = np.append(pairs.images[rows], owner)
        column = find_positions(np.array([query]), pairs.scores.caption_ids)[0]
        order = np.argsort(-scores[find_positions(images, pairs.scores.image_ids)[0], column], kind="stable")
        own_ranks[place] = 1 + np.flatnonzero(order == rows.size)[0]
        top = order[:DEPTH]
        tops[place, : top.size] = images[top]
        chances[place, : top.size] = np.append(probabilities[rows], 0)[top]
        truth[place, : top.size] = np.append(pairs.labels[rows], 0)[top]
    whole = sizes >= DEPTH
    retrieved = retrieve(queries[whole], tops[whole], own_ranks[whole], sizes[whole])
    for name in METRICS:
        variant = Variant[Any](*metric_labelled(name))
        units = make_rank_units(variant, retrieved, "t2i", chances[whole])
        rows, places = np.nonzero(retrieved.matters(variant))
        yield name, units, truth[whole][rows, places]
    judgments = Judgments.from_pairs(
        queries[whole], np.unique(np.append(tops, owners)), queries[whole], owners[whole], gains=np.ones(whole.sum())
    )
    units = make_top_units(TopK(queries[whole], tops[whole]), judgments, 5, "t2i", chances[whole])
    yield "entail_at_5", units, truth[whole][:, :5].ravel()[units.owners]


def retrieve(queries: IntArray, tops: IntArray, own_ranks: IntArray, sizes: IntArray) -> Retrieved:
    """The tops, without ties, of which only each caption's own image is known to match."""
    ranks = replace(PositiveRanks.of(own_ranks[:, None].tolist()), query_ids=queries, n_gallery=sizes)
    places = np.broadcast_to(np.arange(DEPTH), tops.shape)
    below = places >= own_ranks[:, None]
    is_own = places == own_ranks[:, None] - 1
    return Retrieved(ranks, tops, ~is_own, below.astype(np.int64), places, places + 1, sizes - 1, DEPTH)


def add_noise(run: ScoresRun) -> FloatArray:
    """The scores of another model than the judge."""
    return run.scores + NOISE * np.random.default_rng(0).standard_normal(run.scores.shape)


def measure_ratio(pairs: Pairs, probabilities: FloatArray) -> str:
    """A row for the share of all judged positives that are in the top 5 of their captions: a ratio of two sums."""
    scores = add_noise(pairs.scores)[
        find_positions(pairs.images, pairs.scores.image_ids)[0],
        find_positions(pairs.captions, pairs.scores.caption_ids)[0],
    ]
    order = np.lexsort((-scores, pairs.captions))
    found = np.zeros(scores.size)
    found[order] = np.arange(order.size) - np.searchsorted(pairs.captions[order], pairs.captions[order]) < 5
    truth, guess = (float((y * found).sum() / y.sum()) for y in (pairs.labels, probabilities))
    steered = choose_probabilities(np.sqrt(probabilities * (1 - probabilities)) * np.abs(found - guess), ANSWERS)

    def experiment(random: np.random.Generator, chances: FloatArray, known: FloatArray) -> Estimate:
        drawn = draw(chances, random)
        labels = pairs.labels[drawn]
        return estimate_ratio(known, drawn, labels * found[drawn], labels, chances[drawn])

    columns = np.stack([probabilities, probabilities * found], axis=1)
    even = np.full(order.size, ANSWERS / order.size)
    covered, width = repeat(truth, lambda random: experiment(random, steered, columns))
    alone = repeat(truth, lambda random: experiment(random, even, np.ones(order.size)))[1]
    return f"{truth:.1%} | | {ANSWERS:,} of {order.size:,} | {covered:.1%} | {width / alone:.2f}"


if __name__ == "__main__":
    main()
