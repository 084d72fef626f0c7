"""The sample's ``dataset_coco.json``: images with captions and splits in the layout of Karpathy's file."""

from __future__ import annotations

import json
import string
from typing import Any

from sample.collection import Picture

__all__ = ["compact", "karpathy_json"]

NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def compact(value: object) -> bytes:
    """JSON without blanks, as the real files are."""
    return json.dumps(value, separators=(",", ":")).encode()


def karpathy_json(pictures: list[Picture]) -> bytes:
    """One file with all splits."""
    images = [_image(number, picture) for number, picture in enumerate(pictures)]
    return compact({"dataset": "coco", "images": images})


def _image(number: int, picture: Picture) -> dict[str, Any]:
    sentences = [
        {
            "raw": caption.statement.text,
            "tokens": caption.statement.text.lower().translate(NO_PUNCTUATION).split(),
            "imgid": number,
            "sentid": caption.caption_id,
        }
        for caption in picture.captions
    ]
    return {
        "filepath": picture.folder,
        "filename": picture.file_name,
        "cocoid": picture.image_id,
        "imgid": number,
        "split": picture.split,
        "sentids": [caption.caption_id for caption in picture.captions],
        "sentences": sentences,
    }
