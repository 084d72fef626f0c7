"""What labels are worth, all of it at once: counts, precision and recall, bias and diversity of models, preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cxc_eccv.annotation.worth.bias import (
    Bias,
    Gain,
    ProposedLabels,
    bias_by_size,
    join_proposals,
    measure_bias,
    measure_gains,
    score_sets,
)
from cxc_eccv.annotation.worth.diversity import correlate_tops, place_first
from cxc_eccv.annotation.worth.labels import Multiplicity, count_positives, measure_labels
from cxc_eccv.annotation.worth.preferences import Strength
from cxc_eccv.annotation.worth.sets import Verified, check_sets, find_positives, find_verified
from cxc_eccv.errors import DataError, InvalidOption, SourceMissing
from cxc_eccv.evaluation.score import ClusterBootstrap, Draws, images_behind, interval
from cxc_eccv.evaluation.settings import SPLITS, check_split
from cxc_eccv.judgments.evidence import Thresholds, gather, item_ids, label_sources
from cxc_eccv.judgments.qrels import coco_links
from cxc_eccv.ranking import ranks_of_run
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, TopK

if TYPE_CHECKING:
    from cxc_eccv.annotation.project import Project

__all__ = ["DEPTH", "Appraisal", "BiasOfSet", "Biases", "Estimate", "Likeness", "SetCounts", "SetWorth", "appraise"]

DIRECTIONS = ("t2i", "i2t")
"""As the paper has them: captions look for images first."""

DEPTH = 25
"""Items of a list that are compared, as in Table A.1."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SetWorth:
    """A row of Table 2: a set of labels beside verified pairs.

    Attributes:
        verified: whose verdicts count.
        labels: the set.
        direction: ``i2t`` or ``t2i``.
        precision, recall: as of :func:`cxc_eccv.annotation.worth.labels.measure_labels`; None where no query has one.
        n_precision, n_recall: queries that they are means of.
        n_unlabelled, n_unverified: queries left out of both, and of recall alone.
    """

    verified: str
    labels: str
    direction: str
    precision: Estimate | None
    recall: Estimate | None
    n_precision: int
    n_recall: int
    n_unlabelled: int
    n_unverified: int


@dataclass(frozen=True, slots=True)
class SetCounts:
    """A row of Table 3: the positives that a set of labels has.

    Attributes:
        labels: the set.
        direction: ``i2t`` counts positive captions, ``t2i`` positive images.
        counts: over the queries that count.
        mean: R of those with a positive.
        times_original: positives for each one among COCO's links.
    """

    labels: str
    direction: str
    counts: Multiplicity
    mean: Estimate
    times_original: float


@dataclass(frozen=True, slots=True)
class BiasOfSet:
    """Scores of all models on the labels of a set of annotators, and how far these are from those on all labels.

    Attributes:
        annotators: the set.
        n_without: queries for which it verified nothing.
        scores: of every model.
        bias: over all models, over the annotators themselves and over the others; None where nobody is left.
    """

    annotators: tuple[str, ...]
    n_without: int
    scores: Mapping[str, Estimate]
    bias: Mapping[str, Estimate | None]


@dataclass(frozen=True, slots=True)
class Biases:
    """Annotator bias in one direction, by one metric.

    Attributes:
        direction: of the queries.
        metric: ``recall_at_1`` or ``r_precision``, graded.
        n_queries: with a positive in the labels of all annotators.
        n_positives: these labels.
        n_unproposed, n_unanswered: as of :class:`cxc_eccv.annotation.worth.bias.ProposedLabels`.
        sets: every set of annotators, smaller ones first.
        by_size: number of annotators to the mean bias of sets of so many.
        gains: annotator to what its joining does to its own score, and to those of others.
    """

    direction: str
    metric: str
    n_queries: int
    n_positives: int
    n_unproposed: int
    n_unanswered: int
    sets: tuple[BiasOfSet, ...]
    by_size: Mapping[int, Mapping[str, Estimate | None]]
    gains: Mapping[str, Mapping[str, Estimate | None]]


@dataclass(frozen=True, slots=True)
class Likeness:
    """A cell of both parts of Table A.1: how one model ranks what another has at its top.

    Attributes:
        direction: of the queries.
        one, other: the models.
        correlation: Kendall's tau-b of the items that both have among their first, over the queries with two of them.
        n_correlated: so many.
        place: mean rank that the other gives to what the one has first, over the queries where it is among its first.
        n_placed: so many.
        n_queries: all.
    """

    direction: str
    one: str
    other: str
    correlation: Estimate | None
    n_correlated: int
    place: Estimate | None
    n_placed: int
    n_queries: int


@dataclass(frozen=True, slots=True)
class Appraisal:
    """All that was found.

    Attributes:
        split: of the labels.
        queries: the source whose queries were counted, or None for all.
        counts: positives of every set.
        worth: precision and recall of every set beside every verified source.
        biases: of annotators.
        likenesses: of models, every ordered pair.
        preferences: between systems, the strongest first.
        not_computed: what is lacking, to the reason.
        provenance: data, labels, models and settings.
    """

    split: str
    queries: str | None
    counts: tuple[SetCounts, ...]
    worth: tuple[SetWorth, ...]
    biases: tuple[Biases, ...]
    likenesses: tuple[Likeness, ...]
    preferences: tuple[Strength, ...]
    not_computed: Mapping[str, str]
    provenance: Mapping[str, Any]


def appraise(
    library: Library,
    split: str = "test",
    *,
    sets: Sequence[Sequence[str]] | None = None,
    verified: Sequence[str] | None = None,
    queries: str | None = None,
    runs: Mapping[str, Run] | None = None,
    project: Project | None = None,
    similarity: str | None = None,
    preferences: Sequence[Strength] = (),
    seed: int = 0,
    confidence: float = 0.95,
) -> Appraisal:
    """What sets of labels are worth, and what the models that proposed them made of them.

    Args:
        library: the raw files, with label files of one's own where it was opened with some.
        split: ``validation`` or ``test``.
        sets: of labels, each of one source or several, ``plausible_0`` among them or another number of categories.
            None for each source alone and what they say together, in the order of their age.
        verified: sources whose verdicts count as people's; None for label files, and without one for CxC's ratings and
            ECCV Caption's positives.
        queries: the source whose queries are counted, or ``all``; None for ECCV Caption's where it has any, else all.
        runs: name of each model to its run, for bias and diversity.
        project: an annotation project whose labels the library was opened with; says who proposed what.
        similarity: of embeddings.
        preferences: what :func:`cxc_eccv.annotation.worth.preferences.rate_preferences` made of choices.
        seed: of the bootstrap over images behind every interval.
        confidence: of the intervals.

    Raises:
        UnknownName: no such source, split or model.
        DataError: no set has a positive; a run lacks items of the split.
    """
    check_split(split, SPLITS)
    return _Appraiser(library, split, seed, confidence).appraise(
        sets, verified, queries, runs or {}, project, similarity, preferences
    )
