"""Explain failures by concepts: the numbers of each failure of a model, and two models compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.builders.config import caption_texts
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.report import choose_similarity, describe_run, name_model, provenance_of
from cxc_eccv.evaluation.select import Selection
from cxc_eccv.evaluation.settings import check_split
from cxc_eccv.metrics.size_disagreement import size_disagreement
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.wordnet import VERSION as WORDNET
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.studies.explain.concepts import ImageConcepts
from cxc_eccv.studies.explain.failures import NOBODY, Failures, directions_of, find_failures, select_recall
from cxc_eccv.studies.explain.measures import (
    INFORMED,
    MEASURED,
    OF_INSTANCES,
    OVER_RIVAL,
    keep_mentioned,
    measure_failures,
    subtract_best,
)
from cxc_eccv.studies.explain.mentions import find_mentions
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.seen import ConceptPairs, Concepts, Similarity

REAL = "size_disagreement_real"
"""SD without a threshold: the sum over common concepts of the mean area difference."""

NUMBERS = (*MEASURED, REAL, *(f"{name}{variant}" for variant in (INFORMED, OVER_RIVAL) for name in MEASURED))
"""The numbers of a failure, as columns."""

COUNTS = ("common_concepts", "truth_only_concepts", "retrieved_only_concepts", "differing_concepts")
"""Concepts in both images of a failure, in only one of them, and in both with different numbers of instances."""

NO_WORDS = "the queries are images, which mention nothing"
NOT_COUNTED = (
    "have no number and size of instances; give annotations with boxes, such as instances_val2014.json (--annotations)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """The failures of a run in one direction, with a row for each in ``table``, see :func:`explain_failures`.

    ``not_computed`` has the columns that are null in every row, with the reason.
    """

    failures: Failures
    table: pa.Table
    not_computed: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The explained failures of one model; ``skipped`` has the reason for each direction it cannot be ranked in."""

    model: str
    split: str
    concepts: ImageConcepts
    directions: Mapping[str, Explained]
    skipped: Mapping[str, str]
    provenance: Mapping[str, Any]


def check_runs(
    runs: Mapping[str, Run],
    library: Library,
    split: str,
    *,
    directions: Sequence[str] | None = None,
    similarity: str | None = None,
) -> dict[str, Selection]:
    """Check that runs can be explained, and compared, before long files are read.

    Returns the selection of each model's run, see :func:`check_run`.
    """
    selections = {}
    for model, run in runs.items():
        choose_similarity(run, similarity=similarity)
        selections[model] = check_run(run, library, split, directions)
    _refuse_other_queries(
        {model: {part.name: part.needs[0].query_ids for part in each.parts} for model, each in selections.items()}
    )
    return selections


def _refuse_other_queries(asked: Mapping[str, Mapping[str, IntArray]]) -> None:
    """Raise InvalidOption if models have other queries than the first, in a direction that both have."""
    (baseline, first), *others = asked.items()
    for model, of_model in others:
        for direction in (name for name in first if name in of_model):
            if not np.array_equal(first[direction], of_model[direction]):
                raise InvalidOption(
                    f"{baseline} and {model} have different {direction} queries, {first[direction].size:,} and "
                    f"{of_model[direction].size:,}. Give runs of the same images; query-corpus rankings also need the "
                    "same --query-position."
                )


def check_run(run: Run, library: Library, split: str, directions: Sequence[str] | None = None) -> Selection:
    """Select what a run's recall@1 is computed from, for these directions, or all that it can be ranked in.

    ``skipped`` has the reason for each direction that is not selected; it is empty if directions are given.
    """
    check_split(split)
    able, skipped = directions_of(run)
    wanted = list(dict.fromkeys(directions or able))
    if not wanted:
        raise InvalidOption("; ".join(f"{direction} cannot be explained: {why}" for direction, why in skipped.items()))
    return replace(select_recall(run, library, split, wanted), skipped={} if directions else skipped)


