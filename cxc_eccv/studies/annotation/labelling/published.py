"""Labels as they are published: with each person's answer, anonymised, and who proposed the pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.studies.asking.answers import identify_worker
from cxc_eccv.studies.asking.questions import CANDIDATE
from cxc_eccv.studies.asking.settling import keep_last

SAID = pa.list_(pa.struct([("person", pa.string()), ("answer", pa.string()), ("gain", pa.float64())]))
"""Of a label: what each person who counts answered, as JSON, and what that is worth."""


def join_answers(
    labels: pa.Table, accepted: pa.Table, stored: Sequence[Mapping[str, Any]], candidates: pa.Table
) -> pa.Table:
    """The labels with ``said`` and ``proposals``; people are p1, p2 ... in the order in which their answers came."""
    names: dict[str, str] = {}
    for row in sorted(stored, key=lambda row: (row["import"], row["sheet"], row["pair_id"], row["worker"])):
        names.setdefault(identify_worker(row["worker"]), f"p{len(names) + 1}")
    said: defaultdict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in keep_last(accepted.filter(pc.field("role") == CANDIDATE)).to_pylist():
        told = {"person": names[row["worker"]], "answer": row["answer"], "gain": row["gain"]}
        said[row["image_id"], row["caption_id"]].append(told)
    proposals: defaultdict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for row in candidates.to_pylist():
        proposals[row["image_id"], row["caption_id"]] += row["proposals"]
    pairs = list(zip(labels["image_id"].to_pylist(), labels["caption_id"].to_pylist(), strict=True))
    every = [sorted(said[pair], key=lambda own: int(own["person"][1:])) for pair in pairs]
    labels = labels.append_column(pa.field("said", SAID, nullable=False), pa.array(every, SAID))
    kind = candidates.schema.field("proposals").type
    return labels.append_column(
        pa.field("proposals", kind, nullable=False), pa.array([proposals[pair] for pair in pairs], kind)
    )
