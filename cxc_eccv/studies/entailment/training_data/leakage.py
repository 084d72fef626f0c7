"""The leakage guard: find training pairs with an image, a caption or a caption's words of an evaluation split.

Images and captions with an id are compared by id, whatever words two captions share. Sentences without one (of STS-B,
or hypotheses of SNLI-VE) are compared by their words: letters and digits only, in lower case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.sources.collections.collection import Collection, collections
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.studies.entailment.training_data.corpora import SPLITS, Pairs, keys

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSplit:
    """The keys of images and captions of an evaluation split, and the words of its captions."""

    name: str
    image_keys: pa.Array
    caption_keys: pa.Array
    texts: pa.Array


def evaluation_splits(library: Library, parts: Sequence[str]) -> tuple[list[EvaluationSplit], list[str]]:
    """The evaluation splits of these parts (``val``, ``test``), and the names of missing ones."""
    splits, missing = [], []
    for part, collection in product(parts, collections().values()):
        name, split = f"{collection.name}/{part}", SPLITS[part]
        if _has_split(library, split, collection) or (collection.is_default and part == "test"):  # which is required
            content = library.split(split, collection)
            splits.append(library.once(("evaluation split", name), partial(_index, name, content)))
        else:
            missing.append(name)
    return splits, missing


def count_images(library: Library, image_keys: Sequence[str]) -> dict[str, int]:
    """Available evaluation split to the number of these images in it, if any."""
    known = pa.array(image_keys, pa.string())
    counts: dict[str, int] = {}
    photographs = {key.partition("/")[0] for key in image_keys}
    for part, collection in product(("test", "val"), collections().values()):
        if collection.photographs in photographs and _has_split(library, SPLITS[part], collection):
            image_ids = library.split(SPLITS[part], collection).image_ids
            inside = int(_is_in(known, pa.array(keys(collection.photographs, image_ids))).sum())
            counts |= {f"{collection.name}/{part}": inside} if inside else {}
    return counts


def _index(name: str, content: Split) -> EvaluationSplit:
    captions = np.concatenate([content.caption_ids, content.cut_caption_ids])
    texts = pc.unique(plain_texts(content.captions["text"].combine_chunks()))
    return EvaluationSplit(
        name,
        pa.array(keys(content.collection.photographs, content.image_ids)),
        pa.array(keys(content.collection.name, captions)),
        texts.filter(pc.not_equal(texts, "")),
    )


def _has_split(library: Library, split: str, collection: Collection) -> bool:
    return library.has_collection(collection) and split in library.read_splits(collection)


def plain_texts(texts: pa.Array) -> pa.Array:
    """The lower-case letters and digits of each text, to compare texts by their words.

    Example:
        >>> plain_texts(pa.array(["A dog, running.", "a dog running"])).to_pylist()
        ['adogrunning', 'adogrunning']
    """
    return pc.replace_substring_regex(pc.utf8_lower(texts), pattern=r"[^\p{L}\p{N}]+", replacement="")


def find_members(table: pa.Table, splits: Sequence[EvaluationSplit]) -> Iterator[tuple[str, str, Mask]]:
    """Yield a split, a reason (``image``, ``caption``, ``words``, ``other``), and the (N,) mask of its pairs.

    ``words``: a sentence without an id has the words of a caption; ``other``: one whose id is another caption's has.
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
    """Split to the number of pairs with an image or caption of it, by id; splits without any are left out."""
    named = {
        split.name: _is_in(table["image_key"], split.image_keys) | _is_in(table["caption_key"], split.caption_keys)
        for split in splits
    }
    return {name: int(members.sum()) for name, members in named.items() if members.any()}


REASONS = {"image": "image in {}", "caption": "caption in {}", "words": "words of a caption in {}"}


def drop_members(pairs: Pairs, protected: Sequence[EvaluationSplit]) -> tuple[pa.Table, Mapping[str, int]]:
    """The pairs that are in no protected split, and reason to the number of others, each counted once."""
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
    """Split to the number of pairs of it, and split to the number of pairs that only share words with it."""
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
