"""EmbeddingsRun: image and caption vectors of a model, and the files that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.array_files import read_arrays, write_arrays
from cxc_eccv.runs.run import (
    MODEL,
    AnyRun,
    check_name,
    hash_file,
    read_entry,
    refuse_unreadable,
    whole_ids,
)
from cxc_eccv.types import Embeddings, IntArray, find_sides
from cxc_eccv.types.ids import check_ids, check_vectors
from cxc_eccv.types.provenance import ItemFacts, RunFacts

SIMILARITIES = ("cosine", "dot")

PAIRS = {"images": ("image_ids", "image_embeddings"), "captions": ("caption_ids", "caption_embeddings")}

SIMILARITY = "similarity"
"""Entry that names the similarity of the vectors: a text in ``.npz``, metadata in ``.safetensors``."""

FURTHER = "adversarial_"
"""Prefix of further arrays, with other sentences than the captions of the split: ``adversarial_colour_ids``, ..."""

FORMATS = (".npz", ".safetensors")


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingsRun(AnyRun):
    """Vectors of images, captions, or both; or of altered sentences alone.

    Attributes:
        images: (N, D) image vectors, or None for a text-only model.
        captions: (M, D) caption vectors, or None for an image-only model.
        path: the file they were read from, or None.
        sha256: hex digest of that file, or None.
        similarity: the similarity of the vectors, ``cosine`` or ``dot``, or None if unknown.
        model: name of the model in reports and comparisons, or None.
        further: ids (``..._ids``, which may repeat) and vectors (``..._embeddings``) of altered sentences, under
            names that begin with ``adversarial_``.

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
        lacking = next((side for side in find_sides(direction) if getattr(self, side) is None), None)
        return None if lacking is None else f"the run has no {lacking}"

    def choose_similarity(self, similarity: str | None = None) -> str:
        """The given similarity, else that of the run, else cosine."""
        return similarity or self.similarity or "cosine"

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``, possibly none."""
        embeddings: Embeddings | None = getattr(self, side)
        return np.empty(0, dtype=np.int64) if embeddings is None else embeddings.ids

    def as_embeddings(self) -> EmbeddingsRun:
        """The run itself."""
        return self

    def facts(self) -> RunFacts:
        """Kind, file, hash and model; number and width of the vectors per side."""
        images, captions = (
            None if side is None else ItemFacts(*side.vectors.shape) for side in (self.images, self.captions)
        )
        return RunFacts(
            kind=self.kind,
            file=self.path.name if self.path else None,
            sha256=self.sha256,
            model=self.model,
            images=images,
            captions=captions,
            further={name: len(array) for name, array in self.further.items()},
        )


def load_embeddings(path: str | Path) -> EmbeddingsRun:
    """Read and check an embeddings file.

    The file holds ``image_ids`` (N,) and ``caption_ids`` (M,) of any integer type, with ``image_embeddings`` (N, D) and
    ``caption_embeddings`` (M, D) of any real type; a text-only or image-only file has only one pair. Vectors become
    float32; pickled objects are never loaded. Optional entries are ``similarity`` (``cosine`` or ``dot``) and
    ``model``, a name: texts in ``.npz``, metadata in ``.safetensors``. Vectors of altered sentences have names
    such as ``adversarial_<kind>_ids`` and ``adversarial_<kind>_embeddings``.

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
    return make_embeddings(path, *read_arrays(path))


def make_embeddings(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> EmbeddingsRun:
    """The run from the arrays of a file; similarity and model are arrays or metadata."""
    similarity, model = find_texts(path, arrays, metadata)
    sides = {side: read_side(path, arrays, *names) for side, names in PAIRS.items()}
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


def find_texts(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> tuple[str | None, str | None]:
    """The similarity and the model, which are arrays or metadata."""
    entries = dict(metadata)
    if SIMILARITY in arrays:
        text = arrays[SIMILARITY]
        entries[SIMILARITY] = str(text.item() if text.size == 1 else text.tolist())
    if MODEL in arrays:
        entries[MODEL] = read_entry(path, arrays[MODEL], MODEL)
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
        WriteFailed: another process is writing the file.
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


def read_side(
    path: Path | str, arrays: Mapping[str, NDArray[Any]], ids_name: str, vectors_name: str
) -> Embeddings | None:
    """The checked ids and float32 vectors of one side, or None if the file has neither."""
    present = [name for name in (ids_name, vectors_name) if name in arrays]
    if not present:
        return None
    if len(present) == 1:
        missing = vectors_name if present == [ids_name] else ids_name
        raise MalformedRun(f"{path}: has {present[0]!r} but not {missing!r}; save both, row by row in the same order")
    ids = check_ids(path, ids_name, arrays[ids_name])
    return Embeddings(ids, check_vectors(path, vectors_name, arrays[vectors_name], ids))
