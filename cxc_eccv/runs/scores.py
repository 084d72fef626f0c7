"""ScoresRun and DirectionScoresRun: scores of images with captions, as one matrix or one per direction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.hashing import hash_file
from cxc_eccv.runs.rankings import RankedLists, RankingsRun, narrow_ids
from cxc_eccv.runs.run import MODEL, AnyRun, check_name, read_entry
from cxc_eccv.types import CROSS_MODAL, SIDES, IntArray, find_sides
from cxc_eccv.types.ids import FLOATS, check_ids, make_indptr, shorten, to_array
from cxc_eccv.types.provenance import ItemFacts, RunFacts

SCORE_ROWS_AT_ONCE = 256

SAME_SCORE = 1e-3
"""Scores of a pair in two directions are one score if they differ by no more than this share of the range of most."""

SAMPLED_SCORES = 1_000_000
"""Scores that are enough to know the range."""

PLAIN_ARRAYS = ("image_ids", "caption_ids", "scores", "scored", "unscored", MODEL)
"""Entries of a file with one matrix."""

DIRECTION_ARRAYS = (
    *("image_ids", "caption_ids"),
    *("scores_i2t", "scored_i2t", "axes_i2t"),
    *("scores_t2i", "scored_t2i", "axes_t2i"),
    *("unscored", MODEL),
)
"""Entries of a file with a matrix per direction."""

ROUNDING_OF_FLOAT16 = 1e-3
"""Share by which float16 rounds a number at most."""

WORDS_OF_ENTRIES = ("scor", "mask", "axes", "valid", "fill", "missing", "logit")
"""Parts of names of entries that would change how scores are read; where they are unknown, a file is refused."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoresRun(AnyRun):
    """A score for every image with every caption, for example from a cross-encoder.

    Scores are compared in the precision they have.

    Attributes:
        image_ids: (N,) unique ids.
        caption_ids: (M,) unique ids.
        scores: (N, M) float16, float32 or float64, finite; higher means more similar.
        path: the file they were read from, or None.
        sha256: hex digest of that file, or None.
        model: name of the model, or None.

    Raises:
        MalformedRun: wrong type or shape, repeated ids, or a NaN or infinite score. The message names array and place.

    Example:
        >>> run = ScoresRun(np.array([1]), np.array([7, 8]), np.array([[0.5, 0.25]]))
        >>> run.why_not("t2i"), run.why_not("t2t")
        (None, 'scores of images with captions do not rank t2t')
    """

    kind: ClassVar[str] = "scores"

    image_ids: IntArray
    caption_ids: IntArray
    scores: NDArray[Any]
    path: Path | None = None
    sha256: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        _check_ids_and_name(self)
        scores = check_matrix(self, "scores", self.scores, SIDES)
        object.__setattr__(self, "scores", scores)
        _refuse_non_finite(self, "scores", scores, SIDES)

    @property
    def matrices(self) -> dict[str, NDArray[Any]]:
        """Direction to its scores, a row per query and a column per item."""
        return {"i2t": self.scores, "t2i": self.scores.T}

    @property
    def pair_scores(self) -> NDArray[Any]:
        """(N, M) scores of images with captions."""
        return self.scores

    def as_embeddings(self) -> None:
        """None, as there are no vectors."""

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""
        return None if direction in CROSS_MODAL else f"scores of images with captions do not rank {direction}"

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``."""
        return self.image_ids if side == "images" else self.caption_ids

    def facts(self) -> RunFacts:
        """Kind, file, hash and model, type of the scores, number of images and captions."""
        return RunFacts(
            kind=self.kind,
            file=self.path.name if self.path else None,
            sha256=self.sha256,
            model=self.model,
            type=str(self.scores.dtype),
            images=ItemFacts(self.image_ids.size),
            captions=ItemFacts(self.caption_ids.size),
        )


@dataclass(frozen=True, slots=True, eq=False)
class DirectionScoresRun(AnyRun):
    """A score for every pair and direction, from a model that scores pairs anew for each direction.

    Scores are compared in the precision they have. A run with one matrix has that direction alone.

    Attributes:
        image_ids: (N,) unique ids.
        caption_ids: (M,) unique ids.
        i2t: (N, M) scores that rank the captions of every image, or None; types as of :class:`ScoresRun`.
        t2i: (M, N) scores that rank the images of every caption, or None.
        path: the file they were read from, or None.
        sha256: hex digest of that file, or None.
        model: name of the model, or None.
        differ: whether the two matrices give pairs other scores, beyond rounding.

    Raises:
        MalformedRun: there is no matrix; wrong type or shape, repeated ids, or a NaN or infinite score.

    Example:
        >>> images, captions = np.array([1]), np.array([7, 8])
        >>> run = DirectionScoresRun(images, captions, t2i=np.array([[0.5], [0.25]]))
        >>> run.why_not("t2i"), run.why_not("i2t")
        (None, 'the run has no scores_i2t')
    """

    kind: ClassVar[str] = "scores"

    image_ids: IntArray
    caption_ids: IntArray
    i2t: NDArray[Any] | None = None
    t2i: NDArray[Any] | None = None
    path: Path | None = None
    sha256: str | None = None
    model: str | None = None
    differ: bool = field(init=False)

    def __post_init__(self) -> None:
        _check_ids_and_name(self)
        if not self.matrices:
            raise MalformedRun(f"{self.path or 'run'}: has neither scores_i2t nor scores_t2i; give one or both")
        for direction, matrix in self.matrices.items():
            name = f"scores_{direction}"
            axes = find_sides(direction)
            scores = check_matrix(self, name, matrix, axes)
            object.__setattr__(self, direction, scores)
            _refuse_non_finite(self, name, scores, axes)
        object.__setattr__(self, "differ", len(self.matrices) > 1 and not _are_same(self.i2t, self.t2i))

    @property
    def matrices(self) -> dict[str, NDArray[Any]]:
        """Direction to its scores, a row per query and a column per item; without those that the run lacks."""
        by_direction = {"i2t": self.i2t, "t2i": self.t2i}
        return {direction: matrix for direction, matrix in by_direction.items() if matrix is not None}

    @property
    def pair_scores(self) -> NDArray[Any]:
        """(N, M) scores of images with captions; where there are those of t2i too, they are the same."""
        return self.matrices["i2t"]

    def as_embeddings(self) -> None:
        """None, as there are no vectors."""

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""
        if direction not in CROSS_MODAL:
            return f"scores of images with captions do not rank {direction}"
        return None if direction in self.matrices else f"the run has no scores_{direction}"

    def why_unrated(self, direction: str) -> str | None:
        """Why pairs of this direction have no similarity, or None."""
        reason = self.why_not(direction)
        if reason is None and self.differ:
            return "a pair has other scores in scores_i2t than in scores_t2i"
        return reason

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``."""
        return self.image_ids if side == "images" else self.caption_ids

    def facts(self) -> RunFacts:
        """Kind, file, hash and model, type of the scores of each direction, number of images and captions."""
        return RunFacts(
            kind=self.kind,
            file=self.path.name if self.path else None,
            sha256=self.sha256,
            model=self.model,
            matrices={direction: str(matrix.dtype) for direction, matrix in self.matrices.items()},
            images=ItemFacts(self.image_ids.size),
            captions=ItemFacts(self.caption_ids.size),
        )


