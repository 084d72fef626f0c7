"""A model inside another library: its images, its similarity, the score of its run, and the folder of its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import ModelError
from cxc_eccv.evaluation import Request, evaluate_request, make_plan
from cxc_eccv.ranking.scores import to_unit_length
from cxc_eccv.registry import task
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.runs.run import SIMILARITIES
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings

Compare = Callable[[Any, Any], Any]
"""A model's similarity function: vectors (N, D) and (M, D) to scores (N, M), as arrays or tensors."""


def main_key(direction: str, split: str, tasks: str | Sequence[str] = "all") -> str | None:
    """The key of the main score: of ECCV Caption if it has this direction and split, else of CxC, else None."""
    if tasks == "all":
        names: Sequence[str] = ("eccv_caption", "cxc")
    elif isinstance(tasks, str):
        names = [tasks]
    else:
        names = tasks
    for name in names:
        task_name, _, part = name.partition("/")
        directions = [each.name for each in task(task_name).parts_with("ranks")]
        if direction in directions and split in task(task_name).splits and part in ("", direction):
            return f"{task_name}/{direction}/{task(task_name).main_metric}"
    return None


def make_run(images: Embeddings | None, captions: Embeddings | None, compare: Compare, name: str) -> EmbeddingsRun:
    """A run of these vectors, with the similarity that the model uses."""
    # A few vectors of each side are enough to find the similarity. Scaling them by a power of two changes no cosine and
    # prevents overflow.
    few = [side.vectors[:64] for side in (images, captions) if side is not None]
    sides = [np.asarray(np.ldexp(vectors, -np.frexp(np.abs(vectors).max())[1])) for vectors in few]
    return EmbeddingsRun(images, captions, similarity=_find_similarity(compare, sides[0], sides[-1], name))


def _find_similarity(compare: Compare, left: NDArray[np.float32], right: NDArray[np.float32], name: str) -> str:
    """``cosine`` or ``dot``, whichever gives the model's own scores: what a model declares may be wrong."""
    import torch  # not at the top: a report in mteb's form needs none

    scores = torch.as_tensor(compare(left, right)).detach().float().cpu().numpy()
    expected = {"cosine": to_unit_length(left) @ to_unit_length(right).T, "dot": left @ right.T}
    deviations = {
        kind: float(np.abs(scores - expected[kind]).max()) if scores.shape == expected[kind].shape else np.inf
        for kind in SIMILARITIES
    }
    closest = min(SIMILARITIES, key=lambda kind: deviations[kind])
    if not deviations[closest] <= 0.01 * np.abs(expected[closest]).max():
        raise ModelError(
            f"{name} compares its vectors neither by cosine nor by dot product. Set its similarity function to one of "
            "these."
        )
    return closest


def score(run: EmbeddingsRun, request: Request, library: Library, direction: str | None = None) -> Report:
    """The report of a run; with ``direction``, of that direction only."""
    if direction is not None:
        parts = make_plan(request, library, run).parts
        request = replace(
            request, tasks=[part.key for part in parts if part.task.part(part.name).direction == direction]
        )
    return evaluate_request(run, request, library, progress=False)
