"""What a user says of a model, checked before torch is imported: its name, how it encodes, what it was trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.types.ids import check_type, check_whole

POOLINGS = ("mean", "cls", "last")

DTYPES = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
DTYPES |= {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Name in options to torch's name of the type."""

SCORES = ("itm", "itc", "itm+itc")
"""Scores of pairs by a cross-encoder: of its matching head, of its two towers, and their sum."""

OF_OPEN_CLIP = ("open_clip:", "hf-hub:")
"""Prefixes of the names of open_clip models."""

CONFIGS = ("config.json", "modules.json", "open_clip_config.json", "adapter_config.json")
"""Files of which the folder of a model has one."""

ARRAYS = (".npz", ".safetensors")

NAME_MODEL = "Name the folder of a saved model, or a Hub id."

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


def check_source(source: str) -> None:
    """Raise ModelError if a model's name is neither a folder nor a possible Hub id.

    Example:
        >>> check_source("models/clip/latest")
        Traceback (most recent call last):
        cxc_eccv.errors.ModelError: models/clip/latest: no model there. Name the folder of a saved model, or a Hub id.
    """
    path = Path(source)
    if source.startswith(OF_OPEN_CLIP):
        return
    if path.is_dir():
        if not any((path / name).is_file() for name in CONFIGS):
            raise ModelError(f"{source}: no model found: {_describe_folder(path)}. {NAME_MODEL}")
        return
    if path.is_file():
        advice = f", or score the embeddings in it: cxc-eccv evaluate {source}" if path.suffix in ARRAYS else ""
        raise ModelError(
            f"{source} is a file, but a model is a folder or a Hub id. Name the folder that it was saved to{advice}."
        )
    if not HUB_ID.fullmatch(source):
        raise ModelError(f"{source}: no model there. {NAME_MODEL}")


def _describe_folder(path: Path) -> str:
    if (path / "report.json").is_file():
        return f"it is the folder of a report. To score that model's file again, run cxc-eccv evaluate {path}"
    return f"the folder has no {CONFIGS[0]}"


def check_pooling(pooling: str) -> None:
    """Raise InvalidOption unless the pooling exists."""
    if pooling not in POOLINGS:
        raise InvalidOption(f"pooling {pooling!r}: choose {', '.join(POOLINGS[:-1])} or {POOLINGS[-1]}")


def check_dtype(dtype: str | None) -> None:
    """Raise InvalidOption unless the type of weights exists."""
    if dtype is not None and dtype not in DTYPES:
        raise InvalidOption(f"dtype {dtype!r}: choose float32, bfloat16 or float16")


@dataclass(frozen=True, slots=True)
class TenCrops:
    """Scales an image's shorter side, and crops squares from the corners and the centre of it and its mirror image.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.2.1; after Krizhevsky et al., NIPS 2012.
    """

    shorter_side: int = 256
    size: int = 224

    def __post_init__(self) -> None:
        for name in ("shorter_side", "size"):
            check_whole(name, getattr(self, name), least=0)
        if not 0 < self.size <= self.shorter_side:
            raise InvalidOption(
                f"crops of {self.size} pixels do not fit images whose shorter side is {self.shorter_side}; choose a "
                "size from 1 to the shorter side"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How a model encodes images and captions; the options are checked here.

    Attributes:
        batch_size: items per batch.
        pooling: ``mean``, ``cls`` or ``last``, for a text model.
        central_crop: share of an image's area around its centre that is kept before processing; 0.875 in the CxC paper
            for image-only models.
        ten_crops: how to make ten crops of an image, whose vectors are averaged; None for the whole image.
        skip_bad_images: skip images that are missing or broken, with a warning that names them.

    Example:
        >>> Encoding(batch_size=0)
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: batch_size is 0, expected a whole number of at least 1
    """

    batch_size: int = 64
    pooling: str = "mean"
    central_crop: float | None = None
    ten_crops: TenCrops | None = None
    skip_bad_images: bool = False

    def __post_init__(self) -> None:
        check_pooling(self.pooling)
        check_whole("batch_size", self.batch_size)
        share = self.central_crop
        if share is not None and (isinstance(share, bool) or not isinstance(share, Real) or not 0 < share <= 1):
            raise InvalidOption(
                f"central_crop is {share!r}, expected a share of the area above 0 and at most 1, such as 0.875"
            )
        check_type("skip_bad_images", self.skip_bad_images, bool, "True or False")
        if self.ten_crops is not None:
            check_type("ten_crops", self.ten_crops, TenCrops, "TenCrops(), or None")
        if share is not None and self.ten_crops is not None:
            raise InvalidOption("central_crop and ten_crops both crop an image; give only one of them")


PLAIN = Encoding()
"""The usual way to encode."""

UNKNOWN = "unknown"

DATA_SETS = {
    "coco_train": "COCO train",
    "coco_val": "COCO val",
    "coco": "COCO (split not stated)",
    "flickr30k": "Flickr30k",
    "web": "web crawl",
    UNKNOWN: "unknown",
}
"""Names that all models share, in words; any other name of a data set is kept as it is."""


FROM_CARD = "the model's card, which may not list all"
"""Source of training data in reports, if it is not the caller."""

COLLECTIONS = {
    "coco": re.compile(r"(?<![a-z])(ms[-_ ]?)?coco(?![a-z])", re.IGNORECASE),
    "flickr30k": re.compile(r"(?<![a-z])flickr[-_ ]?30k", re.IGNORECASE),
}
"""Names of collections to how they are written in names of data sets and in texts."""


def name_collections(texts: Iterable[str]) -> list[str]:
    """The collections of photographs among ours that texts name.

    Example:
        >>> name_collections(["embedding-data/flickr30k-captions", "MS-COCO, coconuts"]), name_collections(["coconuts"])
        (['coco', 'flickr30k'], [])
    """
    texts = list(texts)
    return [name for name, written in COLLECTIONS.items() if any(map(written.search, texts))]


def check_training_data(names: Sequence[str]) -> tuple[str, ...]:
    """The names without repeats, ``unknown`` if there are none; raises InvalidOption for one that is not a line.

    Example:
        >>> check_training_data(["coco_train", "laion2b"]), check_training_data([])
        (('coco_train', 'laion2b'), ('unknown',))
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidOption(f"training data {names!r:.60}: give a list of names")
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or "," in name:
            raise InvalidOption(
                f"training data {name!r:.60}: give names such as {', '.join(DATA_SETS)}, or those of other data sets"
            )
    distinct = tuple(dict.fromkeys(names)) or (UNKNOWN,)
    if len(distinct) > 1 and UNKNOWN in distinct:
        raise InvalidOption(f"training data: {UNKNOWN} excludes other names; leave it out")
    return distinct


def describe_training_data(names: Sequence[str], source: str | None = None) -> str:
    """The names in words, and that the model's card may lack some if it is the source.

    Example:
        >>> describe_training_data(["coco_train", "laion2b"])
        'COCO train, laion2b'
        >>> describe_training_data(["coco"], FROM_CARD)
        'COCO (split not stated); its card lists these, perhaps not all'
    """
    listed = ", ".join(DATA_SETS.get(name, name) for name in names)
    return f"{listed}; its card lists these, perhaps not all" if source == FROM_CARD else listed
