"""Annotator bias: what a model gains from being among those whose proposals people verified."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import combinations

from cxc_eccv.errors import DataError

__all__ = ["Bias", "bias_by_size", "measure_bias"]

Scores = Mapping[str, float]
"""Model to its score."""


@dataclass(frozen=True, slots=True)
class Bias:
    """How far scores on labels from some models' proposals are from those on labels from all.

    Attributes:
        all: mean over all models.
        own: mean over the models whose proposals were verified.
        others: mean over the others; None where there are none.
    """

    all: float
    own: float
    others: float | None


def measure_bias(scores: Scores, full: Scores, annotators: Collection[str]) -> Bias:
    r"""The bias that the choice of annotators brings into scores.

    .. math:: B_\Theta = \frac{1}{|\mathrm{All}|} \sum_{\phi \in \mathrm{All}} |s_\Theta(\phi) - s_{\mathrm{All}}(\phi)|

    and the same mean over :math:`\phi \in \Theta` alone (self-bias) and over the others (non-self-bias).

    Args:
        scores: of every model on the labels from the annotators' proposals.
        full: of every model on the labels from all models' proposals.
        annotators: the models whose proposals make the labels.

    Raises:
        DataError: the two are of different models, or an annotator is none of them.

    References:
        Chun et al., ECCV Caption, ECCV 2022, appendix E.3, equations E.5 and E.6.

    Example:
        >>> measure_bias({"a": 0.5, "b": 0.25}, {"a": 0.5, "b": 0.75}, ["a"])
        Bias(all=0.25, own=0.0, others=0.5)
    """
    if scores.keys() != full.keys() or not annotators or not set(annotators) <= full.keys():
        raise DataError(
            f"scores of {', '.join(scores)} and of {', '.join(full)}, annotators {', '.join(annotators) or 'none'}: "
            "give both scores of the same models, and annotators among them"
        )
    gaps = {model: abs(scores[model] - full[model]) for model in full}
    own = [gap for model, gap in gaps.items() if model in annotators]
    others = [gap for model, gap in gaps.items() if model not in annotators]
    return Bias(_mean([*own, *others]), _mean(own), _mean(others) if others else None)


def bias_by_size(models: Collection[str], score: Callable[[frozenset[str]], Scores]) -> dict[int, Bias]:
    """Number of annotators to the mean bias over all sets of so many, without that of all models.

    Args:
        models: all of them.
        score: the scores of all models on the labels from a set of models' proposals.

    Example:
        >>> found = bias_by_size("ab", lambda own: {model: 1.0 if model in own else 0.5 for model in "ab"})
        >>> found[1]
        Bias(all=0.25, own=0.0, others=0.5)
    """
    full = score(frozenset(models))
    sizes: dict[int, Bias] = {}
    for size in range(1, len(models)):
        sets = [frozenset(own) for own in combinations(sorted(models), size)]
        found = [measure_bias(score(own), full, own) for own in sets]
        others = [bias.others for bias in found if bias.others is not None]
        sizes[size] = Bias(_mean([bias.all for bias in found]), _mean([bias.own for bias in found]), _mean(others))
    return sizes


def _mean(values: Collection[float]) -> float:
    return sum(values) / len(values)
