"""keep_run: writes what later reports need of a run, under any labels, to a small file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cxc_eccv
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.evaluation.labels import find_positives
from cxc_eccv.evaluation.report import choose_similarity, name_model, training_data_of
from cxc_eccv.evaluation.settings import check_split
from cxc_eccv.judgments.evidence import sources_of
from cxc_eccv.ranking.counts import Counts, MergedJudgments
from cxc_eccv.ranking.known import name_galleries
from cxc_eccv.ranking.rank import Requests, counts_of_run
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.ranking.scores import one_blas_thread
from cxc_eccv.registry import tasks
from cxc_eccv.runs import EmbeddingsRun, MultiVectorRun, RankingsRun, Run, ScoresRun, load_run
from cxc_eccv.runs.kept import check_run_file, write_run_file
from cxc_eccv.runs.rankings import KnownPositives, RankedLists, narrow_ids
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.task import COCO, NotApplicable
from cxc_eccv.types import CROSS_MODAL, IntArray, Judgments, TopK, check_whole, positions_of
from cxc_eccv.types.ids import distinct_of
from cxc_eccv.types.models import check_training_data

DEPTH = 200

FURTHER = 4
"""Lists may be longer by one in so many items, to end with the last of those that tie."""


def keep_run(
    path: str | Path,
    run: Run,
    *,
    split: str = "test",
    data_dir: str | Path | Library | None = None,
    depth: int = DEPTH,
    training_data: Sequence[str] | None = None,
    similarity: str | None = None,
    name: str | None = None,
    progress: bool = True,
    device: str | None = None,
) -> RankingsRun:
    """Write a run file, from which later reports are computed without the model, also under new labels.

    It holds the top items of every image and caption with their scores, and the exact rank of every pair that any
    source of labels calls positive. Reports from it equal those from the run, for every metric of ranks of known
    positives and every metric that looks no deeper than the lists. The other metrics are skipped with the reason.

    Args:
        path: the file, ``NAME.run.parquet``.
        run: embeddings or scores of all images and captions of the split, or of one side.
        split: ``validation`` or ``test`` of COCO.
        data_dir: raw files, as of :func:`cxc_eccv.evaluate`; the positives of its label files are kept too.
        depth: items of every list of images or captions; items that tie with the last one are kept too.
        training_data: what the model was trained on: ``coco_train``, ``coco_val``, ``flickr30k``, ``web``, ``unknown``
            or other names; None for what the record beside the encoded file says, else unknown.
        similarity: ``cosine`` or ``dot``, for embeddings; None for that of the run, or cosine.
        name: name of the model; None for that of the run.
        progress: show a progress bar when standard error is a terminal.
        device: torch device for embeddings; None for the CPU.

    Returns:
        The run, as :func:`cxc_eccv.load_run` reads it from the file.

    Raises:
        InvalidOption: the path has another ending, the run has rankings, or an option is out of range.
        RunError: the run lacks items of the split.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> library = Library("sample")
        >>> content, random = library.karpathy("test"), np.random.default_rng(0)
        >>> ids = content.image_ids, content.caption_ids
        >>> run = EmbeddingsRun(*(Embeddings(side, random.normal(size=(side.size, 8))) for side in ids))
        >>> file = Path(tempfile.mkdtemp()) / "mine.run.parquet"
        >>> keep_run(file, run, data_dir=library).facts()["directions"]["t2i"]["deepest"]
        60
    """
    path = Path(path)
    check_run_file(path)
    if not isinstance(run, EmbeddingsRun | MultiVectorRun | ScoresRun):
        raise InvalidOption(f"{getattr(run, 'path', None) or 'run'}: is rankings already; keep embeddings or scores")
    check_split(split)
    check_whole("depth", depth)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    scoring = choose_similarity(run, similarity=similarity, device=device)
    trained_on = check_training_data(training_data or training_data_of(run))
    options = {"similarity": scoring["similarity"], "progress": progress, "device": device}
    if isinstance(run, ScoresRun):
        options = {}
    with one_blas_thread():
        lists = keep_lists(run, _all_positives(run, library, split), depth, **options)
    facts = {
        "split": split,
        "depth": depth,
        "made_with": cxc_eccv.__version__,
        "data": {"edition": library.edition, "version": library.catalog.version, "fingerprint": library.fingerprint()},
        "training_data": list(trained_on),
        **scoring,
        "run": run.facts(),
    }
    model = name_model(run, name).get("model")
    write_run_file(path, RankingsRun(lists, model, kept=facts))
    kept = load_run(path)
    if not isinstance(kept, RankingsRun):
        raise DataError(f"{path}: does not hold rankings")
    return kept


def _all_positives(
    run: EmbeddingsRun | MultiVectorRun | ScoresRun, library: Library, split: str
) -> dict[str, tuple[str, Judgments]]:
    """The positives of all tasks that the run can be scored on, and those of all sources of labels together."""
    positives: dict[str, tuple[str, Judgments]] = {}
    for task in tasks().values():
        if task.collection is not COCO or task.altered or task.serves != "ranks" or task.view(run) is not run:
            continue
        for direction in task.directions:
            try:
                if run.why_not(direction) is None:
                    positives[f"{task.name}/{direction}"] = direction, task.judgments(library, split, direction)
            except NotApplicable:
                continue
    if not positives:
        raise InvalidOption(f"{run.path or 'run'}: has neither images with captions nor captions or images of COCO")
    sources = tuple(name for name, source in sources_of(library).items() if source.official)
    for direction in dict.fromkeys(direction for direction, _ in positives.values()):
        of_direction = [judged for other, judged in positives.values() if other == direction]
        widest = max(of_direction, key=lambda judged: judged.gallery_ids.size)
        queries, items = find_positives(library, split, direction, sources)
        kept = np.isin(items, widest.gallery_ids) & ((queries != items) | (not widest.without_self))
        asked, pairs = distinct_of(queries[kept]), (queries[kept], items[kept])
        every = Judgments.from_pairs(asked, widest.gallery_ids, *pairs, without_self=widest.without_self)
        positives[f"all/{direction}"] = direction, every
    return positives


def keep_lists(
    run: EmbeddingsRun | MultiVectorRun | ScoresRun,
    judgments: Requests,
    depth: int,
    **options: Any,  # noqa: ANN401 - of positive_ranks_many
) -> dict[str, RankedLists]:
    """Direction to its known positives and, across modalities, the top items of every query.

    Of items that tie around the depth all are kept, or none if they are many.
    """
    named: dict[str, list[Judgments]] = {}
    for direction, judged in judgments.values():
        named.setdefault(direction, []).append(judged)
    readers = {
        direction: [TopRows(max(named[direction], key=lambda judged: judged.query_ids.size), depth + depth // FURTHER)]
        for direction in CROSS_MODAL
        if direction in named
    }
    is_double = isinstance(run, ScoresRun) and run.scores.dtype == np.float64
    lists = {}
    for direction, (merged, counts) in counts_of_run(run, judgments, readers=readers, **options).items():
        known, place = _find_known(named[direction], merged, counts), f"run, {direction}"
        indptr, items, scores = np.zeros(merged.query_ids.size + 1, np.int64), np.empty(0, np.int64), np.empty(0)
        if direction in readers:
            indptr, items, scores = _cut(readers[direction][0].result, merged.query_ids, depth)
        scores = scores.astype(np.float64 if is_double else np.float32)
        lists[direction] = RankedLists(merged.query_ids, indptr, narrow_ids(items), scores, place=place, known=known)
    return lists


def _cut(top: TopK, query_ids: IntArray, depth: int) -> tuple[IntArray, IntArray, NDArray[Any]]:
    """Boundaries, items and scores of lists that end where no tie goes on, at the depth or a little later."""
    rows, have_lists = positions_of(query_ids, top.query_ids)
    if not have_lists.all() or top.scores is None or top.cut is None:
        raise DataError(f"query {query_ids[~have_lists][0]} has no positive in any task of all queries")
    ids, scores, cut = top.ids[rows], top.scores[rows], top.cut[rows]
    ends = np.column_stack([scores[:, 1:] < scores[:, :-1], cut == 0])  # whether a list may end with this item
    lengths = np.arange(1, ids.shape[1] + 1)
    after = np.where(ends & (lengths >= min(depth, lengths[-1])), lengths, lengths[-1] + 1).min(axis=1)
    before = np.where(ends & (lengths < depth), lengths, 0).max(axis=1)
    kept = np.where(after > lengths[-1], before, after)
    within = lengths <= kept[:, None]
    return np.append(0, np.cumsum(kept)), ids[within], scores[within]


def _find_known(named: list[Judgments], merged: MergedJudgments, counts: Counts) -> KnownPositives:
    """The counts of all merged pairs in every gallery that a task ranks."""
    galleries: list[str] = []
    columns: list[IntArray] = []
    at_least: list[IntArray] = []
    above: list[IntArray] = []
    for judged, share in zip(named, merged.shares.values(), strict=True):
        names, chosen = name_galleries(judged)
        if set(names) <= set(galleries):
            continue
        if len(names) == 1:  # of queries without a positive of this task too
            gallery = np.zeros(merged.query_ids.size, dtype=np.int64)
            competes = np.broadcast_to(share.competes[0], (merged.query_ids.size, merged.n_segments))
        else:
            rows, asked = positions_of(merged.query_ids, judged.query_ids)
            gallery = np.where(asked, chosen[rows], -1)
            competes = share.competes[rows] & asked[:, None]
        columns.append(np.where(gallery < 0, -1, gallery + len(galleries)))
        galleries += names
        for table, columns_of_table in ((counts.at_least, at_least), (counts.above, above)):
            columns_of_table.append(np.einsum("ps,ps->p", table, competes[merged.queries]))
    indptr = np.append(0, np.cumsum(np.bincount(merged.queries, minlength=merged.query_ids.size)))
    items = merged.gallery_ids[merged.items]
    order = np.lexsort((items, merged.queries))
    reached, exceeded = (np.stack(table, axis=1)[order] for table in (at_least, above))
    return KnownPositives(indptr, items[order], reached, exceeded, np.stack(columns, axis=1), tuple(galleries))
