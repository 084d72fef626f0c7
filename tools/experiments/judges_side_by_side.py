"""ECCV Caption's labels and a judge beside people: pairs of test that Crisscrossed Captions rates, positive from 3 on.

    CXC_ECCV_DATA=mirror python tools/experiments/judges_side_by_side.py minilm_val.npz minilm_test.npz

Pairs are an image and a caption of another. ECCV Caption is compared on the queries that it judges: there a pair that
it does not list is negative. The judge is the largest cosine of the caption with the image's captions, calibrated on
validation; the classifier's predictions are those of ``entailment score cxc/test --output``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from prediction_powered import ANSWERS, REPETITIONS, Pairs, calibrate, find_own, read_sits

from cxc_eccv.cli.user_tables import read_probabilities
from cxc_eccv.errors import DataError
from cxc_eccv.evaluation.answers import Answers
from cxc_eccv.evaluation.settings import PairValues
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import choose_probabilities, draw
from cxc_eccv.statistics.agreement import cohen_kappa
from cxc_eccv.studies.annotation.mixed import measure_judge
from cxc_eccv.studies.entailment.measures import area_under_curve, measure_classifier, measure_reliability
from cxc_eccv.types import FloatArray


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions", type=Path, nargs=2, help="caption vectors of COCO's validation and test split")
    parser.add_argument("--judge", type=Path, help="another judge of the pairs of test: a file of probabilities")
    arguments = parser.parse_args()
    library = Library()
    val, test = (
        of_others(library, split, read_sits(library, split, path))
        for split, path in zip(("validation", "test"), arguments.captions, strict=True)
    )
    judges = {"MiniLM, calibrated on val": calibrate(val.cosines, val.labels)(test.cosines)}
    if arguments.judge is not None:
        values = PairValues(read_probabilities(arguments.judge), "probability", "probabilities")
        judges["given"] = values(test.images, test.captions)
    print("| pairs | judge | accuracy | precision | recall | kappa | AUC | calibration error |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    everything = np.ones(test.labels.size, bool)
    for name, probabilities in judges.items():
        show("all rated", name, test, probabilities, everything)
    for direction in ("i2t", "t2i"):
        listed, judged = read_eccv(library, direction, test)
        show(f"ECCV {direction}", "ECCV Caption", test, listed.astype(np.float64), judged)
        for name, probabilities in judges.items():
            show(f"ECCV {direction}", name, test, probabilities, judged)
    print(f"\nFrom {ANSWERS:,} drawn answers, {REPETITIONS:,} times\n")
    print("| measure | coverage | mean width |\n|---|---:|---:|")
    cover(test, judges["MiniLM, calibrated on val"])


def of_others(library: Library, split: str, pairs: Pairs) -> Pairs:
    """The pairs of an image and a caption of another."""
    kept = ~find_own(library, split, pairs)
    return Pairs(pairs.images[kept], pairs.captions[kept], pairs.labels[kept], pairs.scores)


def read_eccv(library: Library, direction: str, pairs: Pairs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(P,) whether ECCV Caption lists the pair, and whether the pair is of one of its queries."""
    table = library.eccv("eccv", direction)
    queries, items = (np.asarray(table[name]) for name in ("query_id", "item_id"))
    sides = (pairs.images, pairs.captions) if direction == "i2t" else (pairs.captions, pairs.images)
    positive = set(zip(queries.tolist(), items.tolist(), strict=True))
    listed = np.array([pair in positive for pair in zip(*(side.tolist() for side in sides), strict=True)])
    return listed, np.isin(sides[0], queries)


def cover(pairs: Pairs, probabilities: FloatArray) -> None:
    """Print how often the card's interval holds the value on all answers, when few pairs are drawn."""
    rates = measure_classifier(pairs.labels, probabilities, 0.5, pairs.images)
    true = {rate.name: rate.value for rate in rates}
    chances = choose_probabilities(np.sqrt(probabilities * (1 - probabilities)), ANSWERS)
    held: dict[str, list[tuple[bool, float]]] = {}
    for seed in range(REPETITIONS):
        rows = draw(chances, seed)
        drawn = (pairs.images[rows], pairs.captions[rows], pairs.labels[rows], chances[rows])
        answers = Answers(Path(), "test", "cxc/i2t/entail_at_5", "", *drawn, chances.size, chances.size)
        for name, rate in measure_judge(answers, probabilities[rows]).rates.items():
            if isinstance(rate, str):
                raise DataError(rate)
            held.setdefault(name, []).append((rate.low <= true[name] <= rate.high, rate.high - rate.low))
    for name, intervals in held.items():
        covered, width = np.mean(intervals, axis=0)
        print(f"| {name} | {covered:.1%} | {100 * width:.1f} points |")


def show(where: str, judge: str, pairs: Pairs, probabilities: FloatArray, kept: NDArray[np.bool_]) -> None:
    """Print a row, in percent but for kappa and AUC."""
    labels, values, images = pairs.labels[kept], probabilities[kept], pairs.images[kept]
    rates = {rate.name: rate for rate in measure_classifier(labels, values, 0.5, images)}
    cells = [
        f"{100 * rate.value:.1f} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
        for rate in (rates[name] for name in ("accuracy", "precision", "recall"))
    ]
    kappa = cohen_kappa(labels.astype(np.int64), (values >= 0.5).astype(np.int64), 2)
    of_chances = "| |"
    if np.unique(values).size > 2:
        error = measure_reliability(labels, values).expected_error
        of_chances = f"{area_under_curve(labels, values):.3f} | {100 * error:.1f} |"
    share = f"{where}: {labels.size:,}, {labels.mean():.1%} positive"
    print(f"| {share} | {judge} | {' | '.join(cells)} | {kappa:.3f} | {of_chances}")


if __name__ == "__main__":
    main()
