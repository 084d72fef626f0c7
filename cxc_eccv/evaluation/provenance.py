"""What a report was computed from: enough to compute it again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import cxc_eccv
from cxc_eccv.ranking import sides_of
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, IntArray, Judgments, positions_of

__all__ = ["provenance_of", "run_facts"]


def provenance_of(library: Library, **entries: Any) -> dict[str, Any]:  # noqa: ANN401 - recorded as they are
    """Versions and data of a report; no date and no machine, so that equal inputs give equal reports.

    Args:
        library: the raw sources, after they were read.
        **entries: further entries, for example ``run`` and ``seed``.

    Example:
        >>> provenance_of(Library("sample"), seed=0)["data"]["edition"]
        'sample'
    """
    return {
        "package": {"name": "cxc_eccv", "version": cxc_eccv.__version__},
        "numpy": np.__version__,
        "data": {
            "edition": library.edition,
            "version": library.catalog.version,
            "fingerprint": library.fingerprint(),
            "files": library.files_used(),
        },
        **entries,
    }


def run_facts(run: EmbeddingsRun, judgments: Iterable[tuple[str, Judgments]]) -> dict[str, Any]:
    """What a report says of the run: file, hash, sizes, and how many of its items no task needed.

    Args:
        run: the model's vectors.
        judgments: direction and judgments of everything ranked.

    Example:
        >>> run_facts(EmbeddingsRun(None, Embeddings([1, 2], np.eye(2))), [])["captions"]
        {'count': 2, 'dimensions': 2, 'outside_the_tasks': 2}
    """
    ranked = list(judgments)
    facts: dict[str, Any] = {"file": run.path.name if run.path else None, "sha256": run.sha256}
    for side in ("images", "captions"):
        embeddings: Embeddings | None = getattr(run, side)
        if embeddings is not None:
            used = positions_of(embeddings.ids, _ids_used(side, ranked))[1]
            facts[side] = {
                "count": int(embeddings.ids.size),
                "dimensions": int(embeddings.vectors.shape[1]),
                "outside_the_tasks": int((~used).sum()),
            }
    return facts


def _ids_used(side: str, judgments: list[tuple[str, Judgments]]) -> IntArray:
    ids = [np.zeros(0, dtype=np.int64)]
    for direction, one in judgments:
        query_side, gallery_side = sides_of(direction)
        ids += [one.query_ids] * (query_side == side) + [one.gallery_ids] * (gallery_side == side)
    return np.unique(np.concatenate(ids))
