"""The demo's image-text model: pixel features mapped to bag-of-words space by ridge regression, in closed form."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cxc_eccv.demo.bag_of_words import words
from cxc_eccv.types import FloatArray

SIDE = 8
"""Images are averaged down to SIDE x SIDE pixels."""

PIXEL_WEIGHT = 0.1
"""Weight of positions against colours, which say more about so few images."""


def pixel_features(images: Sequence[Image.Image]) -> FloatArray:
    """(N, 3 SIDE^2 + 512) averaged pixels and colour histogram (8 bins per channel) of N images of any size."""
    return np.stack([_one_image(image.convert("RGB")) for image in images])


def _one_image(image: Image.Image) -> FloatArray:
    small = np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BOX), dtype=np.float64)
    bins = (np.asarray(image) // 32).reshape(-1, 3).astype(np.int64) @ np.array([64, 8, 1])
    histogram = np.bincount(bins, minlength=512) / bins.size
    return np.concatenate([PIXEL_WEIGHT * (small.ravel() / 255 - 0.5), np.sqrt(histogram)])


def bag_of_words(texts: Sequence[str], vocabulary: dict[str, int]) -> FloatArray:
    """(N, V) counts of words and of neighbouring word pairs, rows scaled to length 1.

    Example:
        >>> bag_of_words(["red circle"], {"red": 0, "circle": 1, "red circle": 2}).round(2).tolist()
        [[0.58, 0.58, 0.58]]
    """
    counts = np.zeros((len(texts), len(vocabulary)))
    for row, text in enumerate(texts):
        for term in _terms(text):
            if term in vocabulary:
                counts[row, vocabulary[term]] += 1
    return np.asarray(counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-12))


def _terms(text: str) -> list[str]:
    single = words(text)
    return single + [f"{a} {b}" for a, b in itertools.pairwise(single)]


@dataclass(frozen=True, slots=True, eq=False)
class RidgeModel:
    """Embeds captions by their words, and images by a linear (F, V) map, ``(X^T X + penalty I)^-1 X^T Y``."""

    vocabulary: dict[str, int]
    centre: FloatArray
    image_centre: FloatArray
    weights: FloatArray

    @classmethod
    def fit(
        cls, images: Sequence[Image.Image], captions: Sequence[Sequence[str]], *, penalty: float = 0.1
    ) -> RidgeModel:
        """Fit the map from an image's pixels to the mean vector of its captions, with a penalty on its squared norm."""
        terms = sorted({term for texts in captions for text in texts for term in _terms(text)})
        vocabulary = {term: column for column, term in enumerate(terms)}
        targets = np.stack([bag_of_words(texts, vocabulary).mean(axis=0) for texts in captions])
        features = pixel_features(images)
        image_centre, centre = features.mean(axis=0), targets.mean(axis=0)
        inputs = features - image_centre
        # The dual form solves an (N, N) system: there are fewer images than features.
        kernel = inputs @ inputs.T + penalty * np.eye(len(images))
        return cls(vocabulary, centre, image_centre, inputs.T @ np.linalg.solve(kernel, targets - centre))

    def encode_images(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        """(N, V) image embeddings."""
        return ((pixel_features(images) - self.image_centre) @ self.weights).astype(np.float32)

    def encode_captions(self, captions: Sequence[str]) -> NDArray[np.float32]:
        """(N, V) caption embeddings."""
        return (bag_of_words(captions, self.vocabulary) - self.centre).astype(np.float32)
