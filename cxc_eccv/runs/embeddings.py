"""EmbeddingsRun: image and caption vectors of a model, and the files that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import CxcEccvError, MalformedRun, MissingIds, UnknownIds, UnknownName
from cxc_eccv.runs.array_files import read_arrays, write_arrays
from cxc_eccv.runs.run import (
    MODEL,
    Run,
    check_ids,
    check_name,
    facts_of_file,
    hash_file,
    one_text,
    refuse_unreadable,
    whole_ids,
)
from cxc_eccv.types import SIDES, Comparisons, Embeddings, IntArray, sides_of
from cxc_eccv.types.altered import altered_ids
from cxc_eccv.types.ids import faint_rows, positions_of

SIMILARITIES = ("cosine", "dot")

PAIRS = {"images": ("image_ids", "image_embeddings"), "captions": ("caption_ids", "caption_embeddings")}

SIMILARITY = "similarity"
"""Entry that names the similarity of the vectors: a text in ``.npz``, metadata in ``.safetensors``."""

FURTHER = ("adversarial_", "rococo_", "sugarcrepe_", "sugarcrepe_pp_", "coco_fg_", "thumb_")
"""Prefixes of further arrays, with other sentences than the captions of the split: ``rococo_danger_ids``, ..."""

FORMATS = (".npz", ".safetensors")


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingsRun:
    """Vectors of images, captions, or both; or of altered sentences alone.

    Attributes:
        images: (N, D) image vectors, or None for a text-only model.
        captions: (M, D) caption vectors, or None for an image-only model.
        path: the file they were read from, or None.
        sha256: hex digest of that file, or None.
        similarity: the similarity of the vectors, ``cosine`` or ``dot``, or None if unknown.
        model: name of the model in reports and comparisons, or None.
        further: ids (``..._ids``, which may repeat) and vectors (``..._embeddings``) of altered sentences, under the
            names that their tasks define.

    Raises:
        MalformedRun: there are no vectors at all, images and captions differ in D, the similarity is unknown, or the
            name is not a line of text.

    Example:
        >>> import numpy as np
        >>> run = EmbeddingsRun(None, Embeddings([7, 8], np.eye(2)))
        >>> run.images is None, run.captions.vectors.shape
        (True, (2, 2))
    """

    kind: ClassVar[str] = "embeddings"

    images: Embeddings | None
    captions: Embeddings | None
    path: Path | None = None
    sha256: str | None = None
    similarity: str | None = None
    model: str | None = None
    further: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_name(self.path or "run", self.model)
        check_similarity(self.path or "run", self.similarity)
        if self.images is None and self.captions is None and not self.further:
            raise MalformedRun("a run needs image embeddings, caption embeddings, or both; this one has neither")
        if self.images is not None and self.captions is not None:
            widths = self.images.vectors.shape[1], self.captions.vectors.shape[1]
            if widths[0] != widths[1]:
                raise MalformedRun(
                    f"{self.path or 'run'}: image_embeddings have {widths[0]} dimensions, caption_embeddings have "
                    f"{widths[1]}. Both must come from the shared space, after the model's projection layers."
                )

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""
        lacking = next((side for side in sides_of(direction) if getattr(self, side) is None), None)
        return None if lacking is None else f"the run has no {lacking}"

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``, possibly none."""
        embeddings: Embeddings | None = getattr(self, side)
        return np.empty(0, dtype=np.int64) if embeddings is None else embeddings.ids

    def facts(self) -> dict[str, Any]:
        """Kind, file, hash and model; number and width of the vectors per side."""
        facts = facts_of_file(self)
        for side in SIDES:
            embeddings: Embeddings | None = getattr(self, side)
            if embeddings is not None:
                count, dimensions = embeddings.vectors.shape
                facts[side] = {"count": count, "dimensions": dimensions}
        if self.further:
            facts["further"] = {name: len(array) for name, array in self.further.items()}
        return facts


