"""MSCOCO-FG (arXiv 2304.10824): refined captions of the Karpathy test images, and an enlarged pool of images."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.readers.karpathy import CAPTIONS_PER_IMAGE
from cxc_eccv.sources.reading import read_array, read_json, require_distinct, shown, text

STEM = re.compile("COCO_val2014_([0-9]{12})")
FILE_NAME = re.compile(r"(?:COCO_(val2014)_)?([0-9]{12})\.jpg")


def read_refined_captions(path: Path) -> pa.Table:
    """``image_id``, ``text`` of ``{"COCO_val2014_000000391895": [five captions]}``, in the order of the file."""
    data = read_json(path)
    if not isinstance(data, dict) or not data:
        raise MalformedSource(path, "", shown(data), "an object {file name without its ending: [captions]}")
    ids, texts = [], []
    for key, captions in data.items():
        place, named = f"key {shown(key)}", STEM.fullmatch(key)
        if named is None:
            raise MalformedSource(path, place, "this key", "a name such as 'COCO_val2014_000000391895'")
        if not isinstance(captions, list) or len(captions) != CAPTIONS_PER_IMAGE:
            raise MalformedSource(path, place, shown(captions), f"a list of {CAPTIONS_PER_IMAGE} captions")
        ids += [int(named[1])] * CAPTIONS_PER_IMAGE
        texts += [text(path, place, caption) for caption in captions]
        if not all(caption.strip() for caption in texts[-CAPTIONS_PER_IMAGE:]):
            raise MalformedSource(path, place, "an empty caption", "sentences")
    return pa.table({"image_id": pa.array(ids, pa.int64()), "text": pa.array(texts, pa.string())})


def read_image_pool(path: Path) -> pa.Table:
    """``image_id``, ``file_name``, ``folder`` of an ``.npy`` file of file names, in its order."""
    names = read_array(path, "file names")
    if names.ndim != 1 or names.dtype.kind != "U" or not names.size:
        raise MalformedSource(path, "", f"{names.dtype} of shape {names.shape}", "texts of shape (N,), N > 0")
    matches = []
    for place, name in enumerate(names.tolist()):
        match = FILE_NAME.fullmatch(name)
        if match is None:
            raise MalformedSource(path, f"position {place}", shown(name), "a file name of COCO")
        matches.append(match)
    ids = np.array([int(match[2]) for match in matches], dtype=np.int64)
    require_distinct(path, ids, "position {}", "image")
    folders = [match[1] or "unlabeled2017" for match in matches]
    return pa.table({"image_id": ids, "file_name": names.tolist(), "folder": folders})
