"""The leakage guard: which pairs hold an image, a caption or the words of one that models are evaluated on.

An image or a caption that has an id is what its id says, whatever words two captions share. What has none (a sentence
of STS-B, a hypothesis of SNLI-VE) is a caption of a split where its words are: in small letters, letters and digits
alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.entailment.training_data.corpus import SPLITS, Pairs, keys
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit

__all__ = ["EVALUATED", "EvaluationSplit", "drop_members", "evaluation_split", "find_members", "plain_texts"]

EVALUATED = ("coco", "flickr30k", "flickr8k")
"""Collections with splits that models are evaluated on. Flickr8k and Flickr30k share photographs and their numbers."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSplit:
    """What a pair of training data is looked up in: the keys of images and captions, and the words of the captions."""

    name: str
    image_keys: pa.Array
    caption_keys: pa.Array
    texts: pa.Array


def evaluation_split(library: Library, collection: str, part: str) -> EvaluationSplit | None:
    """A split of a collection as its images and captions; None where its files are not at hand.

    Those of COCO are fetched; its test split there must be.
    """
    content = _content(library, collection, part)
    if content is None:
        return None
    name = f"{collection}/{part}"
    photos = "coco" if collection == "coco" else "flickr30k"
    texts = pc.unique(plain_texts(content.captions["text"].combine_chunks()))
    return library.once(
        ("evaluation split", name),
        lambda: EvaluationSplit(
            name,
            pa.array(keys(photos, content.image_ids)),
            pa.array(keys(collection, np.concatenate([content.caption_ids, content.cut_caption_ids]))),
            texts.filter(pc.not_equal(texts, "")),
        ),
    )


def _content(library: Library, collection: str, part: str) -> KarpathySplit | None:
    split = SPLITS[part]
    if collection == "coco":
        return library.karpathy(split) if part == "test" or split in library.splits else None
    if collection == "flickr8k":
        return library.flickr8k_split(split) if library.has_flickr8k else None
    return library.flickr30k(split) if library.has_flickr30k and split in library.flickr30k_splits else None


def plain_texts(texts: pa.Array) -> pa.Array:
    """Letters and digits in small letters: what two spellings of the same words have in common.

    Example:
        >>> plain_texts(pa.array(["A dog, running.", "a dog running"])).to_pylist()
        ['adogrunning', 'adogrunning']
    """
    return pc.replace_substring_regex(pc.utf8_lower(texts), pattern=r"[^\p{L}\p{N}]+", replacement="")


class _Sentences:
    """The words of the pairs that no id names: hypotheses without a key, premises without an image."""

    def __init__(self, table: pa.Table) -> None:
        premises = table["premises"].combine_chunks()
        self.premises, self.owners = plain_texts(premises.flatten()), np.asarray(pc.list_parent_indices(premises))
        self.hypotheses = plain_texts(table["hypothesis"].combine_chunks())
        self.premise_unnamed = np.asarray(pc.is_null(table["image_key"]))
        self.hypothesis_unnamed = np.asarray(pc.is_null(table["caption_key"]))

    def found_in(self, texts: pa.Array) -> Mask:
        """(N,) whether an unnamed sentence of the pair is among these texts."""
        found = self.hypothesis_unnamed & _is_in(self.hypotheses, texts)
        inside = self.owners[_is_in(self.premises, texts)]
        found[inside] |= self.premise_unnamed[inside]
        return found


def find_members(table: pa.Table, splits: list[EvaluationSplit]) -> Iterator[tuple[str, str, Mask]]:
    """Why (``image``, ``caption``, ``text``), the split, and (N,) the pairs that this is true of.

    Args:
        table: of :class:`Pairs`.
        splits: to look the pairs up in.
    """
    sentences = _Sentences(table)
    for split in splits:
        yield "image", split.name, _is_in(table["image_key"], split.image_keys)
        yield "caption", split.name, _is_in(table["caption_key"], split.caption_keys)
        yield "text", split.name, sentences.found_in(split.texts)


def _is_in(values: pa.Array | pa.ChunkedArray, known: pa.Array) -> Mask:
    return np.array(pc.is_in(values, value_set=known), dtype=bool)


WORDS = {"image": "image in {}", "caption": "caption in {}", "text": "words of a caption in {}"}


def drop_members(pairs: Pairs, protected: list[EvaluationSplit]) -> tuple[pa.Table, Mapping[str, int]]:
    """The pairs that are in no protected split; and reason to the number of the others, each counted once."""
    left_out: dict[str, int] = {}
    inside = np.zeros(pairs.table.num_rows, dtype=bool)
    for why, name, members in find_members(pairs.table, protected):
        new = members & ~inside
        inside |= members
        if new.any():
            left_out[WORDS[why].format(name)] = int(new.sum())
    return pairs.table.filter(pa.array(~inside)), left_out
