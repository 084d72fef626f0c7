"""Failures in concepts: the four numbers of each, and all that a table or a page says of a model's failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.builders.lookup import caption_texts
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.report import choose_similarity, describe_run, name_model, provenance_of
from cxc_eccv.evaluation.select import Selection
from cxc_eccv.evaluation.settings import check_split
from cxc_eccv.metrics.size_disagreement import size_disagreement
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.wordnet import VERSION as WORDNET
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.studies.explain.concepts import ImageConcepts
from cxc_eccv.studies.explain.failures import NOBODY, Failures, directions_of, find_failures, select_recall
from cxc_eccv.studies.explain.measures import (
    INFORMED,
    MEASURED,
    MEASURES,
    OF_INSTANCES,
    OVER_RIVAL,
    keep_mentioned,
    measure_failures,
    subtract_best,
)
from cxc_eccv.studies.explain.mentions import find_mentions
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.seen import ConceptPairs, Similarity

__all__ = [
    "COUNTS",
    "MEASURES",
    "NUMBERS",
    "Explained",
    "Explanation",
    "check_run",
    "explain_failures",
    "explain_run",
]

REAL = "size_disagreement_real"
"""SD without a threshold: the sum over common concepts of the mean area difference."""

NUMBERS = (*MEASURED, REAL, *(f"{name}{variant}" for variant in (INFORMED, OVER_RIVAL) for name in MEASURED))
"""Columns of a failure's numbers."""

COUNTS = ("common_concepts", "truth_only_concepts", "retrieved_only_concepts", "differing_concepts")
"""Concepts of both images of a failure, of one alone, and of those of both with another number of instances."""

VISUAL_GENOME = "Visual Genome"
"""A source that covers a part of the split: failures with other images are counted and left without numbers."""

