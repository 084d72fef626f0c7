"""A part as libraries of information retrieval take it: dictionaries of names, the top of every ranking."""

from __future__ import annotations

from cxc_eccv.integrations.conformance.kit import Part
from cxc_eccv.types import IntArray


def names_of(ids: IntArray) -> list[str]:
    """Names whose alphabetical order is that of the positions."""
    return [f"{position:05d}" for position in ids.tolist()]


def run_of(part: Part) -> dict[str, dict[str, float]]:
    """Query to item to score, of the best items."""
    items = names_of(part.judgments.gallery_ids)
    return {
        query: {items[position]: float(scores[position]) for position in top}
        for query, scores, top in zip(names_of(part.judgments.query_ids), part.scores, part.top_items, strict=True)
    }


def qrels_of(part: Part) -> dict[str, dict[str, int]]:
    """Query to positive to 1."""
    items = names_of(part.judgments.gallery_ids)
    return {
        query: dict.fromkeys((items[position] for position in positives), 1)
        for query, positives in zip(names_of(part.judgments.query_ids), part.positives, strict=True)
    }