def explain_run(
    run: Run,
    library: Library,
    concepts: ImageConcepts,
    split: str = "test",
    *,
    selection: Selection | None = None,
    similarity: str | None = None,
    name: str | None = None,
) -> Explanation:
    """Find and explain a run's failures, in the directions that :func:`check_run` selected."""
    scoring, model = choose_similarity(run, similarity=similarity), name_model(run, name)
    chosen = selection or check_run(run, library, split)
    explained = {}
    for direction in (part.name for part in chosen.parts):
        failures = find_failures(run, library, split, direction, similarity=scoring["similarity"], selection=chosen)
        texts = None if direction == "i2t" else caption_texts(library, split, failures.query_ids).to_pylist()
        explained[direction] = explain_failures(failures, concepts, texts)
    facts = provenance_of(
        library,
        split=split,
        run=describe_run(run, chosen.parts),
        **scoring,
        **model,
        **({"restriction": chosen.restriction.facts} if chosen.restriction.facts else {}),
        concepts={
            "source": concepts.source,
            "counted": concepts.counted,
            "images": {"annotated": len(concepts.images), "of": concepts.n_images},
            "left_out": dict(concepts.left_out),
        },
        wordnet=WORDNET,
    )
    title = model.get("model") or (run.path.name if run.path is not None else "run")
    return Explanation(title, split, concepts, explained, chosen.skipped, facts)


def explain_failures(
    failures: Failures,
    concepts: ImageConcepts,
    texts: Sequence[str] | None = None,
    *,
    similarity: Similarity = similarity_matrix,
) -> Explained:
    """Compare the concepts of the retrieved images with those of the right ones; ``texts`` are the failed queries.

    The table has a row per failure: its ids, whether both images are annotated, ``NUMBERS`` as float64, ``COUNTS`` as
    int64. Undefined numbers are null, as are all numbers of a failure whose right image shows no concept. An image that
    was not annotated is an error, except for Visual Genome, which covers a part of the split; there its numbers are
    null.
    """
    images = np.unique(np.concatenate([failures.truth_ids, failures.retrieved_ids, failures.rival_ids.ravel()]))
    ids = images[images != NOBODY].tolist()
    if concepts.source == "Visual Genome":
        ids = [image for image in ids if image in concepts.images]
    shown = dict(zip(ids, concepts.of(ids), strict=True))
    annotated = np.isin(failures.truth_ids, ids) & np.isin(failures.retrieved_ids, ids)
    rows = np.flatnonzero(annotated & np.array([bool(shown.get(truth)) for truth in failures.truth_ids.tolist()], bool))
    columns = {name: np.full(len(failures), np.nan) for name in (*NUMBERS, *COUNTS)}
    for places, values in _measure(failures, rows, shown, concepts, texts, similarity):
        for name, column in values.items():
            columns[name][places] = column
    reasons = {} if texts is not None else {f"{name}{INFORMED}": NO_WORDS for name in MEASURED}
    if not concepts.counted:
        names = [*(f"{name}{variant}" for name in OF_INSTANCES for variant in ("", INFORMED, OVER_RIVAL)), REAL]
        reasons = dict.fromkeys([*names, COUNTS[-1]], f"{concepts.source} {NOT_COUNTED}") | reasons
    next_ids = failures.rival_ids[:, 0]
    table = {
        "query_id": failures.query_ids,
        "truth_id": failures.truth_ids,
        "retrieved_id": failures.retrieved_ids,
        "item_id": failures.item_ids,
        "rival_id": pa.array(next_ids, mask=next_ids == NOBODY),
        "truth_rank": failures.truth_ranks,
        "annotated": annotated,
        **{name: pa.array(columns[name], from_pandas=True) for name in NUMBERS},
        **{name: pa.array(columns[name], pa.int64(), from_pandas=True) for name in COUNTS},
    }
    return Explained(failures, pa.table(table), reasons)


def _measure(
    failures: Failures,
    rows: IntArray,
    shown: Mapping[int, Concepts],
    concepts: ImageConcepts,
    texts: Sequence[str] | None,
    similarity: Similarity,
) -> Iterator[tuple[IntArray, dict[str, FloatArray]]]:
    """Yield rows of failures, and columns of their numbers."""

    def pair(rows: IntArray, images: IntArray) -> ConceptPairs:
        truths = [shown[image] for image in failures.truth_ids[rows].tolist()]
        return ConceptPairs(failures.query_ids[rows], truths, [shown[image] for image in images.tolist()])

    measure = partial(measure_failures, similarity=similarity, counted=concepts.counted)
    pairs = pair(rows, failures.retrieved_ids[rows])
    plain = measure(pairs)
    yield rows, plain | _count(pairs, concepts.counted)
    if concepts.counted:
        yield rows, {REAL: size_disagreement(pairs, threshold=None)}
    if texts is not None:
        # The concepts of all images, so that a query's mentions do not depend on the model.
        vocabulary = sorted({name for seen in concepts.images.values() for name in seen})
        mentioned, kept = keep_mentioned(pairs, find_mentions([texts[row] for row in rows.tolist()], vocabulary))
        yield rows[kept], {f"{name}{INFORMED}": values for name, values in measure(mentioned).items()}
    rivals = failures.rival_ids[rows]
    known = np.nonzero(np.isin(rivals, list(shown)))
    of_rivals = {name: np.full(rivals.shape, np.nan) for name in plain}
    for name, values in measure(pair(rows[known[0]], rivals[known])).items():
        of_rivals[name][known] = values
    yield rows, {f"{name}{OVER_RIVAL}": values for name, values in subtract_best(plain, of_rivals).items()}


