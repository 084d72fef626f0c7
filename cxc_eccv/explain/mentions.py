"""Concepts that a sentence mentions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["find_mentions"]


def find_mentions(texts: Iterable[str], vocabulary: Collection[str]) -> list[set[str]]:
    """Concepts of the vocabulary that each sentence mentions.

    Args:
        texts: N sentences.
        vocabulary: WordNet synsets, such as ``dog.n.01``.

    Returns:
        N sets of synsets of the vocabulary.
    """
    raise NotImplementedError
