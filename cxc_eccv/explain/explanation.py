"""Failures in concepts: the four numbers of each, and all that a table or a page says of a model's failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, raise_all
from cxc_eccv.evaluation.measure import find_faults
from cxc_eccv.evaluation.report import choose_similarity, describe_run, name_model, provenance_of
from cxc_eccv.evaluation.select import select
from cxc_eccv.evaluation.settings import check_split
from cxc_eccv.explain.concepts import ImageConcepts
from cxc_eccv.explain.failures import DEPTH, TASKS, Failures, directions_of, find_failures
from cxc_eccv.explain.measures import keep_mentioned, measure_failures, subtract_best
from cxc_eccv.explain.mentions import find_mentions
from cxc_eccv.explain.wordnet import VERSION, path_similarity
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, positions_of, sides_of
from cxc_eccv.types.seen import ConceptPairs, Concepts, Similarity

__all__ = ["MEASURES", "OF_INSTANCES", "Explained", "Explanation", "explain_failures", "explain_run"]

OF_INSTANCES = ("concept_enumeration", "size_disagreement")
"""Measures that need every instance with its area."""

MEASURES = ("concept_agreement", "non_common_similarity", *OF_INSTANCES)
"""The four numbers of a failure, in the order of the paper."""

VARIANTS = ("", "_informed", "_over_rival")
"""Of all concepts; of those that the query mentions; and minus the best of the other candidates."""

NO_QUERY_TEXT = "the query is an image, which mentions nothing"


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """What became of one direction of a run.

    Attributes:
        failures: the failed queries.
        table: a row for each, in their order, see :func:`explain_failures`.
        not_computed: column of the table that is null in every row to the reason why.
    """

    failures: Failures
    table: pa.Table
    not_computed: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """All that a table or a page says of one model's failures.

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
