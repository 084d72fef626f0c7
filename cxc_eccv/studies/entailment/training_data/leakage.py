"""The leakage guard: which pairs hold an image, a caption or the words of one that models are evaluated on.

An image or a caption that has an id is what its id says, whatever words two captions share. What has none (a sentence
of STS-B, a hypothesis of SNLI-VE) is a caption of a split where its words are: in small letters, letters and digits
alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.studies.entailment.training_data.corpus import SPLITS, Pairs, keys
from cxc_eccv.tasks.task import COLLECTIONS

PHOTOGRAPHS = {"coco": "coco", "flickr30k": "flickr30k", "flickr8k": "flickr30k"}
"""Collection with splits that models are evaluated on, to the one that numbers its images: Flickr8k and Flickr30k share
photographs."""

EVALUATED = tuple(PHOTOGRAPHS)

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSplit:
    """What a pair of training data is looked up in: the keys of images and captions, and the words of the captions."""

    name: str
    image_keys: pa.Array
    caption_keys: pa.Array
    texts: pa.Array


def evaluation_splits(library: Library, parts: Sequence[str]) -> tuple[list[EvaluationSplit], list[str]]:
    """The splits that models are evaluated on, of these parts (``val``, ``test``); and those that are not at hand."""
    found, missing = [], []
    for name, collection, part in ((f"{each}/{part}", each, part) for part in parts for each in EVALUATED):
        content = _content(library, collection, part)
        if content is None:
            missing.append(name)
        else:
            found.append(library.once(("evaluation split", name), partial(_index, name, collection, content)))
    return found, missing


def count_images(library: Library, image_keys: Sequence[str]) -> dict[str, int]:
    """Split that models are evaluated on to the number of these images in it, where it is at hand and has any."""
    known = pa.array(image_keys, pa.string())
    found: dict[str, int] = {}
    collections = {key.partition("/")[0] for key in image_keys}
    for part in ("test", "val"):
        for collection in EVALUATED:
            photographs = PHOTOGRAPHS[collection]
            if photographs not in collections or (collection == "coco" and SPLITS[part] not in library.splits):
                continue
            content = _content(library, collection, part)
            if content is not None:
                inside = int(_is_in(known, pa.array(keys(photographs, content.image_ids))).sum())
                found |= {f"{collection}/{part}": inside} if inside else {}
    return found


def _index(name: str, collection: str, content: KarpathySplit) -> EvaluationSplit:
    captions = np.concatenate([content.caption_ids, content.cut_caption_ids])
    texts = pc.unique(plain_texts(content.captions["text"].combine_chunks()))
    return EvaluationSplit(
        name,
        pa.array(keys(PHOTOGRAPHS[collection], content.image_ids)),
        pa.array(keys(collection, captions)),
        texts.filter(pc.not_equal(texts, "")),
    )


def _content(library: Library, name: str, part: str) -> KarpathySplit | None:
    """A split, or None where it is not at hand; COCO's test split has to be there."""
    collection, split = COLLECTIONS[name], SPLITS[part]
    known = split in collection.splits(library) if collection.at_hand(library) else False
    return collection.content(library, split) if known or (name, part) == ("coco", "test") else None


def plain_texts(texts: pa.Array) -> pa.Array:
    """Letters and digits in small letters: what two spellings of the same words have in common.

    Example:
        >>> plain_texts(pa.array(["A dog, running.", "a dog running"])).to_pylist()
        ['adogrunning', 'adogrunning']
    """
    return pc.replace_substring_regex(pc.utf8_lower(texts), pattern=r"[^\p{L}\p{N}]+", replacement="")


def find_members(table: pa.Table, splits: Sequence[EvaluationSplit]) -> Iterator[tuple[str, str, Mask]]:
    """The split, why (``image``, ``caption``, ``words``, ``other``), and (N,) the pairs that this is true of.

    ``words`` are those of a sentence without an id, ``other`` those of one whose id says that it is another caption.
    """
    premises = table["premises"].combine_chunks()
    sentences, owners = plain_texts(premises.flatten()), np.asarray(pc.list_parent_indices(premises))
    hypotheses = plain_texts(table["hypothesis"].combine_chunks())
    premise_unnamed, hypothesis_unnamed = (np.asarray(pc.is_null(table[key])) for key in ("image_key", "caption_key"))
    for split in splits:
        yield split.name, "image", _is_in(table["image_key"], split.image_keys)
        yield split.name, "caption", _is_in(table["caption_key"], split.caption_keys)
        of_premise = np.zeros(table.num_rows, dtype=bool)
        of_premise[owners[_is_in(sentences, split.texts)]] = True
        of_hypothesis = _is_in(hypotheses, split.texts)
        yield split.name, "words", (of_premise & premise_unnamed) | (of_hypothesis & hypothesis_unnamed)
        yield split.name, "other", (of_premise & ~premise_unnamed) | (of_hypothesis & ~hypothesis_unnamed)


def _is_in(values: pa.Array | pa.ChunkedArray, known: pa.Array) -> Mask:
    return np.array(pc.is_in(values, value_set=known), dtype=bool)


def count_named(table: pa.Table, splits: Sequence[EvaluationSplit]) -> dict[str, int]:
    """Split to the number of pairs whose image or caption it has by id, of a table with both keys; none without any."""
    named = {
        split.name: _is_in(table["image_key"], split.image_keys) | _is_in(table["caption_key"], split.caption_keys)
        for split in splits
    }
    return {name: int(members.sum()) for name, members in named.items() if members.any()}


REASONS = {"image": "image in {}", "caption": "caption in {}", "words": "words of a caption in {}"}


def drop_members(pairs: Pairs, protected: Sequence[EvaluationSplit]) -> tuple[pa.Table, Mapping[str, int]]:
    """The pairs that are in no protected split; and reason to the number of the others, each counted once."""
    left_out: dict[str, int] = {}
    inside = np.zeros(pairs.table.num_rows, dtype=bool)
    for name, why, members in find_members(pairs.table, protected):
        new = members & ~inside if why in REASONS else np.zeros_like(inside)
        inside |= new
        if new.any():
            left_out[REASONS[why].format(name)] = int(new.sum())
    return pairs.table.filter(pa.array(~inside)), left_out


def count_members(
    tables: Sequence[pa.Table], splits: Sequence[EvaluationSplit]
) -> tuple[dict[str, int], dict[str, int]]:
    """Split to the number of pairs of it; and to that of pairs that only share words with it. None is left out."""
    holds: Counter[str] = Counter()
    shares: Counter[str] = Counter()
    for table in tables:
        inside = {split.name: np.zeros(table.num_rows, dtype=bool) for split in splits}
        alike = {name: mask.copy() for name, mask in inside.items()}
        for name, why, members in find_members(table, splits):
            (inside if why in REASONS else alike)[name] |= members
        holds.update({name: int(mask.sum()) for name, mask in inside.items()})
        shares.update({name: int((mask & ~inside[name]).sum()) for name, mask in alike.items()})
    return dict(+holds), dict(+shares)
