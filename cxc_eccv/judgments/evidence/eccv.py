"""ECCV Caption: positives that models proposed and people verified, with separate queries per direction."""

from __future__ import annotations

import numpy as np

from cxc_eccv.judgments.evidence.source import Evidence, Source, Thresholds, item_ids
from cxc_eccv.sources.library import Library
from cxc_eccv.types import positions_of


def evidence(library: Library, split: str, direction: str, _thresholds: Thresholds) -> Evidence | None:
    """The verified positives of the direction whose items are in the split."""
    if split != "test" or direction not in ("i2t", "t2i"):
        return None
    table = library.eccv("eccv", direction)
    queries, items = np.asarray(table["query_id"]), np.asarray(table["item_id"])
    reachable = positions_of(items, item_ids(library, "test", direction)[1])[1]
    left_out = {}
    if not reachable.all():
        left_out["ECCV Caption positives outside the split's captions"] = int((~reachable).sum())
    return Evidence.of(queries[reachable], items[reachable], left_out=left_out)


SOURCE = Source(
    name="eccv",
    title="ECCV",
    order=30,
    rule=lambda _direction, _thresholds: "verified positive",
    evidence=evidence,
    groups=("eccv_caption",),
    lists_positives=True,
    yes="ECCV positive",
)
