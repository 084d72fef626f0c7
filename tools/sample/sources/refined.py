"""The sample's MSCOCO-FG files: refined captions of the test images, and a pool of more images than these."""

from __future__ import annotations

import io

import numpy as np

from sample.captions import phrase
from sample.collection import Caption, Picture, of_split
from sample.sources.karpathy import NO_PUNCTUATION, compact

__all__ = ["refined_files"]


def refined_files(pictures: list[Picture]) -> dict[str, bytes]:
    """File name to content: captions by image in an order of their own, and the names of the pool, the test first."""
    test = of_split(pictures, "test")
    captions = {
        picture.file_name.removesuffix(".jpg"): [_refined(picture, caption) for caption in picture.counted]
        for picture in sorted(test, key=lambda picture: picture.image_id)
    }
    names = [picture.file_name for picture in test]
    names += [f"{picture.image_id:012d}.jpg" for picture in of_split(pictures, "restval")]
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array(names, dtype="<U29"), version=(1, 0))
    return {"MSCOCO_FG_ann.json": compact(captions), "MSCOCO_FG_img_filenames.npy": buffer.getvalue()}


def _refined(picture: Picture, caption: Caption) -> str:
    """Without capitals and punctuation; a caption that leaves something out ends with what its image shows."""
    words = " ".join(caption.statement.text.lower().translate(NO_PUNCTUATION).split())
    vague = any(None in (item.kind, item.colour) for item in caption.statement.items)
    return f"{words} with {' and '.join(phrase(item) for item in picture.scene.items)}" if vague else words
