"""Hugging Face Hub: uploads, and the leaderboard."""

from __future__ import annotations

import re

from cxc_eccv.errors import InvalidOption
from cxc_eccv.extras import find_address

DATASETS_ADDRESS = "https://huggingface.co/datasets/"

NAME_DATASET = (
    "Name the benchmark's repository with --dataset OWNER_NAME/cxc_eccv: the owner of this package has set no address "
    "of it."
)
"""What commands ask for where no benchmark is set."""


def find_benchmark() -> str | None:
    """Repository of the benchmark that this package's owner set as ``Benchmark`` in ``[project.urls]``, or None."""
    address = find_address("Benchmark") or ""
    repository = re.fullmatch(rf"{re.escape(DATASETS_ADDRESS)}([\w.-]+/[\w.-]+)", address)
    return None if repository is None else repository[1]


def choose_benchmark(dataset: str | None) -> str:
    """The named repository, else that of :func:`find_benchmark`.

    Raises:
        InvalidOption: none is named, and none is set.
    """
    chosen = dataset or find_benchmark()
    if chosen is None:
        raise InvalidOption(NAME_DATASET)
    return chosen
