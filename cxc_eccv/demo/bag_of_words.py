"""TF-IDF bag of words: captions to sparse unit vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cxc_eccv.errors import InvalidOption
from cxc_eccv.types import FloatArray

WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")


def words(text: str) -> list[str]:
    """Lower-case words and numbers of a caption.

    Example:
        >>> words("A man's red helmet. ")
        ['a', "man's", 'red', 'helmet']
    """
    return WORD.findall(text.lower())


@dataclass(frozen=True, slots=True, eq=False)
class TfIdf:
    """Term frequency times smoothed inverse document frequency (V,), ``ln((1 + N) / (1 + df)) + 1``."""

    vocabulary: dict[str, int]
    idf: FloatArray

    @classmethod
    def fit(cls, texts: Sequence[str]) -> TfIdf:
        """Learn vocabulary and weights; ``encode`` ignores words that are not in these texts."""
        if not texts:
            raise InvalidOption("TfIdf.fit needs at least one text")
        documents = [set(words(text)) for text in texts]
        vocabulary = {word: column for column, word in enumerate(sorted(set().union(*documents)))}
        frequency = np.zeros(len(vocabulary))
        for document in documents:
            frequency[[vocabulary[word] for word in document]] += 1
        return cls(vocabulary, np.log((1 + len(texts)) / (1 + frequency)) + 1)

    def encode(self, texts: Sequence[str]) -> csr_array:
        """(N, V) float32 unit rows; a text with only unknown words becomes a zero row."""
        columns = [[self.vocabulary[word] for word in words(text) if word in self.vocabulary] for text in texts]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
        indices = np.array([column for row in columns for column in row], dtype=np.int64)
        counts = csr_array((self.idf[indices], indices, indptr), shape=(len(texts), len(self.vocabulary)))
        counts.sum_duplicates()
        norms = np.sqrt(counts.multiply(counts).sum(axis=1))
        norms[norms == 0] = 1
        counts.data /= np.repeat(norms, np.diff(counts.indptr))
        return counts.astype(np.float32)

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit rows; D counts only words of these texts, so the columns of two calls differ."""
        vectors = self.encode(texts)
        return np.asarray(vectors[:, np.unique(vectors.indices)].toarray())
