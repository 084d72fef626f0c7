"""Makes the embeddings of the conformance kit, with NumPy alone: ``python embeddings.py kit.npz``."""

import sys
from typing import Any

import numpy as np


def make_kit(n_images: int = 5_000, width: int = 64) -> dict[str, Any]:
    """Vectors of images and of five captions each, and the topics of images; every score is exact, and many tie.

    Caption c was written for image c // 5. Entries are 1 or -1, so that dot products are whole numbers, all norms are
    sqrt(width) = 8, and cosines are exact too. Every 50th image shares its last caption with the next image.
    """
    random = np.random.RandomState(0)  # its stream is the same in every version of NumPy
    topics = random.randint(n_images // 3, size=n_images)
    signs = 2.0 * random.randint(2, size=(n_images // 3, width)) - 1
    images = signs[topics] * np.where(random.random_sample((n_images, width)) < 0.15, -1, 1)
    captions = images.repeat(5, axis=0) * np.where(random.random_sample((5 * n_images, width)) < 0.24, -1, 1)
    copied = np.arange(0, n_images - 1, 50)
    captions[5 * copied + 4] = captions[5 * copied + 9]
    return {"images": images.astype("float32"), "captions": captions.astype("float32"), "topics": topics}


if __name__ == "__main__":
    np.savez(sys.argv[1], **make_kit(*map(int, sys.argv[2:])))