MatrixRun = ScoresRun | DirectionScoresRun
"""Scores of all pairs."""


def make_direction_scores(
    i2t: ArrayLike | None = None,
    t2i: ArrayLike | None = None,
    *,
    image_ids: ArrayLike,
    caption_ids: ArrayLike,
    scored_i2t: ArrayLike | None = None,
    scored_t2i: ArrayLike | None = None,
    unscored: float | None = None,
    axes_i2t: Sequence[str] | None = None,
    axes_t2i: Sequence[str] | None = None,
    path: Path | None = None,
    sha256: str | None = None,
    model: str | None = None,
) -> DirectionScoresRun | RankingsRun:
    """A run from a score matrix per direction; where pairs were not scored, cut rankings of the scored ones.

    Args:
        i2t: (N, M) scores that rank the captions of every image; None without this direction.
        t2i: (M, N) scores that rank the images of every caption; None without this direction.
        image_ids: (N,) unique ids.
        caption_ids: (M,) unique ids.
        scored_i2t: (N, M) bool, True for the pairs that were scored; the values of others are not read.
        scored_t2i: (M, N) bool, the same of ``t2i``.
        unscored: in place of masks, the number that stands for pairs that were not scored.
        axes_i2t: sides of rows and columns, such as ``("images", "captions")``; a square matrix needs them.
        axes_t2i: the same of ``t2i``, such as ``("captions", "images")``.
        path: the file they were read from, for messages and reports.
        sha256: hex digest of that file.
        model: name of the model.

    Raises:
        MalformedRun: as :class:`DirectionScoresRun` says; a square matrix without axes; masks of another shape or
            beside ``unscored``; no pair with the score ``unscored``; or no scored pair.

    Example:
        >>> scores = np.array([[0.5, -100, 0.25], [-100, 0.5, 0.75]])
        >>> run = make_direction_scores(scores, image_ids=[1, 2], caption_ids=[7, 8, 9], unscored=-100)
        >>> run.kind, run.lists["i2t"].items.tolist()
        ('rankings', [7, 9, 9, 8])
    """
    items = _Items(image_ids, caption_ids, path, sha256, model)  # type: ignore[arg-type] # it checks them
    matrices: dict[str, NDArray[Any]] = {}
    masks: dict[str, NDArray[np.bool_]] = {}
    given = {"i2t": (i2t, scored_i2t, axes_i2t), "t2i": (t2i, scored_t2i, axes_t2i)}
    for direction, (values, scored, axes) in given.items():
        if values is None:
            if scored is not None or axes is not None:
                raise MalformedRun(
                    f"{items.where}: has the mask or axes of scores_{direction} but not scores_{direction}; give both"
                )
            continue
        stated = _check_axes(items, direction, values, axes)
        is_turned = stated != find_sides(direction)
        matrix = check_matrix(items, f"scores_{direction}", values, stated)
        matrices[direction] = matrix.T if is_turned else matrix
        if scored is not None:
            mask = _check_mask(items, f"scored_{direction}", scored, matrix.shape)
            masks[direction] = mask.T if is_turned else mask
    masks = _find_scored(items, matrices, masks, unscored)
    if all(mask.all() for mask in masks.values()):
        return DirectionScoresRun(items.image_ids, items.caption_ids, **matrices, path=path, sha256=sha256, model=model)
    names = {direction: f"scores_{direction}" for direction in matrices}
    return _rank_scored_pairs(items, names, matrices, masks)


