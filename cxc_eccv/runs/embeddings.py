"""EmbeddingsRun: the image and caption vectors of one model, in one space; and the files that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.checks import MODEL, check_ids, check_name, hash_file, one_text, refuse_unreadable, whole_ids
from cxc_eccv.runs.npz import read_npz, write_npz
from cxc_eccv.runs.safetensors import read_safetensors, write_safetensors
from cxc_eccv.types import SIDES, Embeddings, IntArray, sides_of
from cxc_eccv.types.embedded import faint_rows
from cxc_eccv.writing import replaced_file

SIMILARITIES = ("cosine", "dot")

PAIRS = {"images": ("image_ids", "image_embeddings"), "captions": ("caption_ids", "caption_embeddings")}
SIMILARITY = "similarity"
"""Name of the entry that says what the vectors are meant for: a text in ``.npz``, metadata in ``.safetensors``."""

FURTHER = ("adversarial_", "rococo_", "sugarcrepe_", "sugarcrepe_pp_", "coco_fg_", "thumb_")
"""How names of further arrays begin, of sentences that somebody altered: ``rococo_danger_ids``, ..."""

FORMATS = (".npz", ".safetensors")


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingsRun:
    """What a model says about images, captions, or both; or about altered sentences alone.

    Attributes:
        images: (N, D) image vectors, or None for a text-only model.
        captions: (M, D) caption vectors, or None for an image-only model.
        path: the file they were read from, or None.
        sha256: hex digest of that file, or None.
        similarity: ``cosine`` or ``dot``, which the vectors are meant for; None where nothing says it.
        model: what the model is called, in reports and comparisons; None where nothing says it.
        further: ids (``..._ids``, which may repeat) and vectors (``..._embeddings``) of altered sentences by the names
            that their tasks give them; a task says which belong together and which ids there must be.

    Raises:
        MalformedRun: neither side is given and nothing further, the two sides differ in D, there is no such similarity,
            or the name is no line of text.

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
        if self.similarity not in (None, *SIMILARITIES):
            raise MalformedRun(
                f"{self.path or 'run'}: its similarity is {self.similarity!r:.80}; save {' or '.join(SIMILARITIES)}, "
                "or none"
            )
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
        """Why this direction cannot be ranked, or None where it can."""
        lacking = next((side for side in sides_of(direction) if getattr(self, side) is None), None)
        return None if lacking is None else f"the run has no {lacking}"

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``; empty where there are none."""
        embeddings: Embeddings | None = getattr(self, side)
        return np.empty(0, dtype=np.int64) if embeddings is None else embeddings.ids

    def facts(self) -> dict[str, Any]:
        """Kind, file, hash and model; number and width of the vectors per side."""
        facts: dict[str, Any] = {"kind": self.kind, "file": self.path.name if self.path else None}
        facts["sha256"] = self.sha256
        if self.model is not None:
            facts[MODEL] = self.model
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

    The file holds ``image_ids`` (N,) and ``caption_ids`` (M,), any integer type, with ``image_embeddings`` (N, D)
    and ``caption_embeddings`` (M, D), any real type; a text-only or image-only file has just its pair. Vectors become
    float32; pickled objects are never loaded. At will ``similarity`` says ``cosine`` or ``dot``, and ``model`` what the
    model is called: texts in ``.npz``, entries of the metadata in ``.safetensors``. Vectors of altered sentences stand
    under the names that their tasks give them, ``rococo_danger_ids`` and ``rococo_danger_embeddings`` for example.

    Args:
        path: a ``.npz`` or ``.safetensors`` file.

    Raises:
        MalformedRun: unreadable, cut short or damaged; an array is missing, empty, of the wrong type or shape; ids
            repeat; a value is NaN or infinite, or a vector too small for float32; an unknown similarity. The message
            names file, array, place and remedy.

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
    suffix = _suffix(path)
    refuse_unreadable(path)
    if suffix == ".npz":
        return embeddings_of_arrays(path, read_npz(path))
    arrays, metadata = read_safetensors(path)
    return embeddings_of_arrays(path, arrays, metadata)


def embeddings_of_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> EmbeddingsRun:
    """The run that the arrays of a file make; its metadata says similarity and model, if no array does."""
    told = dict(metadata or {})
    if SIMILARITY in arrays:
        given = arrays[SIMILARITY]
        told[SIMILARITY] = str(given.item() if given.size == 1 else given.tolist())
    if MODEL in arrays:
        told[MODEL] = one_text(path, arrays[MODEL], MODEL)
    sides = {side: side_of_arrays(path, arrays, *names) for side, names in PAIRS.items()}
    further = check_further(path, arrays)
    if not any(sides.values()) and not further:
        wanted = " or ".join(f"{ids} with {vectors}" for ids, vectors in PAIRS.values())
        raise MalformedRun(f"{path}: holds {sorted(arrays) or 'no array'}; needs {wanted}")
    return EmbeddingsRun(
        **sides,
        path=path,
        sha256=hash_file(path),
        similarity=told.get(SIMILARITY),
        model=told.get(MODEL),
        further=further,
    )


def check_further(path: Path, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Those arrays of a file that are of altered sentences: ids as int64, vectors as finite float32."""
    checked: dict[str, NDArray[Any]] = {}
    for name in sorted(name for name in arrays if name.startswith(FURTHER)):
        if name.endswith("_ids"):
            checked[name] = whole_ids(arrays[name], f"{path}, {name}").astype(np.int64)
        elif name.endswith("_embeddings"):
            checked[name] = _check_vectors(
                path, name, arrays[name], np.arange(arrays[name].shape[0] if arrays[name].ndim else 0)
            )
        else:
            raise MalformedRun(f"{path}, {name}: is neither ids (..._ids) nor vectors (..._embeddings); leave it out")
    return checked


