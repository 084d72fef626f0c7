"""RoCOCO: a list of images, each with its five captions and what was made of each by altering a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.readers.karpathy import CAPTIONS_PER_IMAGE, KarpathySplit
from cxc_eccv.sources.reading import read_json, require_keys, shown, text


def read_rococo(path: Path, content: KarpathySplit) -> pa.Table:
    """``caption_id``, ``image_id``, ``original``, ``altered``: a row for every caption of a split, in its order."""
    images, captions = content.images, content.captions
    entries = read_json(path)
    if not isinstance(entries, list) or len(entries) != images.num_rows:
        found = f"{len(entries):,} entries" if isinstance(entries, list) else shown(entries)
        raise MalformedSource(
            path, "", found, f"a list of {images.num_rows:,} entries, one for each image of the split"
        )
    texts, altered, at = captions["text"].to_pylist(), list[str](), 0
    for number, (entry, name) in enumerate(zip(entries, images["file_name"].to_pylist(), strict=True)):
        place = f"[{number}]"
        require_keys(path, place, entry, ("image", "caption"))
        if Path(text(path, f"{place}.image", entry["image"])).name != name:
            expected = f"{name}, as in the order of the split"
            raise MalformedSource(path, f"{place}.image", shown(entry["image"]), expected)
        for original, made in _pairs(path, place, entry["caption"]):
            if original != texts[at]:
                expected = f"{shown(texts[at])}, the caption {captions['caption_id'][at].as_py()}"
                raise MalformedSource(path, f"{place}.caption", shown(original), expected)
            altered.append(made)
            at += 1
    ids = captions.select(["caption_id", "image_id"])
    return ids.append_column("original", captions["text"]).append_column("altered", pa.array(altered, pa.string()))


def _pairs(path: Path, place: str, given: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - JSON holds anything
    """The captions of an image, each with what was made of it."""
    expected = f"{2 * CAPTIONS_PER_IMAGE} captions, or one more between the originals and the altered ones"
    if not isinstance(given, list) or len(given) not in (2 * CAPTIONS_PER_IMAGE, 2 * CAPTIONS_PER_IMAGE + 1):
        found = f"{len(given)} captions" if isinstance(given, list) else shown(given)
        raise MalformedSource(path, f"{place}.caption", found, expected)
    texts = [text(path, f"{place}.caption[{number}]", caption) for number, caption in enumerate(given)]
    blank = [number for number, caption in enumerate(texts) if not caption.strip()]
    if blank:
        raise MalformedSource(path, f"{place}.caption[{blank[0]}]", "nothing but blanks", "a caption")
    return list(zip(texts[:CAPTIONS_PER_IMAGE], texts[-CAPTIONS_PER_IMAGE:], strict=True))
