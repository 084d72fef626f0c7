"""What a report was computed from: enough to compute it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import cxc_eccv
from cxc_eccv.evaluation.known_ids import Asked, ids_used
from cxc_eccv.ranking.scores.device import torch_on
from cxc_eccv.ranking.scores.vectors import refuse_embedding_options, similarity_of
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.sides import SIDES
from cxc_eccv.sources.library import Library
from cxc_eccv.types import positions_of

__all__ = ["provenance_of", "run_facts", "scoring_of"]


def provenance_of(library: Library, **entries: Any) -> dict[str, Any]:  # noqa: ANN401 - recorded as they are
    """Versions and data of a report; no date and no machine, so that equal inputs give equal reports.

    Raw files that are not the catalog's stand under ``modified`` of ``data``; without any there is no such entry.

    Args:
        library: the raw sources, after they were read.
        **entries: further entries, for example ``run`` and ``seed``.

    Example:
        >>> provenance_of(Library("sample"), seed=0)["data"]["edition"]
        'sample'
    """
    modified = library.modified_files()
    return {
        "package": {"name": "cxc_eccv", "version": cxc_eccv.__version__},
        "numpy": np.__version__,
        "data": {
            "edition": library.edition,
            "version": library.catalog.version,
            "fingerprint": library.fingerprint(),
            "files": library.files_used(),
            **({"modified": modified} if modified else {}),
        },
        **entries,
    }


def run_facts(run: Run, asked: Iterable[Asked]) -> dict[str, Any]:
    """What a report says of the run: kind, file, hash, sizes, and how many of its items no task needed.

    Args:
        run: the model's results.
        asked: what everything computed needs.

    Example:
        >>> from cxc_eccv.runs import EmbeddingsRun
        >>> from cxc_eccv.types import Embeddings
        >>> run_facts(EmbeddingsRun(None, Embeddings([1, 2], np.eye(2))), [])["captions"]
        {'count': 2, 'dimensions': 2, 'outside_the_tasks': 2}
    """
    needed, facts = list(asked), run.facts()
    for side in SIDES:
        if side in facts:
            used = positions_of(run.ids(side), ids_used(side, needed))[1]
            facts[side] = {**facts[side], "outside_the_tasks": int((~used).sum())}
    return facts


def scoring_of(
    run: Run, *, similarity: str | None, block_size: int | None = None, device: str | None = None
) -> dict[str, str | None]:
    """By which similarity a run is scored, and who said so; None for both where it is no matter of vectors.

    Args:
        run: the model's results.
        similarity: what the caller asks for, or None.
        block_size: likewise.
        device: likewise.

    Raises:
        UnknownName: no such similarity.
        InvalidOption: an option of embeddings, and the run has scores or rankings; or there is no such device.

    Example:
        >>> from cxc_eccv.types import Embeddings
        >>> run = EmbeddingsRun(None, Embeddings([1], [[1.0]]), similarity="dot")
        >>> scoring_of(run, similarity=None)
        {'similarity': 'dot', 'similarity_from': 'the run'}
    """
    if not isinstance(run, EmbeddingsRun):
        refuse_embedding_options(run, similarity=similarity, block_size=block_size, device=device)
        return {"similarity": None, "similarity_from": None}
    chosen = similarity_of(run, similarity)
    if device is not None:
        torch_on(device)
    source = "the caller" if similarity else "the run" if run.similarity else "default"
    return {"similarity": chosen, "similarity_from": source}
