"""Judgments with gains: CxC ratings for nDCG, entailment labels for Entail@K; and rated pairs for correlations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.judgments.evidence import KIND, Thresholds, gather, item_ids
from cxc_eccv.judgments.merge import MergedPairs, merge, merge_evidence
from cxc_eccv.judgments.qrels import coco_links
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray, IntArray, Judgments, RatedPairs

__all__ = ["cxc_ratings", "entailed_pairs", "entailment_labels", "label_conflicts", "own_labels", "rated_pairs"]


def cxc_ratings(library: Library, split: str, direction: str) -> Judgments:
    """Every pair that CxC rated, with its rating of 0 to 5 as gain.

    An image pair that was rated in both orders has the higher of the two, as for being positive. Pairs that were not
    rated are not judged, original links among them: of captions of one image only some pairs were rated. A query
    without a rating above 0 is left out.

    Args:
        library: the raw sources.
        split: ``validation`` or ``test``.
        direction: ``i2t``, ``t2i``, ``t2t`` or ``i2i``; in the last two a query is not in its own gallery.

    Example:
        >>> qrels = cxc_ratings(Library("sample"), "test", "t2t")
        >>> qrels.without_self, 0 <= float(qrels.gains.min()), float(qrels.gains.max()) <= 5
        (True, True, True)
    """
    pairs = merge(library, split, direction, sources=("cxc",))
    return _graded(pairs, np.fmax(pairs.ratings, pairs.reverse), within=KIND[direction] != "sits")


def entailment_labels(library: Library, split: str) -> Judgments:
    """Labels of image queries: 1 for ground-truth captions and for entailed ones, 0 for those judged not to be.

    Where a file of entailment labels labels a pair, that decides, as in the multi-modal entailment paper. Of other
    pairs, entailed is what SITS rates 3 or higher or ECCV Caption verified in either direction. An image's original
    captions stay 1 in any case; :func:`label_conflicts` counts what was contradicted.

    Args:
        library: the raw sources.
        split: ``validation`` or ``test``.

    Example:
        >>> labels = entailment_labels(Library("sample"), "test")
        >>> sorted(set(labels.gains.tolist()))
        [0.0, 1.0]
    """
    pairs, truth = entailed_pairs(library, split), coco_links(library, split, "i2t")
    size = pairs.gallery_ids.size
    judged, linked = pairs.queries * size + pairs.items, truth.rows * size + truth.indices
    every = np.union1d(judged, linked)
    labels = np.isin(every, np.concatenate([judged[pairs.positive], linked]))
    return _judgments(truth.query_ids, truth.gallery_ids, *np.divmod(every, size), labels.astype(np.float64))


def label_conflicts(library: Library, split: str) -> dict[str, dict[str, int]]:
    """How often a file of entailment labels contradicts what else judges its pairs; empty without such a file.

    Args:
        library: the raw sources.
        split: ``validation`` or ``test``.

    Returns:
        ``entailment_labels`` to the number of ``pairs`` labelled, of those where CxC or ECCV Caption says otherwise
        (the label decides), and of original links labelled 0 (which stay 1).

    Example:
        >>> label_conflicts(Library("sample"), "test")["entailment_labels"]["pairs"]
        38
    """
    pairs, truth = entailed_pairs(library, split), coco_links(library, split, "i2t")
    annotated, says = own_labels(pairs)
    if not annotated.any():
        return {}
    size = pairs.gallery_ids.size
    linked = np.isin(pairs.queries * size + pairs.items, truth.rows * size + truth.indices)
    return {
        "entailment_labels": {
            "pairs": int(annotated.sum()),
            "against_cxc_or_eccv_caption": int((annotated & pairs.conflict).sum()),
            "against_original_links": int((annotated & ~says & linked).sum()),
        }
    }


def _graded(pairs: MergedPairs, gains: FloatArray, *, within: bool) -> Judgments:
    kept = np.isin(pairs.queries, pairs.queries[gains > 0])
    asked, rows = np.unique(pairs.queries[kept], return_inverse=True)
    return _judgments(pairs.query_ids[asked], pairs.gallery_ids, rows, pairs.items[kept], gains[kept], within=within)


def _judgments(
    query_ids: IntArray,
    gallery_ids: IntArray,
    rows: NDArray[np.integer],
    items: IntArray,
    gains: FloatArray,
    *,
    within: bool = False,
) -> Judgments:
    """From pairs in ascending order of row and item."""
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=query_ids.size))])
    unreachable = np.zeros_like(query_ids)
    return Judgments(query_ids, gallery_ids, indptr, items, unreachable, without_self=within, gains=gains)


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


def rated_pairs(library: Library, split: str, kind: str) -> RatedPairs:
    """All pairs rated with each query, in both orders.

    Queries are captions for STS, images for SIS and for SITS: the published standard deviations of the bootstrap
    follow 12,500 sampled queries for STS and 2,500 for the other two.

    Args:
        library: the raw sources.
        split: ``validation`` or ``test``.
        kind: ``sts``, ``sis`` or ``sits``.

    Example:
        >>> pairs = rated_pairs(Library("sample"), "test", "sts")
        >>> pairs.ratings.size == 2 * Library("sample").cxc("sts", "test").num_rows
        True
    """
    table = library.cxc(kind, split)
    left, right, ratings = (np.asarray(table[name]) for name in ("left_id", "right_id", "rating"))
    if kind == "sits":
        return RatedPairs(right, left, ratings)
    return RatedPairs(np.concatenate([left, right]), np.concatenate([right, left]), np.concatenate([ratings, ratings]))