def make_scores(
    image_ids: ArrayLike,
    caption_ids: ArrayLike,
    scores: ArrayLike,
    *,
    scored: ArrayLike | None = None,
    unscored: float | None = None,
    path: Path | None = None,
    sha256: str | None = None,
    model: str | None = None,
) -> ScoresRun | RankingsRun:
    """A run from one score matrix; where pairs were not scored, cut rankings of the scored ones.

    Args:
        image_ids: (N,) unique ids.
        caption_ids: (M,) unique ids.
        scores: (N, M) scores of images with captions.
        scored: (N, M) bool, True for the pairs that were scored; the values of others are not read.
        unscored: in place of a mask, the number that stands for pairs that were not scored.
        path: the file they were read from, for messages and reports.
        sha256: hex digest of that file.
        model: name of the model.

    Raises:
        MalformedRun: as :class:`ScoresRun` and :func:`make_direction_scores` say.

    Example:
        >>> make_scores([1], [7, 8], np.array([[0.5, np.nan]]), scored=[[True, False]]).lists["t2i"].query_ids.tolist()
        [7]
    """
    items = _Items(image_ids, caption_ids, path, sha256, model)  # type: ignore[arg-type] # it checks them
    matrix = check_matrix(items, "scores", scores, SIDES)
    masks = {} if scored is None else {"i2t": _check_mask(items, "scored", scored, matrix.shape)}
    masks = _find_scored(items, {"i2t": matrix}, masks, unscored)
    if all(mask.all() for mask in masks.values()):
        return ScoresRun(items.image_ids, items.caption_ids, matrix, path, sha256, model)
    matrices = {"i2t": matrix, "t2i": matrix.T}
    return _rank_scored_pairs(
        items, dict.fromkeys(matrices, "scores"), matrices, {"i2t": masks["i2t"], "t2i": masks["i2t"].T}
    )


