"""Which captions an image (with its own captions) entails: given labels, and labels derived from other judgments."""

from __future__ import annotations

from dataclasses import replace

from cxc_eccv.judgments.evidence import Thresholds, gather, item_ids
from cxc_eccv.judgments.merge import MergedPairs, merge_evidence
from cxc_eccv.sources.library import Library

__all__ = ["entailed_pairs"]


def entailed_pairs(
    library: Library, split: str, *, policy: str = "union", thresholds: Thresholds | None = None
) -> MergedPairs:
    """(image, caption) pairs with an entailment label: CxC SITS binarised, ECCV positives of both directions, labels.

    As in the multi-modal entailment paper (graded sets binarised at 3); original COCO links are no evidence here.

    Args:
        library: the raw sources.
        split: ``validation`` or ``test``.
        policy: as in :func:`cxc_eccv.judgments.merge.merge`.
        thresholds: lowest CxC ratings that count as positive; the paper's by default.
    """
    limits = thresholds or Thresholds()
    found = [gather(library, split, "i2t", source, limits) for source in ("cxc", "eccv", "entailment")]
    by_caption = gather(library, split, "t2i", "eccv", limits)
    if by_caption is not None:
        found.insert(2, replace(by_caption, queries=by_caption.items, items=by_caption.queries))
    judged = [evidence for evidence in found if evidence is not None]
    return merge_evidence(judged, *item_ids(library, split, "i2t"), "i2t", policy, limits)
