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


def explain_failures(
    failures: Failures,
    concepts: ImageConcepts,
    texts: Sequence[str] | None = None,
    *,
    similarity: Similarity = path_similarity,
) -> Explained:
    """What the images at the top show, beside what the right ones do.

    Args:
        failures: F failed queries.
        concepts: what the images show.
        texts: the failed queries in words, for concepts that these mention; None where queries are images.
        similarity: of two concepts, for NCS.

    Returns:
        A table with a row per failure. ``query_id``, ``truth_id``, ``retrieved_id``, ``item_id`` and ``rival_id`` (the
        image that comes next) are as in :class:`~cxc_eccv.explain.failures.Failures`, and so is ``truth_rank``. Then
        come the measures, float64: of all concepts; of those that the query mentions, ``_informed``; and minus the
        best that one of the other candidates has, ``_over_rival``. Counts of concepts, int64, follow: in both images,
        in one alone, and, of those in both, how many have another number of instances. What is not defined is null,
        which is everything where the right image shows no concept.

    Raises:
        DataError: an image whose concepts nobody annotated.
    """
    every = np.concatenate([failures.truth_ids, failures.retrieved_ids, failures.rival_ids.ravel()])
    shown = _look_up(np.setdiff1d(every, [NOBODY]), concepts)
    rows = np.flatnonzero([bool(shown[image]) for image in failures.truth_ids.tolist()])
    pairs = _pair(failures, rows, failures.retrieved_ids[rows], shown)
    measure = partial(measure_failures, similarity=similarity, counted=concepts.counted)
    plain, measured, reasons = measure(pairs), {}, {}
    measured |= {name: _spread(values, rows, len(failures)) for name, values in plain.items()}
    if texts is None:
        reasons |= {f"{name}_informed": NO_QUERY_TEXT for name in plain}
    else:
        vocabulary = sorted({name for seen in shown.values() for name in seen})
        mentioned, kept = keep_mentioned(pairs, find_mentions([texts[row] for row in rows], vocabulary))
        for name, values in measure(mentioned).items():
            measured[f"{name}_informed"] = _spread(values, rows[kept], len(failures))
    own, places = np.nonzero(failures.rival_ids[rows] != NOBODY)
    others = measure(_pair(failures, rows[own], failures.rival_ids[rows[own], places], shown))
    table = {name: _spread(values, (own, places), (rows.size, failures.rival_ids.shape[1])) for name, values in others.items()}
    for name, values in subtract_best(plain, table).items():
        measured[f"{name}_over_rival"] = _spread(values, rows, len(failures))
    if not concepts.counted:
        reasons |= {f"{name}{variant}": f"{concepts.source}: {NOT_COUNTED}" for name in OF_INSTANCES for variant in VARIANTS}
    return Explained(failures, _table(failures, measured, _count(pairs, counted=concepts.counted), rows), reasons)
