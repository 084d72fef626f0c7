"""EmbeddingsRun, and the checks that all runs share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.damage import refuse_damaged_run
from cxc_eccv.errors import CxcEccvError, MalformedRun, NoSuchFile, refuse_long_name
from cxc_eccv.hashing import hash_file
from cxc_eccv.types import Embeddings, IntArray, find_sides
from cxc_eccv.types.ids import shorten, to_array
from cxc_eccv.types.json_records import from_json, make_shape
from cxc_eccv.types.provenance import EncodingFacts, ItemFacts, RunFacts
from cxc_eccv.types.strict_json import JsonFault, check_shape, decode_json
from cxc_eccv.writing import replaced_file

MODEL = "model"

SIMILARITIES = ("cosine", "dot")

QUERY = "query"
GALLERY = "gallery"
SYMMETRIC = "symmetric"
"""Roles of an item: a query, an item that is searched, and one of a rated pair, whose two sides are alike."""

ROLES = {"images": ("image_query", "image_symmetric"), "captions": ("caption_query", "caption_symmetric")}
"""Side to the names of its vectors in roles other than the gallery's."""

CORPUS = "corpus"
"""Entry of a rankings file that says what represented an image, if not the image itself."""


def check_name(
    where: str | Path, name: object, error: type[CxcEccvError] = MalformedRun, what: str = "the model's name"
) -> None:
    """Raise unless a name is None or a nonempty line of printable text."""
    if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise error(f"{where}: {what} is {shorten(name)}; give one line of text, or none")


def read_entry(path: Path | str, array: NDArray[Any], entry: str) -> str:
    """The text in an array that holds exactly one."""
    if array.size != 1 or array.dtype.kind != "U":
        raise MalformedRun(f"{path}, {entry}: is {shorten(array.tolist())}; save one text, or leave it out")
    return str(array.item())


def whole_ids(values: ArrayLike, owner: str) -> NDArray[Any]:
    """(N,) ids of any integer type except uint64, possibly none or repeated."""
    array = to_array(owner, values)
    if array.ndim == 1 and not array.size and array.dtype.kind != "O":
        return np.empty(0, dtype=np.int32)
    # NumPy would convert a bool among numbers to 1.
    truths = isinstance(values, list | tuple) and not {bool, np.bool_}.isdisjoint(map(type, values))
    beyond = array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max
    if array.ndim != 1 or array.dtype.kind not in "iu" or truths or beyond:
        raise MalformedRun(f"{owner} is {shorten(values)}; need a list of whole-number ids")
    return array.astype(np.int64, copy=False) if array.dtype == np.uint64 else array


def refuse_unreadable(path: Path) -> None:
    """Raise NoSuchFile if there is no such file, MalformedRun if it cannot be opened."""
    refuse_long_name(path)
    if path.is_dir():
        raise MalformedRun(f"{path}: is a folder, not a file")
    if not path.is_file():
        raise NoSuchFile(path)
    try:
        path.open("rb").close()
    except OSError as error:
        raise MalformedRun(f"{path}: cannot be read ({error.strerror})") from None


def parse_json(path: Path, text: str) -> Any:  # noqa: ANN401 - whatever the text holds
    """The value of a JSON text with finite numbers and without repeated keys."""
    try:
        with refuse_damaged_run(path):
            return decode_json(text)
    except JsonFault as fault:
        raise MalformedRun(f"{path}: {fault}; correct it, or save it again") from None


def record_path(path: Path) -> Path:
    """The path of the record of an encoded file."""
    return path.with_name(f"{path.stem}.encoding.json")


def write_record(path: Path, facts: Mapping[str, Any]) -> None:
    """Write facts about an encoded file, with the hash of the file."""
    text = json.dumps({**facts, "sha256": hash_file(path)}, indent=2, ensure_ascii=False)
    with replaced_file(record_path(path)) as part:
        part.write_text(text + "\n", encoding="utf-8")


def read_record(path: Path) -> dict[str, Any] | None:
    """The record of an encoded file; None if there is none, or if its hash is that of another file."""
    if not (path.is_file() and record_path(path).is_file()):  # reading a pipe would block
        return None
    try:
        content = decode_json(record_path(path).read_text(encoding="utf-8"))
        matches = content["sha256"] == hash_file(path)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if matches else None


