"""Failed queries of a run, and the numbers of each failure: CA, NCS, CE and SD.

Each number has a variant of the concepts that the query mentions, and one against the best rival.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName, raise_all
from cxc_eccv.evaluation import Request
from cxc_eccv.evaluation.measure import find_faults
from cxc_eccv.evaluation.metric_inputs import RankInput
from cxc_eccv.evaluation.plan import Plan, make_plan
from cxc_eccv.evaluation.score import images_behind
from cxc_eccv.metrics.concept_agreement import concept_agreement
from cxc_eccv.metrics.concept_enumeration import concept_enumeration
from cxc_eccv.metrics.non_common_similarity import non_common_similarity
from cxc_eccv.metrics.size_disagreement import size_disagreement
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.ranking.scores import one_blas_thread
from cxc_eccv.runs import Run
from cxc_eccv.sources.catalog import ALL_SPLITS
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.library import Split
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.studies.explain.concepts import ImageConcepts, find_mentions
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.concept_pairs import ConceptPairs, Concepts, Similarity

TASKS = {"t2i": "coco_5k", "i2t": "coco_5k", "t2t": "co_captions"}
"""Direction to the task whose recall@1 counts the failures."""

DEPTH = 11
"""Items of a ranking to find rivals in: an image has five captions, so the eleventh is of a third image."""

TOLD = 0.001
"""Share of queries decided by ties that is worth a warning: 0.1 point of recall."""

NOBODY = -1
"""Stands in rivals for no further image."""

MEASURES = ("concept_agreement", "non_common_similarity", "concept_enumeration", "size_disagreement")
"""The four numbers of a failure, in the order of the paper."""

OF_TRUTH = "size_disagreement_truth"
"""SD with differences as shares of the right image's instance, and not of the smaller one of the two."""

MEASURED = (*MEASURES, OF_TRUTH)
"""The numbers that have variants."""

INFORMED = "_informed"
OVER_RIVAL = "_over_rival"
"""Suffixes of the variants: of the concepts that the query mentions, and minus the best of the other candidates."""

OF_INSTANCES = ("concept_enumeration", "size_disagreement", OF_TRUTH)
"""Numbers that need instances with their areas; lower is better."""

SIZE_THRESHOLD = 1.0
"""The paper's T_D of 100%: sizes disagree if one is at least twice the other."""

REAL = "size_disagreement_real"
"""SD without a threshold: the sum over common concepts of the mean area difference."""

NUMBERS = (
    *MEASURED,
    REAL,
    *(f"{name}{INFORMED}" for name in MEASURED),
    *(f"{name}{OVER_RIVAL}" for name in MEASURED),
)
"""The numbers of a failure, as columns."""

COUNTS = ("common_concepts", "truth_only_concepts", "retrieved_only_concepts", "differing_concepts")
"""Concepts in both images of a failure, in only one of them, and in both with different numbers of instances."""

MATCHED = "matched_keywords"
"""Column with the number of a query's mentions that the texts of its right image make too."""

NO_WORDS = "the queries are images, which mention nothing"

