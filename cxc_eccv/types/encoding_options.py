"""Options of encoding: what can be refused before torch is imported and a model is loaded."""

from __future__ import annotations

import re
from pathlib import Path

from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.types.ids import check_whole

POOLINGS = ("mean", "cls")

DTYPES = {"float32": "float32", "bfloat16": "bfloat16", "float16": "float16"}
DTYPES |= {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""What a user may write, to torch's name of the type."""

SCORES = ("itm", "itc", "itm+itc")
"""Scores of pairs: of a cross-encoder's matching head, of its two towers, and their sum."""

OF_OPEN_CLIP = ("open_clip:", "hf-hub:")
"""How the names of open_clip's models begin."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


def check_source(source: str) -> None:
    """Refuse the name of a model that is neither a folder nor possibly a Hub id.

    Example:
        >>> check_source("models/clip/latest")
        Traceback (most recent call last):
        cxc_eccv.errors.ModelError: models/clip/latest: no model there. Name the folder of a saved model, or a Hub id.
    """
    path = Path(source)
    if source.startswith(OF_OPEN_CLIP) or path.is_dir():
        return
    if path.is_file():
        raise ModelError(
            f"{source} is a file, and a model is a folder or a Hub id. Name the folder that it was saved to."
        )
    if not HUB_ID.fullmatch(source):
        raise ModelError(f"{source}: no model there. Name the folder of a saved model, or a Hub id.")


def check_pooling(pooling: str) -> None:
    """Refuse a pooling of another name."""
    if pooling not in POOLINGS:
        raise InvalidOption(f"pooling {pooling!r}: choose {' or '.join(POOLINGS)}")


def check_dtype(dtype: str | None) -> None:
    """Refuse a type of weights of another name."""
    if dtype is not None and dtype not in DTYPES:
        raise InvalidOption(f"dtype {dtype!r}: choose float32, bfloat16 or float16")


def check_central_crop(share: float | None) -> None:
    """Refuse a share of an image's area that is not above 0 and at most 1."""
    if share is not None and (isinstance(share, bool) or not 0 < share <= 1):
        raise InvalidOption(
            f"central_crop is {share!r}, expected a share of the area above 0 and at most 1, such as 0.875"
        )


def check_encoding(
    *, pooling: str = "mean", batch_size: int = 64, dtype: str | None = None, central_crop: float | None = None
) -> None:
    """Refuse options of encoding that no model takes."""
    check_pooling(pooling)
    check_whole("batch_size", batch_size)
    check_dtype(dtype)
    check_central_crop(central_crop)