def find_encoding(record: Mapping[str, Any]) -> EncodingFacts | None:
    """What made an encoded file, as its record says; None if it does not say so."""
    facts: Any = record.get("encoding")
    try:
        check_shape(facts, make_shape(EncodingFacts))
    except JsonFault:
        return None
    return from_json(EncodingFacts, facts)


class AnyRun:
    """What all runs have.

    ``may_be_cut`` says whether rankings may end early, and then do not show which items they lack; ``corpus`` is None
    but for rankings of ``query-corpus``.
    """

    __slots__ = ()
    may_be_cut: ClassVar[bool] = False
    corpus: str | None = None

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""
        raise NotImplementedError

    def why_unrated(self, direction: str) -> str | None:
        """Why pairs of this direction have no similarity, or None."""
        return self.why_not(direction)

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``, possibly none."""
        raise NotImplementedError

    def query_ids(self, direction: str) -> IntArray:
        """(Q,) ids of the queries of a direction."""
        return self.ids(find_sides(direction)[0])


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
        roles: vectors of a model that encodes an item otherwise as a query (``image_query``, ``caption_query``) or in
            rated pairs (``image_symmetric``, ``caption_symmetric``); ``images`` and ``captions`` are the gallery's,
            and stand for the roles that are not here.
        encoding: what made the vectors, of a run that was encoded now; that of a file is in the record beside it.

    Raises:
        MalformedRun: there are no vectors at all, sides or roles differ in D or in their ids, the similarity is
            unknown, or the name is not a line of text.

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
    roles: Mapping[str, Embeddings] = field(default_factory=dict)
    encoding: EncodingFacts | None = None

    def __post_init__(self) -> None:
        check_name(self.path or "run", self.model)
        if self.similarity not in (None, *SIMILARITIES):
            where = self.path or "run"
            raise MalformedRun(
                f"{where}: its similarity is {self.similarity!r:.80}; save {' or '.join(SIMILARITIES)}, or none"
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
        self._check_roles()

    def _check_roles(self) -> None:
        """Raise MalformedRun unless the vectors of every role belong to the items of a side, row by row."""
        where = self.path or "run"
        known: dict[str, str] = {}
        for side, names in ROLES.items():
            known |= dict.fromkeys(names, side)
        for name, embeddings in self.roles.items():
            if name not in known:
                raise MalformedRun(f"{where}: unknown role {name!r}; give {', '.join(known)}")
            gallery: Embeddings | None = getattr(self, known[name])
            kind = known[name].removesuffix("s")
            if gallery is None:
                raise MalformedRun(
                    f"{where}: has {name}_embeddings but not {kind}_embeddings, the vectors of the gallery; save both"
                )
            if not np.array_equal(embeddings.ids, gallery.ids):
                raise MalformedRun(f"{where}: {name}_embeddings have other ids than {kind}_embeddings; save one order")
            if embeddings.vectors.shape[1] != gallery.vectors.shape[1]:
                raise MalformedRun(
                    f"{where}: {name}_embeddings have {embeddings.vectors.shape[1]} dimensions, {kind}_embeddings have "
                    f"{gallery.vectors.shape[1]}. Encode both with one model."
                )

    def find_vectors(self, side: str, role: str = GALLERY) -> Embeddings | None:
        """The vectors of the ``images`` or ``captions`` in a role: ``gallery``, ``query`` or ``symmetric``."""
        gallery: Embeddings | None = getattr(self, side)
        return self.roles.get(f"{side.removesuffix('s')}_{role}", gallery)

    def without_roles(self) -> EmbeddingsRun:
        """The run with one vector per item, the one of rated pairs, for all roles."""
        if not self.roles:
            return self
        images, captions = (self.find_vectors(side, SYMMETRIC) for side in ROLES)
        return replace(self, images=images, captions=captions, roles={})

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
        """Kind, file, hash and model; number and width of the vectors per side; roles, and what made the vectors."""
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
            roles=tuple(sorted(self.roles)),
            encoding=self.encoding,
        )