NOT_COUNTED = (
    "have no number and size of instances; give annotations with boxes, such as instances_val2014.json (--annotations)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Failures:
    """The queries of one direction whose top item is not of their own image.

    A failure is a query whose recall@1 is 0 under the task's positives; an item that ties with a positive counts as
    ranked above it. Every item stands for an image: itself, or the one a caption was written for.

    Attributes:
        direction: ``t2i``, ``i2t`` or ``t2t``.
        asked: a row for each of all Q queries, failed or not: ``query_id`` and ``truth_id``, its image.
        rows: a row for each of the F failed queries, in the same order: ``query_id`` and ``truth_id``; the top item,
            ``item_id``, and its image, ``retrieved_id``; the rank of the best right item, ``truth_rank``, missing if
            the ranking ends above it.
        rival_ids: (F, K) the next distinct images other than the right and the retrieved one, best first, padded with
            NOBODY.
    """

    direction: str
    asked: pd.DataFrame
    rows: pd.DataFrame
    rival_ids: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_queries(self) -> int:
        """The number of all queries."""
        return len(self.asked)


def check_run(run: Run, split: Split, directions: Sequence[str] | None = None) -> Plan:
    """Select what a run's recall@1 is computed from, for these directions, or all that it can be ranked in.

    There is a part for each direction. ``skipped`` has the reason for each direction that is not selected; it is empty
    if directions are given. Raises what ``evaluate`` raises.
    """
    reasons = {direction: run.why_not(direction) for direction in TASKS}
    skipped = {direction: why for direction, why in reasons.items() if why is not None}
    able = [direction for direction in TASKS if direction not in skipped]
    wanted = list(dict.fromkeys(directions or able))
    if not wanted:
        raise InvalidOption("; ".join(f"{direction} cannot be explained: {why}" for direction, why in skipped.items()))
    for direction in wanted:
        if direction not in TASKS:
            raise UnknownName("direction", direction, TASKS)
    is_usual = split.collection.is_default and split.name != ALL_SPLITS
    tasks = [f"{TASKS[name]}/{name}" for name in wanted]
    request = Request(tasks=tasks, metrics="recall_at_1", split=split.name if is_usual else "test")
    # These tasks read nothing but which caption is of which image, so any images of COCO can stand for its test split.
    whole = None if is_usual else replace(split, collection=COCO, name=request.split)
    plan = make_plan(request, split.library, run, whole=whole)
    raise_all(find_faults(ranked(run), plan, split))
    return replace(plan, skipped={} if directions else skipped)


def find_failures(
    run: Run,
    split: Split,
    direction: str,
    *,
    similarity: str | None = None,
    selection: Plan | None = None,
) -> Failures:
    """The failed queries of a run in one direction: failures / queries is exactly 1 - recall@1 of its evaluation.

    Rivals are among the first :data:`DEPTH` items, or as many as all rankings have. ``selection`` is the result of
    :func:`check_run`, if it was called before.
    """
    with one_blas_thread():
        chosen = selection or check_run(run, split, [direction])
        (part,) = (part for part in chosen.parts if part.name == direction)
        (rank_input,) = part.inputs
        assert isinstance(rank_input, RankInput)  # noqa: S101 - recall is computed from ranks
        judged = rank_input.judged
        ranker = ranked(run, Options(similarity, progress=True))
        reader = TopRows(judged, ranker.limit_depth(DEPTH, judged, direction))
        ranks = ranker.rank_all({direction: (direction, judged)}, {direction: [reader]})[direction]
    measured = rank_input.use_ranks(ranks)
    raise_all(measured.errors.values())  # a ranking without an item of the gallery
    if measured.n_cut:
        warnings.warn(
            f"{direction}: {measured.n_cut:,} of {judged.query_ids.size:,} rankings end within a tie: failures may be "
            "missing. Rank more items",
            stacklevel=2,
        )
    helped = ranks.if_ties_help
    decided = 0 if helped is None else int(np.count_nonzero((ranks.best > 1) & (helped.best == 1)))
    if decided > TOLD * judged.query_ids.size:
        warnings.warn(
            f"{direction}: {decided:,} of {judged.query_ids.size:,} queries fail only because an item ties with the "
            "positive, which ranks below it (docs/ties.md)",
            stacklevel=2,
        )
    top = reader.result
    truths = images_behind(judged.query_ids, split, direction)
    images = images_behind(top.ids, split, direction[::-1])
    failed = np.flatnonzero(images[:, 0] != truths)
    asked = pd.DataFrame({"query_id": judged.query_ids, "truth_id": truths})
    has_no_rank = np.diff(ranks.indptr)[failed] == 0
    rows = asked.iloc[failed].reset_index(drop=True)
    rows["retrieved_id"] = images[failed, 0]
    rows["item_id"] = top.ids[failed, 0]
    rows["truth_rank"] = pd.arrays.IntegerArray(ranks.best[failed].astype(np.int64), has_no_rank)
    return Failures(direction, asked, rows, rival_ids=_find_rivals(images[failed], truths[failed]))


def _find_rivals(images: IntArray, truths: IntArray) -> IntArray:
    """(F, K) distinct images of (F, depth) items other than the top and the truth, padded with -1."""
    new = images != truths[:, None]
    for place in range(images.shape[1]):
        new[:, place] &= (images[:, :place] != images[:, place, None]).all(axis=1)
    new[:, :1] = False
    order = np.argsort(~new, axis=1, kind="stable")
    rivals = np.take_along_axis(np.where(new, images, NOBODY), order, axis=1)
    return rivals[:, : max(1, int(new.sum(axis=1).max(initial=0)))]


def measure_failures(
    pairs: ConceptPairs, similarity: Similarity, *, counted: bool = True, size_threshold: float = SIZE_THRESHOLD
) -> dict[str, FloatArray]:
    """All metrics of failures; size disagreement twice, as the paper does not say what it is relative to.

    Args:
        pairs: the concepts of both images of F failures.
        similarity: similarity of concepts, such as :func:`cxc_eccv.sources.wordnet.similarity_matrix`.
        counted: whether instances are known with their areas; without them, only concept agreement and similarity can
            be computed.
        size_threshold: the smallest difference in size that counts, the paper's T_D.

    Returns:
        Name of each metric to (F,) values, NaN if undefined. ``size_disagreement`` is relative to the smaller instance
        of a match, ``size_disagreement_truth`` to the right image's.

    Raises:
        DataError: ``counted``, and a concept has no instances or areas.

    Example:
        >>> truth, retrieved = {"dog": np.array([0.5]), "ball": np.array([0.1])}, {"dog": np.array([0.2])}
        >>> pairs = ConceptPairs(np.array([1]), [truth], [retrieved])
        >>> values = measure_failures(pairs, lambda names: np.eye(len(names)))
        >>> {name: array.tolist() for name, array in values.items() if name.startswith("c")}
        {'concept_agreement': [0.5], 'concept_enumeration': [0.0]}
        >>> {name: array.tolist() for name, array in values.items() if not name.startswith("c")}
        {'non_common_similarity': [nan], 'size_disagreement': [1.0], 'size_disagreement_truth': [0.0]}
    """
    values = [concept_agreement(pairs), non_common_similarity(pairs, similarity)]
    if counted:
        sizes = [size_disagreement(pairs, way, size_threshold) for way in ("smaller", "truth")]
        values += [concept_enumeration(pairs), *sizes]
    return dict(zip(MEASURED, values, strict=False))


def keep_mentioned(pairs: ConceptPairs, mentions: Sequence[AbstractSet[str]]) -> tuple[ConceptPairs, NDArray[np.bool_]]:
    """Reduce pairs to the concepts that the query mentions, which makes every metric its query-informed variant.

    The right image keeps the concepts that the query mentions. The retrieved one keeps these, and those that only it
    shows: NCS compares mentioned, missing concepts with any that take their place. CA, CE and SD are about common
    concepts, so they use only the mentioned ones.

    Args:
        pairs: the concepts of both images of F failures.
        mentions: F sets of concepts, such as those of ``find_mentions``.

    Returns:
        The M failures whose query mentions a concept of the right image, and the (F,) mask of these.

    Raises:
        DataError: the number of sets is not F.

    Example:
        >>> area = np.array([0.1])
        >>> dog, cat = {"dog": area, "tree": area}, {"cat": area, "tree": area}
        >>> cut, kept = keep_mentioned(ConceptPairs(np.array([7, 8]), [dog, cat], [cat, dog]), [{"dog"}, {"dog"}])
        >>> kept.tolist(), [list(shown) for shown in (*cut.truths, *cut.retrieved)]
        ([True, False], [['dog'], ['cat']])
    """
    if len(mentions) != len(pairs):
        raise DataError(f"{len(mentions)} sets of mentions for {len(pairs)} failures; give one for each")
    wanted = [truth.keys() & named for truth, named in zip(pairs.truths, mentions, strict=True)]
    kept = np.array([bool(names) for names in wanted], dtype=np.bool_)
    truths = []
    retrieved = []
    for row in np.flatnonzero(kept).tolist():
        truth = pairs.truths[row]
        seen = pairs.retrieved[row]
        truths.append({name: areas for name, areas in truth.items() if name in wanted[row]})
        retrieved.append({name: areas for name, areas in seen.items() if name in wanted[row] or name not in truth})
    return ConceptPairs(pairs.query_ids[kept], truths, retrieved), kept


def subtract_best(retrieved: Mapping[str, FloatArray], others: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    r"""How much better the retrieved image is than the best other candidate.

    .. math:: \Delta m_f = m(I_g, I_r) - \operatorname{best}_{k \le K} m(I_g, I_k)

    over the next K images in the ranking other than the ground truth and the retrieved one. Each metric has its own
    best image. CE and SD compare the concepts that an image shares with the ground truth, so images that share none are
    left out: they would have the best enumeration of all.

    Args:
        retrieved: name of each metric, concept agreement among them, to (F,) values of the images at the top.
        others: the same names to (F, K) values of the candidates, NaN for no candidate.

    Returns:
        Name to (F,) differences; NaN if the metric is undefined for the retrieved image or for all others.

    Example:
        >>> top = {"concept_agreement": np.array([0.5]), "concept_enumeration": np.array([3.0])}
        >>> others = {"concept_agreement": np.array([[0.0, 0.25]]), "concept_enumeration": np.array([[0.0, 1.0]])}
        >>> {name: values.tolist() for name, values in subtract_best(top, others).items()}
        {'concept_agreement': [0.25], 'concept_enumeration': [2.0]}
    """
    differences = {}
    for name, values in retrieved.items():
        candidates = others[name]
        lower_is_better = name in OF_INSTANCES
        if lower_is_better:
            values = np.where(retrieved["concept_agreement"] > 0, values, np.nan)
            candidates = np.where(others["concept_agreement"] > 0, candidates, np.nan)
        best = (np.fmin if lower_is_better else np.fmax).reduce(candidates, axis=1, initial=np.nan)
        differences[name] = values - best
    return differences


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """The failures of a run in one direction, with a row for each in ``table``, see :func:`explain_failures`.

    ``not_computed`` has the columns that are null in every row, with the reason.
    """

    failures: Failures
    table: pa.Table
    not_computed: Mapping[str, str]


def explain_failures(
    failures: Failures,
    concepts: ImageConcepts,
    texts: Sequence[str] | None = None,
    *,
    similarity: Similarity = similarity_matrix,
    size_threshold: float = SIZE_THRESHOLD,
) -> Explained:
    """Compare the concepts of the retrieved images with those of the right ones; ``texts`` are the failed queries.

    The table has a row per failure: its ids, whether both images are annotated, ``NUMBERS`` as float64, ``COUNTS`` as
    int64. Undefined numbers are null, as are all numbers of a failure whose right image shows no concept. An image that
    was not annotated is an error, except for Visual Genome, which covers a part of the split; there its numbers are
    null.
    """
    truths = failures.rows["truth_id"].to_numpy()
    tops = failures.rows["retrieved_id"].to_numpy()
    images = np.unique(np.concatenate([truths, tops, failures.rival_ids.ravel()]))
    ids = images[images != NOBODY].tolist()
    if concepts.source == "Visual Genome":
        ids = [image for image in ids if image in concepts.images]
    shown = dict(zip(ids, concepts.of(ids), strict=True))
    annotated = np.isin(truths, ids) & np.isin(tops, ids)
    shows_any = np.array([bool(shown.get(truth)) for truth in truths.tolist()], dtype=np.bool_)
    rows = np.flatnonzero(annotated & shows_any)
    measure = partial(measure_failures, similarity=similarity, counted=concepts.counted, size_threshold=size_threshold)
    numbers = _measure_rows(failures, rows, shown, concepts, texts, measure)
    numbers = numbers.reindex(index=range(len(failures)), columns=[*NUMBERS, *COUNTS])
    next_ids = failures.rival_ids[:, 0]
    table = {
        "query_id": failures.rows["query_id"],
        "truth_id": truths,
        "retrieved_id": tops,
        "item_id": failures.rows["item_id"],
        "rival_id": pa.array(next_ids, mask=next_ids == NOBODY),
        "truth_rank": pa.array(failures.rows["truth_rank"], pa.int64()),
        "annotated": annotated,
        **{name: pa.array(numbers[name], pa.float64(), from_pandas=True) for name in NUMBERS},
        **{name: pa.array(numbers[name], pa.int64(), from_pandas=True) for name in COUNTS},
    }
    return Explained(failures, pa.table(table), _find_reasons(concepts, has_words=texts is not None))


def _find_reasons(concepts: ImageConcepts, *, has_words: bool) -> dict[str, str]:
    """Column without numbers to the reason."""
    reasons = {}
    if not concepts.counted:
        for name in OF_INSTANCES:
            for variant in ("", INFORMED, OVER_RIVAL):
                reasons[f"{name}{variant}"] = f"{concepts.source} {NOT_COUNTED}"
        reasons |= dict.fromkeys([REAL, COUNTS[-1]], f"{concepts.source} {NOT_COUNTED}")
    if not has_words:
        reasons |= {f"{name}{INFORMED}": NO_WORDS for name in MEASURED}
    return reasons


def _measure_rows(
    failures: Failures,
    rows: IntArray,
    shown: Mapping[int, Concepts],
    concepts: ImageConcepts,
    texts: Sequence[str] | None,
    measure: Callable[[ConceptPairs], dict[str, FloatArray]],
) -> pd.DataFrame:
    """The numbers of these rows of failures, whose images are shown: a column each, by row."""
    top = _pair_concepts(failures, rows, failures.rows["retrieved_id"].to_numpy()[rows], shown)
    plain = measure(top)
    numbers = pd.DataFrame(plain | _count(top), index=rows)
    if concepts.counted:
        numbers[REAL] = size_disagreement(top, threshold=None)
    else:
        numbers = numbers.drop(columns=COUNTS[-1])
    if texts is not None:
        # The concepts of all images, so that a query's mentions do not depend on the model.
        mentions = find_mentions([texts[row] for row in rows.tolist()], concepts.vocabulary)
        mentioned, kept = keep_mentioned(top, mentions)
        numbers = numbers.join(pd.DataFrame(measure(mentioned), index=rows[kept]).add_suffix(INFORMED))
    rivals = failures.rival_ids[rows]
    places = np.nonzero(np.isin(rivals, list(shown)))
    of_rivals = {name: np.full(rivals.shape, np.nan) for name in plain}
    for name, values in measure(_pair_concepts(failures, rows[places[0]], rivals[places], shown)).items():
        of_rivals[name][places] = values
    return numbers.join(pd.DataFrame(subtract_best(plain, of_rivals), index=rows).add_suffix(OVER_RIVAL))


def _pair_concepts(failures: Failures, rows: IntArray, images: IntArray, shown: Mapping[int, Concepts]) -> ConceptPairs:
    """The concepts of the right images of these rows, and those of other images."""
    of_rows = failures.rows.iloc[rows]
    truths = [shown[image] for image in of_rows["truth_id"].tolist()]
    return ConceptPairs(of_rows["query_id"].to_numpy(), truths, [shown[image] for image in images.tolist()])


def _count(pairs: ConceptPairs) -> dict[str, list[int]]:
    """``COUNTS`` of each pair."""
    counts: dict[str, list[int]] = {name: [] for name in COUNTS}
    for truth, seen in zip(pairs.truths, pairs.retrieved, strict=True):
        common = truth.keys() & seen.keys()
        counts["common_concepts"].append(len(common))
        counts["truth_only_concepts"].append(len(truth) - len(common))
        counts["retrieved_only_concepts"].append(len(seen) - len(common))
        counts["differing_concepts"].append(sum(truth[name].size != seen[name].size for name in common))
    return counts