def read_scores(path: Path | None, arrays: Mapping[str, NDArray[Any]]) -> MatrixRun | RankingsRun:
    """The run from arrays named as in a file: ``scores``, or ``scores_i2t`` or ``scores_t2i``."""
    where = str(path or "run")
    by_direction = [f"scores_{direction}" for direction in CROSS_MODAL if f"scores_{direction}" in arrays]
    if by_direction and "scores" in arrays:
        raise MalformedRun(
            f"{where}: holds both scores and {' and '.join(by_direction)}; save scores alone if both directions share "
            "it, else scores_i2t and scores_t2i"
        )
    lacking = [name for name in ("image_ids", "caption_ids") if name not in arrays]
    if lacking:
        raise MalformedRun(
            f"{where}: holds {' and '.join(by_direction) or 'scores'} but not {' and '.join(lacking)}; save image_ids "
            "(N,), caption_ids (M,) and scores (N, M) in one file, or scores_i2t (N, M) and scores_t2i (M, N)"
        )
    allowed = DIRECTION_ARRAYS if by_direction else PLAIN_ARRAYS
    for name in arrays:
        if name not in allowed and any(word in name.lower() for word in WORDS_OF_ENTRIES):
            raise MalformedRun(
                f"{where}: holds {name}, which nothing reads beside {' and '.join(by_direction) or 'scores'}; known "
                f"are {', '.join(allowed)}. Rename it, or leave it out."
            )
    unscored = _read_unscored(where, arrays["unscored"]) if "unscored" in arrays else None
    model = read_entry(where, arrays[MODEL], MODEL) if MODEL in arrays else None
    sha256 = None if path is None else hash_file(path)
    if not by_direction:
        return make_scores(
            arrays["image_ids"],
            arrays["caption_ids"],
            arrays["scores"],
            scored=arrays.get("scored"),
            unscored=unscored,
            path=path,
            sha256=sha256,
            model=model,
        )
    return make_direction_scores(
        arrays.get("scores_i2t"),
        arrays.get("scores_t2i"),
        image_ids=arrays["image_ids"],
        caption_ids=arrays["caption_ids"],
        scored_i2t=arrays.get("scored_i2t"),
        scored_t2i=arrays.get("scored_t2i"),
        unscored=unscored,
        axes_i2t=_read_axes(arrays, "axes_i2t"),
        axes_t2i=_read_axes(arrays, "axes_t2i"),
        path=path,
        sha256=sha256,
        model=model,
    )


def _read_unscored(where: str, array: NDArray[Any]) -> float:
    if array.size != 1 or array.dtype.kind not in "iuf":
        raise MalformedRun(f"{where}, unscored: is {shorten(array.tolist())}; save one number, such as unscored=-100")
    return float(array.item())


def _read_axes(arrays: Mapping[str, NDArray[Any]], name: str) -> list[str] | None:
    return np.atleast_1d(arrays[name]).tolist() if name in arrays else None


