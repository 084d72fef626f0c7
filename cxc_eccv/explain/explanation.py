"""Failures in concepts: the four numbers of each, and all that a table or a page says of a model's failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, raise_all
from cxc_eccv.evaluation.measure import find_faults
from cxc_eccv.evaluation.report import choose_similarity, describe_run, name_model, provenance_of
from cxc_eccv.evaluation.select import select
from cxc_eccv.evaluation.settings import check_split
from cxc_eccv.explain.concepts import ImageConcepts
from cxc_eccv.explain.failures import TASKS, Failures, directions_of, find_failures
from cxc_eccv.explain.global_table import count_failures
from cxc_eccv.explain.mentions import find_mentions
from cxc_eccv.explain.wordnet import path_similarity
from cxc_eccv.metrics.concept_agreement import concept_agreement
from cxc_eccv.metrics.concept_enumeration import concept_enumeration
from cxc_eccv.metrics.non_common_similarity import non_common_similarity
from cxc_eccv.metrics.size_disagreement import size_disagreement
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, positions_of
from cxc_eccv.types.seen import ConceptPairs, Concepts

__all__ = ["Explained", "Explanation", "explain_failures", "explain_run"]

Similarity = Callable[[str, str], float]

OF_INSTANCES = ("concept_enumeration", "size_disagreement", "size_disagreement_real")
"""Measures that need every instance with its area."""

MEASURES = ("concept_agreement", "non_common_similarity", *OF_INSTANCES)

COUNTS = ("common_concepts", "truth_only_concepts", "retrieved_only_concepts", "differing_concepts")

SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("query_id", "truth_id", "retrieved_id", "item_id", "rival_id", "truth_rank")),
        *((f"{name}{variant}", pa.float64()) for variant in ("", "_informed", "_over_rival") for name in MEASURES),
        *((name, pa.int64()) for name in COUNTS),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """What became of one direction of a run.

    Attributes:
        failures: the failed queries.
        table: a row for each, in their order, with the columns of :data:`SCHEMA`; null where a number is not defined.
        scores: name to number, as in ``explain.json`` behind the direction.
        counts: name of a mean to the number of failures it is over.
        not_computed: name to the reason why there is no such number.
    """

    failures: Failures
    table: pa.Table
    scores: Mapping[str, float]
    counts: Mapping[str, int]
    not_computed: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """All that a page needs of one model's failures.

    Attributes:
        model: its name.
        split: of the queries.
        concepts: what the images show.
        directions: direction to what became of it.
        skipped: direction to the reason why the run cannot be ranked in it.
        provenance: data, run, concepts and versions.
    """

    model: str
    split: str
    concepts: ImageConcepts
    directions: Mapping[str, Explained]
    skipped: Mapping[str, str]
    provenance: Mapping[str, Any]
