"""Failures in concepts: the four numbers of each, and all that a table or a page says of a model's failures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, UnknownName, raise_all
from cxc_eccv.evaluation.measure import find_faults
from cxc_eccv.evaluation.report import choose_similarity, describe_run, name_model, provenance_of
from cxc_eccv.evaluation.select import Selection, select
from cxc_eccv.evaluation.settings import check_split
from cxc_eccv.metrics.size_disagreement import size_disagreement
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.wordnet import VERSION as WORDNET
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.studies.explain.concepts import ImageConcepts
from cxc_eccv.studies.explain.failures import NOBODY, TASKS, Failures, directions_of, find_failures
from cxc_eccv.studies.explain.measures import OF_INSTANCES, OF_TRUTH, keep_mentioned, measure_failures, subtract_best
from cxc_eccv.studies.explain.mentions import find_mentions
from cxc_eccv.types import FloatArray, IntArray, positions_of, sides_of
from cxc_eccv.types.seen import ConceptPairs, Concepts, Similarity

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

MEASURES = ("concept_agreement", "non_common_similarity", "concept_enumeration", "size_disagreement")
"""The four numbers of a failure, in the order of the paper."""

MEASURED = (*MEASURES, OF_TRUTH)
"""All of which there are variants."""

VARIANTS = ("", "_informed", "_over_rival")
"""Of all concepts; of those that the query mentions; and minus the best of the other candidates."""

REAL = "size_disagreement_real"
"""SD without a threshold: the sum over common concepts of the mean area difference."""

NUMBERS = (*MEASURED, REAL, *(f"{name}{variant}" for variant in VARIANTS[1:] for name in MEASURED))
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
) -> Explanation:
    """Find and explain a run's failures.

    Args:
        run: embeddings, scores or rankings, as :func:`cxc_eccv.runs.load.load_run` gives them.
        library: the raw sources.
        concepts: what the images show, of :func:`cxc_eccv.studies.explain.concepts.load_concepts`.
        split: ``validation`` or ``test``.
        directions: of ``t2i``, ``i2t`` and ``t2t``; None for all that the run can be ranked in.
        similarity: of embeddings, ``cosine`` or ``dot``; None for what the run is meant for.
        name: what the model is called; None for what the run says, else its file's name.
        progress: show a bar when standard error is a terminal.

    Raises:
        UnknownName: no such direction, split or similarity.
        InvalidOption: the run cannot be ranked in a direction that was named, or in any.
        RunError: the run lacks items of the split, or has items that the data does not know.
        DataError: a raw file is missing or malformed, or nobody annotated an image.
    """
    scoring, model = choose_similarity(run, similarity=similarity), name_model(run, name)
    chosen, skipped = check_run(run, library, split, directions)
    wanted = [part.name for part in chosen.parts]
    explained = {}
    for direction in wanted:
        failures = find_failures(run, library, split, direction, similarity=scoring["similarity"], progress=progress)
        texts = _query_texts(failures, library, split)
        partly = concepts.source == VISUAL_GENOME
        explained[direction] = explain_failures(failures, concepts, texts, allow_unannotated=partly)
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
    return Explanation(shown, split, concepts, explained, skipped, facts)


def check_run(
    run: Run, library: Library, split: str = "test", directions: Sequence[str] | None = None
) -> tuple[Selection, dict[str, str]]:
    """Refuse a run that cannot be explained, before long files are read.

    Returns:
        What evaluation computes recall@1 from, a part per direction, in their order; and of directions that nobody
        named, those that the run cannot be ranked in, with the reason.

    Raises:
        As :func:`explain_run` does of the run, the directions and the split.
    """
    check_split(split)
    able, skipped = directions_of(run)
    for direction in directions or ():
        if direction not in TASKS:
            raise UnknownName("direction", direction, TASKS)
    wanted = list(dict.fromkeys(directions or able))
    if not wanted:
        raise InvalidOption("; ".join(f"{direction} cannot be explained: {why}" for direction, why in skipped.items()))
    chosen = select(run, [f"{TASKS[direction]}/{direction}" for direction in wanted], library, split, ["recall_at_1"])
    raise_all([*chosen.refused, *find_faults(run, chosen.parts, library, named=True, strict=True)])
    return chosen, {} if directions else skipped


def _query_texts(failures: Failures, library: Library, split: str) -> list[str] | None:
    """The failed queries in words; None where they are images."""
    if sides_of(failures.direction)[0] == "images":
        return None
    captions = library.captions(split)
    places = positions_of(failures.query_ids, np.asarray(captions["caption_id"]))[0]
    texts: list[str] = captions["text"].combine_chunks().take(pa.array(places)).to_pylist()
    return texts


def explain_failures(
    failures: Failures,
    concepts: ImageConcepts,
    texts: Sequence[str] | None = None,
    *,
    similarity: Similarity = similarity_matrix,
    allow_unannotated: bool = False,
) -> Explained:
    """What the images at the top show, beside what the right ones do.

    Args:
        failures: F failed queries.
        concepts: what the images show.
        texts: (F,) the failed queries in words, for the concepts that these mention; None where queries are images.
        similarity: of concepts, for NCS.
        allow_unannotated: whether a failure with an image that nobody annotated is left without numbers, in place of an
            error: for a source that covers a part of the split, as Visual Genome does.

    Returns:
        A table with a row per failure. ``query_id``, ``truth_id``, ``retrieved_id``, ``item_id``, ``rival_id`` (the
        image that comes next) and ``truth_rank`` are as in ``Failures``, ``annotated``
        says whether both images are. The measures follow, float64: of all concepts; of those that the query mentions,
        ``_informed``; and minus the best that another candidate has, ``_over_rival``. Counts of concepts, int64, are
        the last: in both images, in one alone, and, of those in both, how many have another number of instances. What
        is not defined is null; that is every number of a failure whose right image shows no concept.

    Raises:
        DataError: an image whose concepts nobody annotated, a damaged WordNet or none.
    """
    shown, annotated = _find_shown(failures, concepts, allow_unannotated)
    rows = np.flatnonzero([known and bool(shown[g]) for known, g in zip(annotated, failures.truth_ids, strict=True)])
    measure = partial(measure_failures, similarity=similarity, counted=concepts.counted)
    pairs = _pair(failures, rows, failures.retrieved_ids[rows], shown)
    plain = measure(pairs)
    columns = {name: _spread(values, rows, len(failures)) for name, values in plain.items()}
    if concepts.counted:
        columns[REAL] = _spread(size_disagreement(pairs, threshold=None), rows, len(failures))
    if texts is not None:
        # Of all images, so that a query mentions the same whichever model failed it.
        vocabulary = sorted({name for seen in concepts.images.values() for name in seen})
        mentioned, kept = keep_mentioned(pairs, find_mentions([texts[row] for row in rows.tolist()], vocabulary))
        informed = measure(mentioned)
        columns |= {f"{name}_informed": _spread(values, rows[kept], len(failures)) for name, values in informed.items()}
    over = subtract_best(plain, _measure_rivals(failures, rows, shown, measure))
    columns |= {f"{name}_over_rival": _spread(values, rows, len(failures)) for name, values in over.items()}
    counts = {name: _spread(values, rows, len(failures)) for name, values in _count(pairs, concepts.counted).items()}
    reasons = {} if texts is not None else {f"{name}_informed": NO_WORDS for name in MEASURED}
    if not concepts.counted:
        names = [*(f"{name}{variant}" for name in OF_INSTANCES for variant in VARIANTS), REAL, COUNTS[-1]]
        reasons = dict.fromkeys(names, f"{concepts.source} {NOT_COUNTED}") | reasons
    return Explained(failures, _make_table(failures, annotated, columns, counts), reasons)


def _find_shown(
    failures: Failures, concepts: ImageConcepts, allow_unannotated: bool
) -> tuple[dict[int, Concepts], NDArray[np.bool_]]:
    """Image to what it shows, of all images of the failures; and (F,) whether right and retrieved image are there."""
    ids = np.unique(np.concatenate([failures.truth_ids, failures.retrieved_ids, failures.rival_ids.ravel()]))
    ids = ids[ids != NOBODY]
    if allow_unannotated:
        ids = np.array([image for image in ids.tolist() if image in concepts.images], dtype=np.int64)
    shown = dict(zip(ids.tolist(), concepts.of(ids.tolist()), strict=True))
    return shown, np.isin(failures.truth_ids, ids) & np.isin(failures.retrieved_ids, ids)


def _pair(failures: Failures, rows: IntArray, images: IntArray, shown: Mapping[int, Concepts]) -> ConceptPairs:
    """What the right image of each of these failures shows, beside what another image does."""
    truths = [shown[image] for image in failures.truth_ids[rows].tolist()]
    return ConceptPairs(failures.query_ids[rows], truths, [shown[image] for image in images.tolist()])


def _measure_rivals(
    failures: Failures,
    rows: IntArray,
    shown: Mapping[int, Concepts],
    measure: Callable[[ConceptPairs], dict[str, FloatArray]],
) -> dict[str, FloatArray]:
    """Name to (rows, K) values of the other candidates; NaN where there is none, or nobody annotated it."""
    rivals = failures.rival_ids[rows]
    own, places = np.nonzero(np.isin(rivals, list(shown)))
    found = measure(_pair(failures, rows[own], rivals[own, places], shown))
    return {name: _spread(values, (own, places), rivals.shape) for name, values in found.items()}


def _spread(values: FloatArray, places: Any, shape: int | tuple[int, ...]) -> FloatArray:  # noqa: ANN401 - any index
    """Values at their places, NaN elsewhere."""
    spread = np.full(shape, np.nan)
    spread[places] = values
    return spread


def _count(pairs: ConceptPairs, counted: bool) -> dict[str, FloatArray]:
    """Concepts of each pair in both images, in one alone, and of those in both how many differ in number."""
    both = list(zip(pairs.truths, pairs.retrieved, strict=True))
    found = [
        [len(truth.keys() & seen.keys()) for truth, seen in both],
        [len(truth.keys() - seen.keys()) for truth, seen in both],
        [len(seen.keys() - truth.keys()) for truth, seen in both],
        [sum(truth[name].size != seen[name].size for name in truth.keys() & seen.keys()) for truth, seen in both],
    ]
    return dict(zip(COUNTS[: None if counted else -1], map(np.asarray, found), strict=False))


def _make_table(
    failures: Failures,
    annotated: NDArray[np.bool_],
    columns: Mapping[str, FloatArray],
    counts: Mapping[str, FloatArray],
) -> pa.Table:
    undefined = np.full(len(failures), np.nan)
    next_ids = failures.rival_ids[:, 0]
    return pa.table(
        {
            "query_id": failures.query_ids,
            "truth_id": failures.truth_ids,
            "retrieved_id": failures.retrieved_ids,
            "item_id": failures.item_ids,
            "rival_id": pa.array(next_ids, mask=next_ids == NOBODY),
            "truth_rank": failures.truth_ranks,
            "annotated": annotated,
            **{name: pa.array(columns.get(name, undefined), from_pandas=True) for name in NUMBERS},
            **{name: pa.array(counts.get(name, undefined), pa.int64(), from_pandas=True) for name in COUNTS},
        }
    )
