"""Weak positives: unjudged pairs that a classifier labelled as entailed, from a file that the caller names."""

from __future__ import annotations

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.judgments.evidence.source import (
    Evidence,
    Source,
    Thresholds,
    gather,
    item_ids,
    merged_official,
    number_pairs,
)
from cxc_eccv.sources.library import Split
from cxc_eccv.types import CROSS_MODAL
from cxc_eccv.types.judgments import orient

JUDGED_MINED_PAIRS = "mined pairs that an official source judges"


def evidence(split: Split, direction: str, thresholds: Thresholds) -> Evidence | None:
    """The mined pairs that neither an official source nor a label file judges."""
    others = [
        f"{pairs.collection} {pairs.split}"
        for _, pairs in split.library.mined_files.values()
        if pairs.collection != split.collection.name
    ]
    if others:
        raise InvalidOption(
            f"the weak positives are of {', '.join(others)}, but datasets are of COCO only. Leave the file out here; "
            "cxc-eccv train dual-encoder --weak-positives accepts it"
        )
    pairs = split.mined() if direction in CROSS_MODAL else None
    if pairs is None:
        return None
    images, captions = (np.asarray(pairs.table[name]) for name in ("image_id", "caption_id"))
    queries, items = orient(images, captions, direction)
    people = merged_official(split.library)
    by_people = [gather(split, direction, name, thresholds) for name in people]
    ids = item_ids(split, direction)
    known = [number_pairs(judged.queries, judged.items, *ids) for judged in by_people if judged is not None]
    judged = np.isin(number_pairs(queries, items, *ids), np.concatenate(known))
    left_out = {JUDGED_MINED_PAIRS: int(judged.sum())} if judged.any() else {}
    return Evidence.of(queries[~judged], items[~judged], left_out=left_out)


SOURCE = Source(
    name="mined",
    title="mined",
    description="Matches that a classifier found, for the queries of a file of cxc-eccv mine.",
    order=50,
    rule=lambda _direction, _thresholds: "a classifier says entailed",
    evidence=evidence,
    groups=(),
    lists_positives=True,
    yes="mined",
    official=False,
)
