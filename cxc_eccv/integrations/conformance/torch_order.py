"""The order in which torch returns equal scores; torch alone, none of the libraries that call it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cxc_eccv.integrations.conformance.kit import Part
from cxc_eccv.integrations.conformance.rules import in_order
from cxc_eccv.types import IntArray, PositiveRanks


def top_k_order(part: Part, k: int) -> PositiveRanks:
    """Ranks in the top K of ``torch.topk``, which chooses among equal scores by its algorithm."""
    return in_order(part, _top_k, k)


def _top_k(part: Part, k: int) -> Iterator[IntArray]:
    import torch

    for scores in part.scores:
        yield torch.from_numpy(scores.astype(np.float32)).topk(k).indices.numpy()


def argsort_order(part: Part, k: int) -> PositiveRanks:
    """Ranks in the order of ``torch.argsort``, which is not stable by default: its order depends on the processor."""
    return in_order(part, _argsort, k)


def _argsort(part: Part, _k: int) -> Iterator[IntArray]:
    import torch

    for scores in part.scores:
        yield torch.from_numpy(scores.astype(np.float32)).argsort(descending=True).numpy()
