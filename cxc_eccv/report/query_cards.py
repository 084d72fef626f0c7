"""Example queries of a report as cards: the rows of its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cxc_eccv.judgments.evidence.source import Source, label_file_source, official_sources
from cxc_eccv.report.example_table import LABELS_COLUMN, REASON
from cxc_eccv.wording import list_names


def _sources_of(row: Mapping[str, Any]) -> dict[str, Source]:
    """The source of labels of each column of verdicts."""
    files = [name for name in row if name.startswith(LABELS_COLUMN)]
    return {**official_sources(), **{name: label_file_source(name.removeprefix(LABELS_COLUMN)) for name in files}}


def reason_of(table: pa.Table) -> str:
    """Why a table of examples is empty; an empty text if it has rows."""
    if table.num_rows:
        return ""
    return ((table.schema.metadata or {}).get(REASON) or b"none were kept").decode()


@dataclass(frozen=True, slots=True)
class Badge:
    """The verdict of one source on a pair, as ``CxC 4.2``; its kind is ``yes``, ``no`` or ``hint`` (not a label)."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class ItemCard:
    """One retrieved item, of the kind ``linked`` (right under COCO), ``other``, ``rejected`` or ``unjudged``."""

    rank: int
    file: str | None
    texts: Sequence[str]
    score: float | None
    kind: str
    verdict: str
    badges: Sequence[Badge]


@dataclass(frozen=True, slots=True)
class QueryCard:
    """One query; a best rank is None if the labels do not judge the query or its ranking holds no positive."""

    direction: str
    group: str
    query_id: int
    file: str | None
    texts: Sequence[str]
    coco_rank: int | None
    best_rank: int | None
    items: Sequence[ItemCard]


def example_cards(table: pa.Table) -> list[QueryCard]:
    """The queries of a table with the columns of ``SCHEMA``, in its order."""
    of_query: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        of_query.setdefault((row["direction"], row["group"], row["query_id"]), []).append(row)
    return [
        QueryCard(
            direction,
            group,
            query_id,
            file=rows[0]["query_file"],
            texts=rows[0]["query_texts"],
            coco_rank=rows[0]["coco_rank"],
            best_rank=rows[0]["best_rank"],
            items=[
                ItemCard(row["rank"], row["item_file"], row["item_texts"], row["score"], *_verdict(row), _badges(row))
                for row in rows
            ],
        )
        for (direction, group, query_id), rows in of_query.items()
    ]


def find_shown_files(cards: Sequence[QueryCard]) -> list[str]:
    """The distinct file names of all images on the cards."""
    files = {card.file for card in cards} | {item.file for card in cards for item in card.items}
    return sorted(file for file in files if file is not None)


def _verdict(row: Mapping[str, Any]) -> tuple[str, str]:
    sources = _sources_of(row)
    says_yes = [source.title for name, source in sources.items() if row[name]]
    if row["coco"]:
        return "linked", "right under COCO"
    if row["positive"]:
        return "other", f"right under {list_names(says_yes)}"
    both = [name for name, source in sources.items() if not source.lists_positives]
    judged_against = any(row[name] is False for name in both)
    return ("rejected", "judged, no match") if judged_against else ("unjudged", "no label")


def _badges(row: Mapping[str, Any]) -> list[Badge]:
    badges = []
    ratings = " and ".join(f"{row[name]:.1f}" for name in ("cxc_rating", "cxc_reverse") if row[name] is not None)
    for name, source in _sources_of(row).items():
        text = "" if row[name] is None else source.yes if row[name] else source.no
        if text:
            badges.append(Badge(text.format(ratings=ratings), "yes" if row[name] else "no"))
    if row["same_categories"]:
        badges.append(Badge("plausible match", "hint"))
    return badges
