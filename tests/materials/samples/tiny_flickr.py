"""Three Flickr30k images with five captions each, as raw files, and labels where a test gives some."""

import json
from pathlib import Path

import numpy as np

from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings

IMAGES = (1007129816, 1009434119, 101362133)


def flickr_library(folder: Path, labels=(), images=IMAGES, split="test") -> Library:
    """Captions 5 p to 5 p + 4 are those of the image at place p; labels are (image, caption, label) each."""
    content = [
        {
            "filename": f"{image}.jpg",
            "split": split,
            "sentences": [{"raw": f"a thing {number}", "sentid": number} for number in range(5 * place, 5 * place + 5)],
        }
        for place, image in enumerate(images)
    ]
    (folder / "flickr").mkdir(parents=True)
    (folder / "flickr/dataset_flickr30k.json").write_text(json.dumps({"images": content}))
    if labels:
        (folder / "entailment").mkdir()
        rows = [{"image": f"{i}.jpg", "hypothesis": f"a thing {c}", "label": label} for i, c, label in labels]
        (folder / "entailment/entailment_f30k_test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return Library(folder, offline=True)


def run_in_order(lists) -> EmbeddingsRun:
    """A run whose images, in the order of ``IMAGES``, rank the captions that are listed first, and then the others."""
    scores = np.zeros((len(lists), 15))
    for row, captions in enumerate(lists):
        scores[row] = -100 - np.arange(15)
        scores[row, list(captions)] = 100 - np.arange(len(captions))
    # With the identity as captions, an image's vector is its row of scores.
    return EmbeddingsRun(
        Embeddings(IMAGES[: len(lists)], scores), Embeddings(np.arange(15), np.eye(15)), similarity="dot"
    )