def load_embeddings(path: str | Path) -> EmbeddingsRun:
    """Read and check an embeddings file.

    The file holds ``image_ids`` (N,) and ``caption_ids`` (M,) of any integer type, with ``image_embeddings`` (N, D) and
    ``caption_embeddings`` (M, D) of any real type; a text-only or image-only file has only one pair. Vectors become
    float32; pickled objects are never loaded. Optional entries are ``similarity`` (``cosine`` or ``dot``) and
    ``model``, a name: texts in ``.npz``, metadata in ``.safetensors``. Vectors of altered sentences have the names that
    their tasks define, for example ``rococo_danger_ids`` and ``rococo_danger_embeddings``.

    Args:
        path: a ``.npz`` or ``.safetensors`` file.

    Raises:
        MalformedRun: the file is unreadable, cut short or damaged; an array is missing, empty, or of the wrong type or
            shape; ids repeat; a value is NaN or infinite, or a vector too small for float32; or the similarity is
            unknown. The message names file, array, place and remedy.

    Example:
        >>> import numpy as np
        >>> run = EmbeddingsRun(None, Embeddings([7, 8], np.eye(2)))
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_embeddings(Path(folder) / "text.npz", run)
        ...     load_embeddings(Path(folder) / "text.npz").captions.ids.tolist()
        [7, 8]
    """
    path = Path(path)
    _check_suffix(path)
    refuse_unreadable(path)
    return embeddings_of_arrays(path, *read_arrays(path))


def embeddings_of_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> EmbeddingsRun:
    """The run from the arrays of a file; similarity and model are arrays or metadata."""
    similarity, model = texts_of_arrays(path, arrays, metadata)
    sides = {side: side_of_arrays(path, arrays, *names) for side, names in PAIRS.items()}
    further = check_further(path, arrays)
    if not any(sides.values()) and not further:
        wanted = " or ".join(f"{ids} with {vectors}" for ids, vectors in PAIRS.values())
        raise MalformedRun(f"{path}: holds {sorted(arrays) or 'no array'}; needs {wanted}")
    return EmbeddingsRun(
        **sides,
        path=path,
        sha256=hash_file(path),
        similarity=similarity,
        model=model,
        further=further,
    )


def check_similarity(where: str | Path, similarity: str | None) -> None:
    """Raise MalformedRun unless the similarity of a run is known, or None."""
    if similarity not in (None, *SIMILARITIES):
        raise MalformedRun(f"{where}: its similarity is {similarity!r:.80}; save {' or '.join(SIMILARITIES)}, or none")


def texts_of_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """The similarity and the model, which are arrays or metadata."""
    entries = dict(metadata)
    if SIMILARITY in arrays:
        text = arrays[SIMILARITY]
        entries[SIMILARITY] = str(text.item() if text.size == 1 else text.tolist())
    if MODEL in arrays:
        entries[MODEL] = one_text(path, arrays[MODEL], MODEL)
    return entries.get(SIMILARITY), entries.get(MODEL)


