"""What a user says of a model, checked before torch is imported: its name and how it encodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from numbers import Real
from pathlib import Path

from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.types.ids import check_type, check_whole

POOLINGS = ("mean", "cls", "last")

TORCH_DTYPES = {
    "float32": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "fp32": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
}
"""Name in options to torch's name of the type."""

PAIR_SCORES = ("itm", "itc", "itm+itc")
"""Scores of pairs by a cross-encoder: of its matching head, of its two towers, and their sum."""

OPEN_CLIP_PREFIXES = ("open_clip:", "hf-hub:")
"""Prefixes of the names of open_clip models."""

MODEL_CONFIG_FILES = ("config.json", "modules.json", "open_clip_config.json", "adapter_config.json")
"""Files of which the folder of a model has one."""

EMBEDDING_SUFFIXES = (".npz", ".safetensors")

MODEL_NAME_ADVICE = "Name the folder of a saved model, or a Hub id."

MODEL_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


def check_source(source: str) -> None:
    """Raise ModelError if a model's name is neither a folder nor a possible Hub id.

    Example:
        >>> check_source("models/clip/latest")
        Traceback (most recent call last):
        cxc_eccv.errors.ModelError: models/clip/latest: no model there. Name the folder of a saved model, or a Hub id.
    """
    path = Path(source)
    if source.startswith(OPEN_CLIP_PREFIXES):
        return
    if path.is_dir():
        has_config = any((path / name).is_file() for name in MODEL_CONFIG_FILES)
        if not has_config:
            raise ModelError(f"{source}: no model found: {_describe_folder(path)}. {MODEL_NAME_ADVICE}")
        return
    if path.is_file():
        advice = ""
        if path.suffix in EMBEDDING_SUFFIXES:
            advice = f", or score the embeddings in it: cxc-eccv evaluate {source}"
        raise ModelError(
            f"{source} is a file, but a model is a folder or a Hub id. Name the folder that it was saved to{advice}."
        )
    if not MODEL_ID.fullmatch(source):
        raise ModelError(f"{source}: no model there. {MODEL_NAME_ADVICE}")


def _describe_folder(path: Path) -> str:
    if (path / "report.json").is_file():
        return f"it is the folder of a report. To score that model's file again, run cxc-eccv evaluate {path}"
    return f"the folder has no {MODEL_CONFIG_FILES[0]}"


def check_pooling(pooling: str) -> None:
    """Raise InvalidOption unless the pooling exists."""
    if pooling not in POOLINGS:
        raise InvalidOption(f"pooling {pooling!r}: choose {', '.join(POOLINGS[:-1])} or {POOLINGS[-1]}")


def check_dtype(dtype: str | None) -> None:
    """Raise InvalidOption unless the type of weights exists."""
    if dtype is not None and dtype not in TORCH_DTYPES:
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
        if self.central_crop is not None:
            _check_share("central_crop", self.central_crop)
        check_type("skip_bad_images", self.skip_bad_images, bool, "True or False")
        if self.ten_crops is not None:
            check_type("ten_crops", self.ten_crops, TenCrops, "TenCrops(), or None")
        if self.central_crop is not None and self.ten_crops is not None:
            raise InvalidOption("central_crop and ten_crops both crop an image; give only one of them")


def _check_share(name: str, share: float) -> None:
    """Raise InvalidOption unless an option is a share of an image's area."""
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 < share <= 1:
        raise InvalidOption(f"{name} is {share!r}, expected a share of the area above 0 and at most 1, such as 0.875")


DEFAULT_ENCODING = Encoding()
"""The usual way to encode."""
