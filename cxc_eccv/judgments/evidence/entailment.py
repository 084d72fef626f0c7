"""Entailment labels: a user's file of (image, caption) pairs that are entailed or not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.judgments.evidence.source import Evidence, Source, Thresholds
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import EntailmentPairs, KarpathySplit
from cxc_eccv.types import IntArray


def evidence(library: Library, split: str, direction: str, _thresholds: Thresholds) -> Evidence | None:
    """The labels of the user's file, or None without a file."""
    if direction not in ("i2t", "t2i"):
        return None
    pairs = library.entailment(split)
    if pairs is None:
        return None
    images, captions, labels, left_out = labels_of_file(library.karpathy(split), pairs)
    queries, items = (images, captions) if direction == "i2t" else (captions, images)
    return Evidence.of(queries, items, labels, left_out=left_out)


def labels_of_file(
    content: KarpathySplit, pairs: EntailmentPairs | None
) -> tuple[IntArray, IntArray, NDArray[np.bool_], dict[str, int]]:
    """Image ids, caption ids and labels of the labelled pairs in a split, and the number of pairs left out by rule."""
    if pairs is None:
        none = np.empty(0, dtype=np.int64)
        return none, none, none.astype(bool), {}
    rows, left_out = match_hypotheses(content, pairs)
    images, captions = np.array(list(rows), dtype=np.int64).reshape(-1, 2).T
    return images, captions, np.asarray(pairs.table["label"])[list(rows.values())] == 1, left_out


UNKNOWN = "entailment pairs whose image or hypothesis is not in the split"
REPEATED = "entailment labels of an (image, caption) pair that an earlier row labelled"


def match_hypotheses(
    content: KarpathySplit, pairs: EntailmentPairs
) -> tuple[dict[tuple[int, int], int], dict[str, int]]:
    """Pair of image and caption ids to the row that labels it, and the number of labels left out by rule."""
    image_ids = content.image_ids.tolist()
    by_name = dict(zip(content.images["file_name"].to_pylist(), image_ids, strict=True))
    by_text: dict[str, list[int]] = {}
    for caption_id, text in zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True):
        by_text.setdefault(text.strip(), []).append(caption_id)
    images, captions = set(image_ids), set(content.caption_ids.tolist())
    left_out = Counter(pairs.left_out)
    rows: dict[tuple[int, int], int] = {}
    for row, pair in enumerate(pairs.table.to_pylist()):
        image = by_name.get(Path(pair["image"]).name, -1) if pair["image_id"] is None else pair["image_id"]
        hypothesis = pair["caption_id"]
        named = by_text.get(pair["hypothesis"].strip(), []) if hypothesis is None else [hypothesis]
        matches = [caption for caption in named if caption in captions and image in images]
        left_out[UNKNOWN] += not matches
        for caption in matches:
            left_out[REPEATED] += rows.setdefault((image, caption), row) != row
    return rows, {rule: number for rule, number in left_out.items() if number}


SOURCE = Source(
    name="entailment",
    title="entailment",
    order=40,
    rule=lambda _direction, _thresholds: "label 1",
    evidence=evidence,
    groups=("entailment",),
    yes="entailed",
    no="not entailed",
)