def _count(pairs: ConceptPairs, counted: bool) -> dict[str, FloatArray]:
    """``COUNTS`` of each pair; the last one only if instances are counted."""
    both = list(zip(pairs.truths, pairs.retrieved, strict=True))
    counts = [
        [len(truth.keys() & seen.keys()) for truth, seen in both],
        [len(truth.keys() - seen.keys()) for truth, seen in both],
        [len(seen.keys() - truth.keys()) for truth, seen in both],
        [sum(truth[name].size != seen[name].size for name in truth.keys() & seen.keys()) for truth, seen in both],
    ]
    return dict(zip(COUNTS[: None if counted else -1], map(np.asarray, counts), strict=False))


@dataclass(frozen=True, slots=True)
class Paired:
    """One number of two models' failures over the same queries, the model's minus the baseline's, with its interval.

    The key is ``direction/name``. ``failure_rate`` is the share of failed queries, over all queries; ``failed_alone``
    and ``baseline_failed_alone`` are the shares of all queries that only one of the two fails; any other name is the
    mean of a number over the queries that both fail and on which it is defined for both.
    """

    model: str
    baseline: str
    key: str
    value: float
    low: float
    high: float
    n_queries: int
    n_images: int

    @property
    def is_share(self) -> bool:
        """Whether the value is a share of the queries and not a difference."""
        return self.key.endswith("failed_alone")


def compare_failures(
    baseline: Explanation, model: Explanation, *, seed: int = 0, confidence: float = 0.95
) -> list[Paired]:
    """Compare two models' failures over the queries that both were asked, which must be the same.

    A direction that one of the two cannot be ranked in has no rows, and neither has a number that is defined for both
    on no query that both fail. Intervals are percentiles of a bootstrap over images.
    """
    if (baseline.split, baseline.provenance["concepts"]) != (model.split, model.provenance["concepts"]):
        raise InvalidOption(
            f"{baseline.model} and {model.model} were explained on different splits or concepts; explain both with the "
            "same"
        )
    first, second = (
        {name: explained.failures.asked_ids for name, explained in side.directions.items()}
        for side in (baseline, model)
    )
    _refuse_other_queries({baseline.model: first, model.model: second})
    draws, rows = Draws(seed), []
    for direction in (name for name in baseline.directions if name in model.directions):
        for name, values, images in _pair_up(baseline.directions[direction], model.directions[direction]):
            low, high = interval(ClusterBootstrap(images, draws).means(values[:, None])[0], confidence)
            sizes = values.size, int(np.unique(images).size)
            key, value = f"{direction}/{name}", float(values.mean())
            rows.append(Paired(model.model, baseline.model, key, value, low, high, *sizes))
    return rows


def _pair_up(baseline: Explained, model: Explained) -> Iterator[tuple[str, FloatArray, IntArray]]:
    """Yield the name, and each query's value and image, of every compared number."""
    asked, images = baseline.failures.asked_ids, baseline.failures.asked_images
    failed, fails = (np.isin(asked, explained.failures.query_ids) for explained in (baseline, model))
    yield "failure_rate", fails.astype(np.float64) - failed, images
    yield "failed_alone", (fails & ~failed).astype(np.float64), images
    yield "baseline_failed_alone", (failed & ~fails).astype(np.float64), images
    both = failed & fails  # the failures of both models are in the order of all queries
    rows, places = (np.isin(side.failures.query_ids, asked[both]) for side in (baseline, model))
    for name in NUMBERS:
        differences = model.table[name].to_numpy()[places] - baseline.table[name].to_numpy()[rows]
        defined = ~np.isnan(differences)
        if defined.any():
            yield name, differences[defined], images[both][defined]
