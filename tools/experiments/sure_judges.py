"""Do intervals hold with a judge that is sure, and errs rarely? 81 settings, a line each.

    python tools/experiments/sure_judges.py

A judge answers 0 or 1 about every unit; people see a sample, drawn with equal probabilities, which follow from such
answers. With clusters, five units share a rate, and the interval is that of the mean over all clusters there may be.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.statistics import Estimate, choose_probabilities, draw, estimate_mean

PREVALENCES = (0.1, 0.3, 0.5)
ERRORS = (0.0, 0.03, 0.1)
BUDGETS = (30, 100, 200)
KINDS = ((300, False), (3_000, False), (3_000, True))
IN_CLUSTER = 5
SPREAD = 4.0


def main() -> None:
    """Print the share of intervals that hold the true mean, and their mean width."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1_000)
    repetitions: int = parser.parse_args().repetitions
    print("prevalence  errors  budget  units  clusters    held   width  no interval")
    least = 1.0
    for prevalence, wrong, budget, (units, by_cluster) in itertools.product(PREVALENCES, ERRORS, BUDGETS, KINDS):
        random = np.random.default_rng(0)
        held = 0
        widths = []
        for _ in range(repetitions):
            try:
                truth, interval = _experiment(random, prevalence, wrong, budget, units, by_cluster=by_cluster)
            except DataError:  # all answers are alike
                continue
            held += interval.low <= truth <= interval.high
            widths.append(interval.high - interval.low)
        share = held / len(widths)
        least = min(least, share)
        kind = "of 5" if by_cluster else "none"
        print(
            f"{prevalence:10}  {wrong:6}  {budget:6}  {units:5}  {kind:>8}  {share:6.1%}  {np.mean(widths):6.3f}  "
            f"{1 - len(widths) / repetitions:11.1%}"
        )
    print(f"least: {least:.1%}")


def _experiment(
    random: np.random.Generator, prevalence: float, wrong: float, budget: int, units: int, *, by_cluster: bool
) -> tuple[float, Estimate]:
    clusters = np.arange(units) // IN_CLUSTER if by_cluster else None
    rates: float | np.ndarray = prevalence
    if by_cluster:
        shape = SPREAD * prevalence, SPREAD * (1 - prevalence)
        rates = np.repeat(random.beta(*shape, size=units // IN_CLUSTER), IN_CLUSTER)
    labels = (random.random(units) < rates).astype(float)
    guess = np.where(random.random(units) < wrong, 1 - labels, labels)
    chances = choose_probabilities(np.zeros(units), budget)
    drawn = draw(chances, random)
    interval = estimate_mean(guess, drawn, labels[drawn], chances[drawn], clusters=clusters)
    return (prevalence if by_cluster else float(labels.mean())), interval


if __name__ == "__main__":
    main()