NO_WORDS = "the queries are images, which mention nothing"
NOT_COUNTED = (
    "say which concepts an image shows, not how many or how large; annotations with boxes do, such as "
    "instances_val2014.json (--instances)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """The explained failures of a run in one direction.

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

    ``skipped`` has the directions that the run cannot be ranked in, with the reason.
    """

    model: str
    split: str
    concepts: ImageConcepts
    directions: Mapping[str, Explained]
    skipped: Mapping[str, str]
    provenance: Mapping[str, Any]


def explain_run(
    run: Run,
    library: Library,
    concepts: ImageConcepts,
    split: str = "test",
    *,
    directions: Sequence[str] | None = None,
    similarity: str | None = None,
    name: str | None = None,
    progress: bool = True,
    selection: Selection | None = None,
) -> Explanation:
    """Find and explain a run's failures, in ``directions`` or all that it can be ranked in.

    A ``selection`` of :func:`check_run` for this run takes the place of ``directions``.

    Raises:
        UnknownName: no such direction, split or similarity.
        InvalidOption: the run cannot be ranked in a direction that was named, or in any.
        RunError: the run lacks items of the split, or has items that the data does not know.
        DataError: a raw file is missing or malformed, or nobody annotated an image.
    """
    scoring, model = choose_similarity(run, similarity=similarity), name_model(run, name)
    chosen = selection or check_run(run, library, split, directions)
    explained = {}
    for part in chosen.parts:
        failures = find_failures(
            run,
            library,
            split,
            part.name,
            similarity=scoring["similarity"],
            progress=progress,
            selection=chosen,
        )
        texts = None if part.name == "i2t" else caption_texts(library, split, failures.query_ids).to_pylist()
        partly = concepts.source == VISUAL_GENOME
        explained[part.name] = explain_failures(failures, concepts, texts, allow_unannotated=partly)
    restriction = {"restriction": chosen.restriction.facts} if chosen.restriction.facts else {}
    facts = provenance_of(
        library,
        split=split,
        run=describe_run(run, chosen.parts),
        **scoring,
        **model,
        **restriction,
        concepts={
            "source": concepts.source,
            "counted": concepts.counted,
            "images": {"annotated": len(concepts.images), "of": concepts.n_images},
            "left_out": dict(concepts.left_out),
        },
        wordnet=WORDNET,
    )
    shown = model.get("model") or (run.path.name if run.path is not None else "run")
    return Explanation(shown, split, concepts, explained, chosen.skipped, facts)


def check_run(run: Run, library: Library, split: str = "test", directions: Sequence[str] | None = None) -> Selection:
    """Refuse a run that cannot be explained, before long files are read.

    Returns what recall@1 is computed from, a part per direction; its ``skipped`` has the directions that nobody named
    and that the run cannot be ranked in, with the reason.
    """
    check_split(split)
    able, skipped = directions_of(run)
    wanted = list(dict.fromkeys(directions or able))
    if not wanted:
        raise InvalidOption("; ".join(f"{direction} cannot be explained: {why}" for direction, why in skipped.items()))
    return replace(select_recall(run, library, split, wanted), skipped={} if directions else skipped)


def explain_failures(
    failures: Failures,
    concepts: ImageConcepts,
    texts: Sequence[str] | None = None,
    *,
    similarity: Similarity = similarity_matrix,
    allow_unannotated: bool = False,
) -> Explained:
    """Compare what the retrieved images show with what the right ones do.

    Args:
        failures: F failed queries.
        concepts: what the images show.
        texts: (F,) the failed queries in words, for the concepts that these mention; None where queries are images.
        similarity: of concepts, for NCS.
        allow_unannotated: whether a failure with an image that nobody annotated is left without numbers, in place of an
            error: for a source that covers a part of the split, as Visual Genome does.

    Returns:
        A table with a row per failure: its ids, whether both images are annotated, ``NUMBERS`` as float64,
        ``COUNTS`` as int64. What is not defined is null; that is every number of a failure whose right image shows
        no concept.
    """
    images = np.unique(np.concatenate([failures.truth_ids, failures.retrieved_ids, failures.rival_ids.ravel()]))
    ids = [image for image in images[images != NOBODY].tolist() if not allow_unannotated or image in concepts.images]
    shown = dict(zip(ids, concepts.of(ids), strict=True))
    annotated = np.isin(failures.truth_ids, ids) & np.isin(failures.retrieved_ids, ids)
    rows = np.flatnonzero(annotated & np.array([bool(shown.get(truth)) for truth in failures.truth_ids.tolist()], bool))
    columns: dict[str, FloatArray] = {}

    def pair(rows: IntArray, images: IntArray) -> ConceptPairs:
        truths = [shown[image] for image in failures.truth_ids[rows].tolist()]
        return ConceptPairs(failures.query_ids[rows], truths, [shown[image] for image in images.tolist()])

    def add(values: Mapping[str, FloatArray], rows: IntArray, variant: str = "") -> None:
        for name, column in values.items():
            columns[f"{name}{variant}"] = np.full(len(failures), np.nan)
            columns[f"{name}{variant}"][rows] = column

    measure = partial(measure_failures, similarity=similarity, counted=concepts.counted)
    pairs = pair(rows, failures.retrieved_ids[rows])
    plain = measure(pairs)
    add(plain, rows)
    if concepts.counted:
        add({REAL: size_disagreement(pairs, threshold=None)}, rows)
    if texts is not None:
        # Of all images, so that a query mentions the same whichever model failed it.
        vocabulary = sorted({name for seen in concepts.images.values() for name in seen})
        mentioned, kept = keep_mentioned(pairs, find_mentions([texts[row] for row in rows.tolist()], vocabulary))
        add(measure(mentioned), rows[kept], INFORMED)
    rivals = failures.rival_ids[rows]
    known = np.nonzero(np.isin(rivals, ids))
    of_rivals = {name: np.full(rivals.shape, np.nan) for name in plain}
    for name, values in measure(pair(rows[known[0]], rivals[known])).items():
        of_rivals[name][known] = values
    add(subtract_best(plain, of_rivals), rows, OVER_RIVAL)
    add(_count(pairs, concepts.counted), rows)
    reasons = {} if texts is not None else {f"{name}{INFORMED}": NO_WORDS for name in MEASURED}
    if not concepts.counted:
        names = [*(f"{name}{variant}" for name in OF_INSTANCES for variant in ("", INFORMED, OVER_RIVAL)), REAL]
        reasons = dict.fromkeys([*names, COUNTS[-1]], f"{concepts.source} {NOT_COUNTED}") | reasons
    undefined, next_ids = np.full(len(failures), np.nan), failures.rival_ids[:, 0]
    table = {
        "query_id": failures.query_ids,
        "truth_id": failures.truth_ids,
        "retrieved_id": failures.retrieved_ids,
        "item_id": failures.item_ids,
        "rival_id": pa.array(next_ids, mask=next_ids == NOBODY),
        "truth_rank": failures.truth_ranks,
        "annotated": annotated,
        **{name: pa.array(columns.get(name, undefined), from_pandas=True) for name in NUMBERS},
        **{name: pa.array(columns.get(name, undefined), pa.int64(), from_pandas=True) for name in COUNTS},
    }
    return Explained(failures, pa.table(table), reasons)


def _count(pairs: ConceptPairs, counted: bool) -> dict[str, FloatArray]:
    """Concepts of each pair in both images, in one alone, and of those in both how many differ in number."""
    both = list(zip(pairs.truths, pairs.retrieved, strict=True))
    counts = [
        [len(truth.keys() & seen.keys()) for truth, seen in both],
        [len(truth.keys() - seen.keys()) for truth, seen in both],
        [len(seen.keys() - truth.keys()) for truth, seen in both],
        [sum(truth[name].size != seen[name].size for name in truth.keys() & seen.keys()) for truth, seen in both],
    ]
    return dict(zip(COUNTS[: None if counted else -1], map(np.asarray, counts), strict=False))