def check_further(path: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of altered sentences: ids as int64, vectors as finite float32."""
    checked: dict[str, NDArray[Any]] = {}
    for name in sorted(name for name in arrays if name.startswith(FURTHER)):
        if name.endswith("_ids"):
            checked[name] = whole_ids(arrays[name], f"{path}, {name}").astype(np.int64)
        elif name.endswith("_embeddings"):
            checked[name] = check_vectors(
                path, name, arrays[name], np.arange(arrays[name].shape[0] if arrays[name].ndim else 0)
            )
        else:
            raise MalformedRun(f"{path}, {name}: is neither ids (..._ids) nor vectors (..._embeddings); leave it out")
    return checked


def save_embeddings(path: str | Path, run: EmbeddingsRun) -> None:
    """Write an embeddings file that :func:`load_embeddings` reads; replaces ``path`` in one step.

    Args:
        path: a ``.npz`` or ``.safetensors`` file; its folder is created if needed.
        run: the vectors to write.

    Raises:
        MalformedRun: the suffix is neither of the two.
        InvalidOption: ``path`` is a folder.
        WriteFailed: the file cannot be written; an earlier file stays intact.
    """
    path = Path(path)
    _check_suffix(path)
    arrays: dict[str, NDArray[Any]] = {}
    for side, (ids, vectors) in PAIRS.items():
        embeddings: Embeddings | None = getattr(run, side)
        if embeddings is not None:
            arrays |= {ids: embeddings.ids, vectors: embeddings.vectors}
    write_arrays(path, {**arrays, **run.further}, {SIMILARITY: run.similarity, MODEL: run.model})


def _check_suffix(path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise MalformedRun(f"{path}: unknown embeddings format {suffix!r}; use {' or '.join(FORMATS)}")


def side_of_arrays(
    path: Path | str, arrays: Mapping[str, NDArray[Any]], ids_name: str, vectors_name: str
) -> Embeddings | None:
    """The checked ids and float32 vectors of one side, or None if the file has neither."""
    present = [name for name in (ids_name, vectors_name) if name in arrays]
    if not present:
        return None
    if len(present) == 1:
        missing = vectors_name if present == [ids_name] else ids_name
        raise MalformedRun(f"{path}: has {present[0]!r} but not {missing!r}; save both, row by row in the same order")
    ids, vectors = check_ids(path, ids_name, arrays[ids_name]), arrays[vectors_name]
    if vectors.ndim == 2 and vectors.shape[0] != ids.size:
        raise MalformedRun(
            f"{path}: {ids_name} has {ids.size} rows, {vectors_name} has {vectors.shape[0]}. "
            "Row i of one must belong to row i of the other."
        )
    return Embeddings(ids, check_vectors(path, vectors_name, vectors, ids))


def check_vectors(path: Path | str, name: str, vectors: NDArray[Any], ids: IntArray) -> NDArray[np.float32]:
    """(N, D) vectors as float32, finite and not too small; messages name their ids."""
    if vectors.dtype.kind not in "fiu":
        raise MalformedRun(f"{path}, {name}: has type {vectors.dtype}, expected float16, float32 or float64")
    if vectors.ndim != 2 or not vectors.size:
        raise MalformedRun(f"{path}, {name}: has shape {vectors.shape}, expected (N, D), N and D at least 1")
    with np.errstate(over="ignore", under="ignore"):
        single = vectors.astype(np.float32, copy=False)
    _refuse_non_finite(f"{path}, {name}", vectors, single, ids)
    faint = faint_rows(vectors, single)
    if faint.size:
        row = vectors[faint[0]]
        raise MalformedRun(
            f"{path}, {name}: the largest value of row {faint[0]} (id {ids[faint[0]]}) is "
            f"{row[np.abs(row).argmax()]}; {faint.size} of {ids.size} vectors are too small for float32. Multiply all "
            "vectors by one large number (cosine similarity does not depend on their length)."
        )
    return single


def _refuse_non_finite(where: str, vectors: NDArray[Any], single: NDArray[np.float32], ids: IntArray) -> None:
    finite = np.isfinite(single)
    if finite.all():
        return
    row, column = (int(places[0]) for places in np.nonzero(~finite))
    value = vectors[row, column]
    remedy = "Check the model's output on this item."
    if np.isfinite(value):
        remedy = "It does not fit float32; scale the vectors (cosine similarity does not depend on their length)."
    elif np.isinf(value) and vectors.dtype == np.float16:
        remedy = "float16 overflows above 65504; save float32 vectors, or normalise them before saving."
    raise MalformedRun(
        f"{where}: value {value} in row {row}, column {column} (id {ids[row]}); "
        f"{int((~finite.all(axis=1)).sum())} of {ids.size} vectors are not finite. {remedy}"
    )


NAMED = 3


def altered_captions(run: Run, kind: str) -> Embeddings | None:
    """Vectors of one kind of altered captions, with the ids of their original captions; None without any."""
    if not isinstance(run, EmbeddingsRun):
        return None
    where, (ids, vectors) = run.path or "run", _names(kind)
    altered, others = side_of_arrays(where, run.further, ids, vectors), run.images or run.captions
    if altered is not None and others is not None and altered.vectors.shape[1] != others.vectors.shape[1]:
        raise MalformedRun(
            f"{where}: {vectors} have {altered.vectors.shape[1]} dimensions, the other vectors "
            f"{others.vectors.shape[1]}. All must come from the shared space, after the model's projection layers."
        )
    return altered


def why_no_altered(run: Run, kind: str, called: str = "<kind>") -> str | None:
    """Why a run cannot rank altered captions, or None; the text names the kind as ``called``."""
    if not isinstance(run, EmbeddingsRun):
        return f"altered captions need vectors in an embeddings file, but this run has {run.kind}"
    if altered_captions(run, kind) is None:
        return f"the run has no altered captions ({' and '.join(_names(called))} in its file)"
    return None


def find_altered_faults(run: Run, kind: str, needed: IntArray, known: IntArray) -> list[CxcEccvError]:
    """Errors for altered captions that a run lacks, and for those whose original caption is not in the data."""
    altered, name = altered_captions(run, kind), f"{run.path or 'run'}, {_names(kind)[0]}"
    ids = np.empty(0, np.int64) if altered is None else altered.ids
    missing, unknown = needed[~positions_of(needed, ids)[1]], ids[~positions_of(ids, known)[1]]
    errors: list[CxcEccvError] = []
    if missing.size:
        errors.append(
            MissingIds(
                f"{name}: lacks {missing.size} of {needed.size} captions, the first: {_first(missing)}. Save the "
                "vector of every altered caption under the id of its original caption."
            )
        )
    if unknown.size:
        errors.append(
            UnknownIds(
                f"{name}: {unknown.size} of {ids.size} captions are unknown to the data, the first: {_first(unknown)}. "
                "Use the COCO ids of the original captions."
            )
        )
    return errors


def add_altered(run: Run, kinds: Iterable[str], similarity: str | None = None) -> Run:
    """The run with the altered captions of these kinds added to its captions under separate ids."""
    added = [(kind, altered) for kind in kinds if (altered := altered_captions(run, kind)) is not None]
    if not added or not isinstance(run, EmbeddingsRun) or run.captions is None:
        return run
    for kind, altered in added:
        zero = altered.ids[~altered.vectors.any(axis=1)]
        if zero.size and similarity == "cosine":
            raise MalformedRun(
                f"{run.path or 'run'}, {_names(kind)[1]}: {zero.size} of {altered.ids.size} vectors are zero and have "
                f"no cosine, the first of caption {zero[0]}. Check the model's output on it, or compare by dot product "
                "(similarity='dot', --similarity dot)."
            )
    ids = [run.captions.ids, *(altered_ids(kind, altered.ids) for kind, altered in added)]
    vectors = [run.captions.vectors, *(altered.vectors for _, altered in added)]
    return replace(run, captions=Embeddings(np.concatenate(ids), np.concatenate(vectors)))


def _names(kind: str) -> tuple[str, str]:
    return f"rococo_{kind}_ids", f"rococo_{kind}_embeddings"


def _first(ids: IntArray) -> str:
    return ", ".join(map(str, ids[:NAMED]))


def compared_captions(
    run: Run, benchmark: str, part: str, parts: Iterable[str], wanted: Comparisons
) -> list[NDArray[np.float32]] | None:
    """(P, D) vectors of the captions of one part, and of their negatives, in the order ``wanted``, or None."""
    if not isinstance(run, EmbeddingsRun):
        return None
    where, further = run.path or "run", run.further
    ends = ("image_ids", *(f"{caption}_embeddings" for caption in (*wanted.captions, "negative")))
    known = [f"{benchmark}_{any_part}_{end}" for any_part in parts for end in ends]
    of_others = tuple(start for start in FURTHER if start.startswith(f"{benchmark}_") and start != f"{benchmark}_")
    for name in further:
        if name.startswith(f"{benchmark}_") and not name.startswith(of_others) and name not in known:
            raise UnknownName(f"array of {where}", name, known)
    names = [f"{benchmark}_{part}_{end}" for end in ends]
    present = [name for name in names if name in further]
    if not present:
        return None
    if present != names:
        lacking = " and ".join(name for name in names if name not in further)
        raise MalformedRun(f"{where}: has {' and '.join(present)} but not {lacking}; save all of them, row by row")
    ids, *vectors = (further[name] for name in names)
    if any(len(array) != ids.size or array.shape != vectors[0].shape for array in vectors):
        shapes = ", ".join(f"{name} {further[name].shape}" for name in names)
        raise MalformedRun(f"{where}: {shapes}; need the same number of rows, and vectors of one space")
    row = _find_first_difference(ids, wanted.image_ids)
    if row is not None:
        actual = f"row {row} is image {ids[row]}" if row < ids.size else f"there is no row {row}"
        expected = "expected no further row"
        if row < wanted.item_ids.size:
            expected = f"expected item {wanted.item_ids[row]} of image {wanted.image_ids[row]}"
        raise MalformedRun(
            f"{where}, {names[0]}: {actual}, {expected}; the array has {ids.size} rows, {part} has "
            f"{wanted.item_ids.size} items. Save a row for every item, in the order of the official file."
        )
    return vectors


def _find_first_difference(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> int | None:
    if np.array_equal(ids, wanted):
        return None
    shared = min(ids.size, wanted.size)
    return int(np.append(ids[:shared] != wanted[:shared], True).argmax())
