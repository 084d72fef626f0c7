"""MultiVectorRun: several vectors for every image and caption, of a late-interaction model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs.array_files import write_arrays
from cxc_eccv.runs.embeddings import OFFSETS, PAIRS, SIMILARITY, check_similarity, check_vectors, texts_of_arrays
from cxc_eccv.runs.run import MODEL, VectorsOfSides, check_ids, check_name, facts_of_file, hash_file, to_array
from cxc_eccv.types import SIDES
from cxc_eccv.types.ids import on_host


class MultiVectors(NamedTuple):
    """The vectors of N items, one item after the other; a :class:`MultiVectorRun` checks them.

    Attributes:
        ids: (N,) unique integer ids.
        all_vectors: (T, D) vectors of all items, of any real type.
        offsets: (N + 1,) ascending integers from 0 to T; item i has the rows ``offsets[i]`` to ``offsets[i + 1]``.
    """

    ids: NDArray[Any]
    all_vectors: NDArray[Any]  # not ``vectors``, so that code for one vector an item cannot read them
    offsets: NDArray[Any]

    @classmethod
    def of(cls, ids: ArrayLike, items: Sequence[Any]) -> MultiVectors:
        """Join one (vectors, D) array or tensor for each id, as sentence-transformers' MultiVectorEncoder returns them.

        Raises:
            MalformedRun: there are not as many items as ids, an item has no vectors, or items differ in D.

        Example:
            >>> MultiVectors.of([7, 8], [np.ones((2, 4)), np.ones((3, 4))]).offsets.tolist()
            [0, 2, 5]
        """
        ids = to_array("ids", on_host(ids))
        arrays = [to_array(f"item {place}", on_host(item)) for place, item in enumerate(items)]
        if ids.ndim != 1 or not arrays or ids.size != len(arrays):
            raise MalformedRun(f"got ids of shape {ids.shape} and {len(arrays)} items; every id needs one item")
        for identifier, array in zip(ids, arrays, strict=True):
            if array.ndim != 2 or not len(array) or array.shape[1] != arrays[0].shape[-1]:
                raise MalformedRun(
                    f"id {identifier}: its vectors have shape {array.shape}, those of id {ids[0]} {arrays[0].shape}; "
                    "every item needs a (vectors, D) array with at least one vector and the same D"
                )
        return cls(ids, np.concatenate(arrays), np.append(0, np.cumsum([len(array) for array in arrays])))


@dataclass(frozen=True, slots=True, eq=False)
class MultiVectorRun(VectorsOfSides):
    r"""Several vectors for every image and caption, compared by MaxSim (late interaction).

    Every vector of a caption looks for the most similar vector of an image, and the score is the sum over the caption:

    .. math:: s(image, caption) = \sum_{c \in caption} \max_{v \in image} c \cdot v

    Vectors are scaled to length 1 unless ``similarity`` is ``dot``. The score of an image with a caption is the same
    for i2t and t2i, as ColBERT and ColPali score; i2t is not divided by the length of the caption. For t2t and i2i the
    sum is over the vectors of the query, so that exchanging query and item changes the score.

    Attributes:
        images: vectors of the images, or None for a text-only model.
        captions: vectors of the captions, or None for an image-only model.
        path: the file they were read from, or None.
        sha256: hex digest of that file, or None.
        similarity: ``cosine`` or ``dot``, or None if unknown.
        model: name of the model in reports and comparisons, or None.

    Raises:
        MalformedRun: there are no vectors, or images and captions differ in D; ids repeat; offsets do not ascend from 0
            to the number of vectors; a value is NaN or infinite. The message names array, place and remedy.

    References:
        Khattab and Zaharia, 2020, ColBERT, equation 3. https://arxiv.org/abs/2004.12832
        Faysse et al., 2024, ColPali, equation 1. https://arxiv.org/abs/2407.01449

    Example:
        >>> run = MultiVectorRun(None, MultiVectors.of([7, 8], [np.eye(2), np.ones((3, 2))]))
        >>> run.facts()["captions"]
        {'count': 2, 'vectors': 5, 'dimensions': 2}
    """

    kind: ClassVar[str] = "multi-vectors"

    images: MultiVectors | None
    captions: MultiVectors | None
    path: Path | None = None
    sha256: str | None = None
    similarity: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        where = str(self.path or "run")
        check_name(where, self.model)
        check_similarity(where, self.similarity)
        given = {side: vectors for side in SIDES if (vectors := getattr(self, side)) is not None}
        if not given:
            raise MalformedRun(f"{where}: needs vectors of images, captions, or both; it has neither")
        for side, vectors in given.items():
            object.__setattr__(self, side, _check(where, side, vectors))
        widths = [getattr(self, side).all_vectors.shape[1] for side in given]
        if len({*widths}) > 1:
            raise MalformedRun(f"{where}: image and caption vectors have {widths} dimensions; both need the same")

    def facts(self) -> dict[str, Any]:
        """Kind, file, hash and model; number of items and vectors, and width of the vectors, per side."""
        facts = facts_of_file(self)
        for side in SIDES:
            vectors: MultiVectors | None = getattr(self, side)
            if vectors is not None:
                count, dimensions = vectors.all_vectors.shape
                facts[side] = {"count": vectors.ids.size, "vectors": count, "dimensions": dimensions}
        return facts


def multi_vectors_of_arrays(
    path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
) -> MultiVectorRun:
    """The run from the arrays of a file."""
    sides: dict[str, MultiVectors] = {}
    for side, pair in PAIRS.items():
        names = *pair, OFFSETS[side]
        lacking = [name for name in names if name not in arrays]
        if 0 < len(lacking) < len(names):
            raise MalformedRun(
                f"{path}: has several vectors an item, but not {' and '.join(lacking)}; save {', '.join(names)}, with "
                "offsets np.arange(N + 1) if every item has one vector"
            )
        if not lacking:
            sides[side] = MultiVectors(*(arrays[name] for name in names))
    texts = texts_of_arrays(path, arrays, metadata)
    return MultiVectorRun(sides.get("images"), sides.get("captions"), path, hash_file(path), *texts)


def save_multi_vectors(path: str | Path, run: MultiVectorRun) -> None:
    """Write a ``.npz`` file that :func:`load_run` reads; replaces ``path`` in one step.

    Raises:
        MalformedRun: the suffix is not ``.npz``.
        InvalidOption: ``path`` is a folder.
        WriteFailed: the file cannot be written; an earlier file stays intact.

    Example:
        >>> import tempfile
        >>> vectors = np.eye(4, dtype="float32")
        >>> run = MultiVectorRun(MultiVectors.of([1], [vectors]), MultiVectors.of([7, 8], [vectors[:3], vectors[3:]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_multi_vectors(Path(folder) / "mine.npz", run)
        ...     sorted(np.load(Path(folder) / "mine.npz"))[:3]
        ['caption_embeddings', 'caption_ids', 'caption_offsets']
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise MalformedRun(f"{path}: unknown format {path.suffix!r}; use .npz")
    arrays: dict[str, NDArray[Any]] = {}
    for side, names in PAIRS.items():
        vectors: MultiVectors | None = getattr(run, side)
        if vectors is not None:
            arrays |= dict(zip((*names, OFFSETS[side]), vectors, strict=True))
    write_arrays(path, arrays, {SIMILARITY: run.similarity, MODEL: run.model})


def _check(where: str, side: str, given: MultiVectors) -> MultiVectors:
    """The side with int64 ids and offsets, and contiguous float32 vectors."""
    (ids_name, vectors_name), offsets_name = PAIRS[side], OFFSETS[side]
    ids = check_ids(where, ids_name, to_array(f"{where}, {ids_name}", given.ids))
    offsets = to_array(f"{where}, {offsets_name}", given.offsets)
    vectors = to_array(f"{where}, {vectors_name}", given.all_vectors)
    if offsets.dtype.kind not in "iu" or offsets.shape != (ids.size + 1,):
        raise MalformedRun(
            f"{where}, {offsets_name}: has type {offsets.dtype} and shape {offsets.shape}, expected integers of shape "
            f"({ids.size + 1},): the first row of each of the {ids.size} items, and the number of vectors"
        )
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != len(np.atleast_1d(vectors)):
        raise MalformedRun(
            f"{where}, {offsets_name}: goes from {offsets[0]} to {offsets[-1]}, expected from 0 to "
            f"{len(np.atleast_1d(vectors))}, the number of vectors in {vectors_name}"
        )
    lengths = np.diff(offsets)
    if lengths.min() < 1:
        item = int(lengths.argmin())
        raise MalformedRun(
            f"{where}, {offsets_name}: item {item} (id {ids[item]}) goes from {offsets[item]} to {offsets[item + 1]}; "
            "offsets must ascend, as every item needs at least one vector"
        )
    single = check_vectors(where, vectors_name, vectors, np.repeat(ids, lengths))
    return MultiVectors(ids, np.ascontiguousarray(single), offsets)