def save_embeddings(path: str | Path, run: EmbeddingsRun) -> None:
    """Write a run so that :func:`load_embeddings` reads the same arrays back; replaces ``path`` in one step.

    Args:
        path: a ``.npz`` or ``.safetensors`` file; its folder is made where it is not there.
        run: the vectors to write.

    Raises:
        MalformedRun: the suffix is neither of the two.
        InvalidOption: ``path`` is a folder.
        WriteFailed: it cannot be written; what was there is as it was.
    """
    path = Path(path)
    suffix = _suffix(path)
    arrays: dict[str, NDArray[Any]] = {}
    for side, (ids, vectors) in PAIRS.items():
        embeddings: Embeddings | None = getattr(run, side)
        if embeddings is not None:
            arrays |= {ids: embeddings.ids, vectors: embeddings.vectors}
    arrays |= run.further
    told = {SIMILARITY: run.similarity, MODEL: run.model}
    entries = {name: text for name, text in told.items() if text is not None}
    with replaced_file(path) as part:
        if suffix == ".npz":
            write_npz(part, arrays | {name: np.array(text) for name, text in entries.items()})
        else:
            write_safetensors(part, arrays, entries)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise MalformedRun(f"{path}: unknown embeddings format {suffix!r}; use {' or '.join(FORMATS)}")
    return suffix


def side_of_arrays(
    path: Path | str, arrays: Mapping[str, NDArray[Any]], ids_name: str, vectors_name: str
) -> Embeddings | None:
    """Ids and float32 vectors of one side, of equal length and finite; None where the file has neither."""
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
    return Embeddings(ids, _check_vectors(path, vectors_name, vectors, ids))


def _check_vectors(path: Path | str, name: str, vectors: NDArray[Any], ids: IntArray) -> NDArray[np.float32]:
    """(N, D) vectors as float32, finite and none too small for it; their ids stand in messages."""
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
            f"{row[np.abs(row).argmax()]}, smaller than float32 can tell apart; {faint.size} of {ids.size} vectors "
            "are like it. Multiply all vectors by one large number (cosine similarity does not depend on their length)."
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
