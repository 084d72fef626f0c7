"""Candidates: the pairs that people are asked about, with who proposed them; the front door of the strategies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.evaluation.settings import Judge
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray

__all__ = ["CANDIDATES", "NEAR", "Proposal", "propose"]

CANDIDATES = pa.schema(
    [
        pa.field("image_id", pa.int64(), nullable=False),
        pa.field("caption_id", pa.int64(), nullable=False),
        pa.field(
            "proposals",
            pa.list_(pa.struct([("model", pa.string()), ("direction", pa.string()), ("rank", pa.int32())])),
            nullable=False,
        ),
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("priority", pa.float64()),
        pa.field("known", pa.list_(pa.string()), nullable=False),
    ]
)
"""A pair: whose list has it at which rank, what it was chosen by, its priority, and which sources call it positive."""

NEAR = 25
"""A pair that a model has among so many of a list is no sure negative."""


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What a strategy proposes.

    Attributes:
        candidates: pairs to ask about, first those to be asked first; as :data:`CANDIDATES`.
        known: pairs that it proposes too, and that a source calls positive already; as :data:`CANDIDATES`.
        facts: strategy, options, models with hashes, and counts, for a file.
        is_near: (P,) image ids and (P,) caption ids to (P,) whether a model has the pair among the top 25 of a list.
    """

    candidates: pa.Table
    known: pa.Table
    facts: dict[str, Any]
    is_near: Callable[[IntArray, IntArray], NDArray[np.bool_]]


def propose(
    runs: Mapping[str, Run],
    library: Library,
    split: str = "test",
    *,
    strategy: str = "eccv",
    budget: int | None = None,
    depth: int | None = None,
    queries: tuple[int | ArrayLike, int | ArrayLike] | None = None,
    seed: int = 0,
    classifier: Judge | None = None,
    probabilities: pa.Table | None = None,
    threshold: float | None = None,
    metric: str = "map_at_r",
    sources: Sequence[str] | None = None,
    asked: pa.Table | None = None,
) -> Proposal:
    """Choose the pairs that people are asked about.

    Args:
        runs: name of each model to its run, of the split's images and captions.
        library: the raw sources.
        split: of COCO.
        strategy: a name of :func:`cxc_eccv.annotation.proposing.strategies.strategies`.
        budget: how many candidates at most; None for all that the strategy proposes.
        depth: how many items of a list are proposed; None for what the strategy says.
        queries: of images and of captions how many are drawn to be queries, or the ids of those that are; None for all.
        seed: of all draws.
        classifier: of entailment, for ``uncertainty``.
        probabilities: in its place, a table with ``image_id``, ``caption_id`` and ``probability``.
        threshold: of these probabilities; None for the classifier's own, and 0.5 for a table.
        metric: for ``bounds``, the metric that a label shall move.
        sources: whose labels are known; None for all official ones.
        asked: pairs that were asked about before, with ``image_id`` and ``caption_id``; they are not proposed again.
    """
    raise NotImplementedError
