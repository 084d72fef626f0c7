"""Families of metrics, by the question they answer: the order of lists, and the pages of the documentation."""

from __future__ import annotations

from dataclasses import dataclass

from cxc_eccv.errors import InvalidOption
from cxc_eccv.metrics.kinds import (
    FailureMetric,
    JudgedMetric,
    PlausibleMetric,
    RankMetric,
    RatedMetric,
    Spec,
    TopMetric,
    WholeMetric,
)


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics that answer one question.

    Attributes:
        name: name of its page.
        title: title of its page.
        question: what its metrics answer.
    """

    name: str
    title: str
    question: str


FIRST_POSITIVE = Family("first_positive", "First positive", "How high does a query's first positive rank?")
ALL_POSITIVES = Family("all_positives", "All positives", "Do all positives of a query rank at the top?")
DEGREES = Family("degrees", "Degrees of match", "Do better matches rank above weaker ones?")
JUDGED_PAIRS = Family("judged_pairs", "Judged pairs", "What do people say of the pairs that a model retrieves?")
PLAUSIBLE_MATCHES = Family(
    "plausible_matches", "Plausible matches", "Do the top items show the same object categories?"
)
RATINGS = Family("ratings", "Ratings of pairs", "Do similarities agree with people's ratings of pairs?")
FAILURES = Family("failures", "Failed queries", "What is wrong with the image that a failed query retrieves?")

FAMILIES = (FIRST_POSITIVE, ALL_POSITIVES, DEGREES, JUDGED_PAIRS, PLAUSIBLE_MATCHES, RATINGS, FAILURES)
"""All families, in the order of lists."""

FAMILY_OF_KIND: dict[type[Spec], Family] = {
    JudgedMetric: JUDGED_PAIRS,
    PlausibleMetric: PLAUSIBLE_MATCHES,
    RatedMetric: RATINGS,
    FailureMetric: FAILURES,
}
"""The kinds whose metrics are all of one family."""


def find_family(spec: Spec) -> Family:
    """The family of a metric, which follows from its kind.

    Raises:
        InvalidOption: the kind has no family.

    Example:
        >>> from cxc_eccv import registry
        >>> find_family(registry.metric("rsum")).name, find_family(registry.metric("map_at_r")).name
        ('first_positive', 'all_positives')
    """
    if isinstance(spec, WholeMetric):
        return find_family(spec.of)
    if isinstance(spec, RankMetric):
        return FIRST_POSITIVE if spec.best_rank else ALL_POSITIVES
    if isinstance(spec, TopMetric):
        return JUDGED_PAIRS if spec.is_open else DEGREES
    for kind, family in FAMILY_OF_KIND.items():
        if isinstance(spec, kind):
            return family
    raise InvalidOption(f"metric {spec.name}: a {type(spec).__name__} has no family; give it one in find_family")