@dataclass(slots=True, eq=False)
class _Items:
    """The images and captions of matrices, and the file and the model of the scores."""

    image_ids: IntArray
    caption_ids: IntArray
    path: Path | None
    sha256: str | None
    model: str | None

    def __post_init__(self) -> None:
        _check_ids_and_name(self)

    @property
    def where(self) -> str:
        """The file, for messages."""
        return str(self.path or "run")

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``."""
        return self.image_ids if side == "images" else self.caption_ids


def _check_ids_and_name(run: MatrixRun | _Items) -> None:
    """Check the name of the model, and replace the ids by checked arrays."""
    where = str(run.path or "run")
    check_name(where, run.model)
    for name in ("image_ids", "caption_ids"):
        values = to_array(f"{where}, {name}", getattr(run, name))
        object.__setattr__(run, name, check_ids(where, name, values))


def check_matrix(run: MatrixRun | _Items, name: str, values: ArrayLike, axes: Sequence[str]) -> NDArray[Any]:
    """The scores as an array; raises MalformedRun unless they are floats with a row and a column per id."""
    where = f"{run.path or 'run'}, {name}"
    scores = to_array(where, values)
    wanted = tuple(run.ids(side).size for side in axes)
    if scores.dtype not in FLOATS:
        raise MalformedRun(
            f"{where}: has type {scores.dtype}, expected float16, float32 or float64. Save {name}.astype('float32')."
        )
    if scores.shape != wanted:
        transposed = f" It looks transposed: save {name}.T." if scores.shape == wanted[::-1] else ""
        rows, columns = (side.removesuffix("s") for side in axes)
        raise MalformedRun(
            f"{where}: has shape {scores.shape}, expected {wanted}: a row per {rows} id and a column per {columns} "
            f"id.{transposed}"
        )
    return scores


def _refuse_non_finite(
    run: MatrixRun | _Items,
    name: str,
    scores: NDArray[Any],
    axes: Sequence[str],
    scored: NDArray[np.bool_] | None = None,
) -> None:
    """Raise MalformedRun for the first NaN or infinite score among the scored pairs."""
    for start in range(0, len(scores), SCORE_ROWS_AT_ONCE):
        rows = slice(start, start + SCORE_ROWS_AT_ONCE)
        wrong = ~np.isfinite(scores[rows])
        if scored is not None:
            wrong &= scored[rows]
        if not wrong.any():
            continue
        row, column = (int(place[0]) for place in np.nonzero(wrong))
        row += start
        value = scores[row, column]
        mask = name.replace("scores", "scored")
        remedy = (
            f"Every pair needs a score. If pairs were not scored, save a mask {mask} that is True where they were, or "
            "give these pairs one number and save it as unscored=-100; or save rankings, which may be cut short."
        )
        if np.isinf(value) and scores.dtype == np.float16:
            remedy = "float16 overflows above 65504; save float32 scores."
        place = ", ".join(
            f"{side.removesuffix('s')} {run.ids(side)[index]}" for side, index in zip(axes, (row, column), strict=True)
        )
        raise MalformedRun(
            f"{run.path or 'run'}, {name}: value {value} in row {row}, column {column} ({place}). {remedy}"
        )


def _are_same(i2t: NDArray[Any] | None, t2i: NDArray[Any] | None) -> bool:
    """Whether two directions give every pair one score, but for rounding."""
    if i2t is None or t2i is None:
        return True
    sample = i2t.ravel()[:: max(1, i2t.size // SAMPLED_SCORES)].astype(np.float64)
    low, high = np.quantile(sample, [0.05, 0.95])
    rounding = float(np.finfo(i2t.dtype).eps) * max(abs(low), abs(high))
    tolerance = SAME_SCORE * (high - low) + rounding
    for start in range(0, len(i2t), SCORE_ROWS_AT_ONCE):
        rows = slice(start, start + SCORE_ROWS_AT_ONCE)
        if np.abs(np.subtract(i2t[rows], t2i[:, rows].T, dtype=np.float64)).max() > tolerance:
            return False
    return True


def _check_axes(items: _Items, direction: str, values: ArrayLike, axes: Sequence[str] | None) -> tuple[str, str]:
    """The sides of rows and columns as stated, else those of the direction; raises MalformedRun for a square matrix."""
    usual = find_sides(direction)
    name = f"axes_{direction}"
    if axes is None:
        if items.image_ids.size == items.caption_ids.size > 1 and np.ndim(values) == 2:
            raise MalformedRun(
                f"{items.where}, scores_{direction}: has as many images as captions, so its shape does not show which "
                f"are the rows. Save {name}={list(usual)!r} if its rows are {usual[0]}, {name}={list(usual[::-1])!r} "
                f"if they are {usual[1]}."
            )
        return usual
    stated = tuple(axes)
    if stated not in (usual, usual[::-1]):
        raise MalformedRun(f"{items.where}, {name}: is {shorten(axes)}; save {list(usual)!r}, the rows first")
    return stated[0], stated[1]


def _check_mask(items: _Items, name: str, values: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    mask = to_array(f"{items.where}, {name}", values)
    if mask.dtype != np.bool_:
        raise MalformedRun(
            f"{items.where}, {name}: has type {mask.dtype}, expected bool. Save {name}.astype(bool), True for the "
            "pairs that were scored."
        )
    if mask.shape != shape:
        transposed = f" It looks transposed: save {name}.T." if mask.shape == shape[::-1] else ""
        raise MalformedRun(f"{items.where}, {name}: has shape {mask.shape}, but its scores have {shape}.{transposed}")
    return mask


def _find_scored(
    items: _Items,
    matrices: Mapping[str, NDArray[Any]],
    masks: Mapping[str, NDArray[np.bool_]],
    unscored: float | None,
) -> dict[str, NDArray[np.bool_]]:
    """Direction to the mask of its scored pairs, from given masks or the number of unscored pairs."""
    if unscored is None:
        return dict(masks)
    if masks:
        raise MalformedRun(f"{items.where}: has a mask of scored pairs and unscored={unscored}; save one of them")
    if isinstance(unscored, bool) or not isinstance(unscored, Real):
        raise MalformedRun(f"{items.where}: unscored is {shorten(unscored)}; give one number, such as -100")
    if np.isnan(unscored):
        raise MalformedRun(
            f"{items.where}: unscored is nan, which may also be a failed score; save a mask of the scored pairs, "
            "such as scored_i2t=~np.isnan(scores_i2t), or fill these pairs with a number"
        )
    found = {direction: ~_find_equal(matrix, float(unscored)) for direction, matrix in matrices.items()}
    lacking = [direction for direction, mask in found.items() if mask.all()]
    if lacking:
        remedy = "Save the number that stands for pairs that were not scored, or leave unscored out if all were."
        if len(lacking) < len(matrices):
            remedy = "If all its pairs were scored, save masks in place of unscored: scored_i2t and scored_t2i."
        raise MalformedRun(
            f"{items.where}, scores_{lacking[0]}: unscored is {unscored:g}, but no pair has this score (the lowest is "
            f"{float(matrices[lacking[0]].min())!r}). {remedy}"
        )
    return found


def _find_equal(matrix: NDArray[Any], number: float) -> NDArray[np.bool_]:
    """Where a matrix has this number as its type rounds it; nowhere if it would round to another number."""
    with np.errstate(over="ignore"):
        rounded = matrix.dtype.type(number)
    if np.isfinite(rounded) and not math.isclose(rounded, number, rel_tol=ROUNDING_OF_FLOAT16):
        return np.zeros(matrix.shape, dtype=bool)
    return np.asarray(matrix == rounded)


def _rank_scored_pairs(
    items: _Items,
    names: Mapping[str, str],
    matrices: Mapping[str, NDArray[Any]],
    masks: Mapping[str, NDArray[np.bool_]],
) -> RankingsRun:
    """Rankings of the scored pairs of every direction; a query without any is left out."""
    lists = {}
    for direction, matrix in matrices.items():
        scored = masks.get(direction)
        _refuse_non_finite(items, names[direction], matrix, find_sides(direction), scored)
        lists[direction] = _rank_rows(items, direction, names[direction], matrix, scored)
    return RankingsRun(lists, items.model)


def _rank_rows(
    items: _Items, direction: str, name: str, matrix: NDArray[Any], scored: NDArray[np.bool_] | None
) -> RankedLists:
    """The scored items of every row, by falling score."""
    query_side, gallery_side = find_sides(direction)
    query_ids = items.ids(query_side)
    gallery_ids = narrow_ids(items.ids(gallery_side))
    counts = []
    ranked_items = []
    ranked_scores = []
    for start in range(0, len(matrix), SCORE_ROWS_AT_ONCE):
        block = matrix[start : start + SCORE_ROWS_AT_ONCE]
        mask = np.ones(block.shape, dtype=bool) if scored is None else scored[start : start + SCORE_ROWS_AT_ONCE]
        rows, columns = np.nonzero(mask)
        values = block[rows, columns]
        if values.dtype == np.float16:
            values = values.astype(np.float32)
        order = np.lexsort((-values, rows))
        counts.append(np.bincount(rows, minlength=len(block)))
        ranked_items.append(gallery_ids[columns[order]])
        ranked_scores.append(values[order])
    lengths = np.concatenate(counts)
    scores = np.concatenate(ranked_scores)
    place = f"{items.where}, {name}"
    if not scores.size:
        raise MalformedRun(f"{place}: no pair is scored; a mask is True for the pairs that were")
    if scored is not None:
        _refuse_inverse_mask(place, matrix, scored, scores)
    has_items = lengths > 0
    return RankedLists(
        query_ids=query_ids[has_items],
        indptr=make_indptr(lengths[has_items]),
        items=np.concatenate(ranked_items),
        scores=scores,
        path=items.path,
        sha256=items.sha256,
        place=place,
        scored_share=scores.size / matrix.size,
    )


def _refuse_inverse_mask(place: str, matrix: NDArray[Any], scored: NDArray[np.bool_], scores: NDArray[Any]) -> None:
    """Raise MalformedRun if all scored pairs have one score, and the others have several."""
    if scores.size < 2 or scores.min() != scores.max():
        return
    others = matrix[~scored]
    others = others[np.isfinite(others)]
    if others.size and others.min() != others.max():
        raise MalformedRun(
            f"{place}: all pairs that the mask marks as scored have the score {scores[0]:g}, and the others have "
            "several. True means scored; save the inverse, such as ~mask."
        )
