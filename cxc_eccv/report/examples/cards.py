"""Rows of the table of examples as cards to show: query, retrieved items, thumbnails, who calls each right."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
from PIL import Image, ImageOps

from cxc_eccv.builders.images import ImageFolder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.judgments.evidence import label_sources
from cxc_eccv.report.wording import listed

__all__ = ["Badge", "ItemCard", "QueryCard", "example_cards", "shown_files", "thumbnail", "thumbnails"]


@dataclass(frozen=True, slots=True)
class Badge:
    """What one source says of a pair.

    Attributes:
        text: for example ``CxC 4.2``.
        kind: ``yes``, ``no``, or ``hint`` for a plausible match, which is no label.
    """

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class ItemCard:
    """One retrieved item.

    Attributes:
        rank: from 1.
        item_id: of the item.
        file: of an image, else None.
        texts: the caption, or those of the image.
        score: the model's, or None.
        kind: ``linked`` (right under COCO), ``other`` (right under another label), ``rejected`` (judged, and no
            match), ``unjudged`` (no label).
        verdict: the same in words.
        badges: what each source says.
    """

    rank: int
    item_id: int
    file: str | None
    texts: tuple[str, ...]
    score: float | None
    kind: str
    verdict: str
    badges: tuple[Badge, ...]


@dataclass(frozen=True, slots=True)
class QueryCard:
    """One shown query.

    Attributes:
        direction, group: where it is shown.
        query_id, file, texts: the query.
        coco_rank: best rank under the original links, or None where they do not judge it or it is not found.
        best_rank: best rank under all labels, or None likewise.
        items: best first.
    """

    direction: str
    group: str
    query_id: int
    file: str | None
    texts: tuple[str, ...]
    coco_rank: int | None
    best_rank: int | None
    items: tuple[ItemCard, ...]


def example_cards(table: pa.Table) -> list[QueryCard]:
    """The shown queries in the order of the table.

    Args:
        table: of :data:`cxc_eccv.report.examples.table.SCHEMA`.

    Example:
        >>> from cxc_eccv.report.examples.table import no_examples
        >>> example_cards(no_examples("none"))
        []
    """
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault((row["direction"], row["group"], row["query_id"]), []).append(row)
    return [_query_card(rows) for rows in found.values()]


def shown_files(cards: list[QueryCard]) -> list[str]:
    """File names of all images among the cards, each once."""
    files = {card.file for card in cards} | {item.file for card in cards for item in card.items}
    return sorted(file for file in files if file is not None)


def _query_card(rows: list[dict[str, Any]]) -> QueryCard:
    first = rows[0]
    return QueryCard(
        first["direction"],
        first["group"],
        first["query_id"],
        first["query_file"],
        tuple(first["query_texts"]),
        first["coco_rank"],
        first["best_rank"],
        tuple(_item_card(row) for row in rows),
    )


def _item_card(row: Mapping[str, Any]) -> ItemCard:
    kind, verdict = _verdict(row)
    badges = tuple(_badges(row))
    return ItemCard(
        row["rank"], row["item_id"], row["item_file"], tuple(row["item_texts"]), row["score"], kind, verdict, badges
    )


def _verdict(row: Mapping[str, Any]) -> tuple[str, str]:
    says_yes = [source.title for name, source in label_sources().items() if row[name]]
    if row["coco"]:
        return "linked", "right under COCO"
    if row["positive"]:
        return "other", f"right under {listed(says_yes)}"
    judged_against = any(row[name] is False for name, source in label_sources().items() if not source.lists_positives)
    return ("rejected", "judged, no match") if judged_against else ("unjudged", "no label")


def _badges(row: Mapping[str, Any]) -> list[Badge]:
    badges = []
    ratings = " and ".join(f"{row[name]:.1f}" for name in ("cxc_rating", "cxc_reverse") if row[name] is not None)
    for name, source in label_sources().items():
        text = "" if row[name] is None else source.yes if row[name] else source.no
        if text:
            badges.append(Badge(text.format(ratings=ratings), "yes" if row[name] else "no"))
    if row["same_categories"]:
        badges.append(Badge("plausible match", "hint"))
    return badges


LONGEST_SIDE, QUALITY = 192, 72


def thumbnails(folder: str | Path, file_names: Collection[str]) -> dict[str, str]:
    """File name to data URI of a JPEG of at most 192 pixels; names that the folder lacks are not in it.

    Args:
        folder: with the images, at any depth.
        file_names: of the images to show.

    Raises:
        InvalidOption: no such folder, or it holds none of the images.
        MalformedSource: a file is not a complete image.

    Example:
        >>> import tempfile
        >>> Image.new("RGB", (640, 480)).save(Path(folder := tempfile.mkdtemp()) / "a.png")
        >>> thumbnails(folder, ["a.png", "b.png"])["a.png"][:23]
        'data:image/jpeg;base64,'
    """
    images, found = ImageFolder(folder), {}
    for name in sorted(set(file_names)):
        content = images.read(name)
        if content is not None:
            found[name] = thumbnail(content["bytes"])
    if file_names and not found:
        raise InvalidOption(
            f"{folder} holds none of the {len(set(file_names))} images shown, for example {min(file_names)}. "
            "Name the folder with the split's image files (val2014 for COCO)."
        )
    return found


def thumbnail(content: bytes) -> str:
    """Data URI of a small JPEG, without the metadata of the original.

    Args:
        content: a complete image of any format that Pillow reads.
    """
    with Image.open(BytesIO(content)) as image:
        small = ImageOps.exif_transpose(image).convert("RGB")
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    out = BytesIO()
    small.save(out, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
