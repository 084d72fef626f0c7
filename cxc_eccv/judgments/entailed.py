"""Which captions an image (with its own captions) entails: given labels, and labels derived from other judgments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.judgments.evidence import Thresholds, gather, item_ids
from cxc_eccv.judgments.merge import MergedPairs, merge_evidence
from cxc_eccv.sources.library import Library

__all__ = ["entailed_pairs", "own_labels"]


def entailed_pairs(
    library: Library, split: str, *, policy: str = "union", thresholds: Thresholds | None = None
) -> MergedPairs:
    """(image, caption) pairs with an entailment label: CxC SITS binarised, ECCV positives of both directions, labels.

    As in the multi-modal entailment paper: an annotation of the pair itself decides, whatever the other sources say
    (``conflict`` marks where they differ); graded sets are binarised at 3. Original COCO links are no evidence here.

    Args:
        library: the raw sources.
        split: ``validation`` or ``test``.
        policy: for pairs without an annotation, as in :func:`cxc_eccv.judgments.merge.merge`.
        thresholds: lowest CxC ratings that count as positive; the paper's by default.
    """
    limits = thresholds or Thresholds()
    found = [gather(library, split, "i2t", source, limits) for source in ("cxc", "eccv", "entailment")]
    by_caption = gather(library, split, "t2i", "eccv", limits)
    if by_caption is not None:
        found.insert(2, replace(by_caption, queries=by_caption.items, items=by_caption.queries))
    judged = [evidence for evidence in found if evidence is not None]
    pairs = merge_evidence(judged, *item_ids(library, split, "i2t"), "i2t", policy, limits)
    annotated, says = own_labels(pairs)
    return replace(pairs, positive=np.where(annotated, says, pairs.positive))


def own_labels(pairs: MergedPairs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(P,) bool twice: whether a file of entailment labels labels the pair, and whether it says entailed."""
    if "entailment" not in pairs.sources:
        return np.zeros_like(pairs.positive), np.zeros_like(pairs.positive)
    column = pairs.sources.index("entailment")
    return pairs.judged[:, column], pairs.said_positive[:, column]
