"""Labelled pairs to train a classifier of entailment on: corpora in one schema, without test data."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.studies.entailment.training_data.corpora import (
    LABELLED_SCHEMA,
    THRESHOLD,
    Corpus,
    Pairs,
    corpora,
    join_captions,
    make_pairs,
    premises_of,
)
from cxc_eccv.studies.entailment.training_data.corpora.captions import pairs_of_labels
from cxc_eccv.studies.trainers.training_record import (
    SPLIT_OF_PART,
    SourceRecord,
    TrainingRecord,
    captioned_collections,
    has_split,
    make_keys,
)

__all__ = [
    "LABELLED_SCHEMA",
    "TrainingData",
    "as_labelled",
    "corpora",
    "count_named",
    "evaluation_splits",
    "load_training_data",
    "make_pairs",
    "pairs_of_labels",
    "part_of",
    "plain_texts",
    "premises_of",
    "warn_of_truncation",
]

Mask = NDArray[np.bool_]

ALIASES = {"dev": "val", "validation": "val", "trial": "val"}


class TrainingData(NamedTuple):
    """Labelled pairs, a table of :data:`LABELLED_SCHEMA`, and their record for the model that is trained on them."""

    pairs: pa.Table
    provenance: TrainingRecord


def load_training_data(
    library: Library,
    names: Sequence[str],
    *,
    images: str | Path | None = None,
    protect: str = "test",
    allow_test_data: bool = False,
    used_as: Mapping[str, Sequence[str]] | None = None,
) -> TrainingData:
    """Labelled pairs of one or more parts of the corpora, in the order of the names and of the raw files.

    Pairs of a protected split are left out and counted: pairs with its images or captions, and sentences without an id
    with the words of one of its captions. The test splits of COCO and, if available, of Flickr30k and Flickr8k are
    protected.

    The kind of a pair is ``multimodal`` for an image with its captions, ``text`` for captions or a sentence, and
    ``visual`` for an image alone. ``used_as`` sets other kinds: the paper trains on each pair of SNLI-VE twice, as
    ``visual`` and as ``multimodal``.

    Args:
        library: the raw files.
        names: names such as ``cxc/val``, ``sick/train``, ``snli_ve/dev``; :func:`corpora` has them all.
        images: folder with the photographs, at any depth, or ``sample``; None for premises of text only.
        protect: ``test``, or ``val,test`` to keep validation splits out as well.
        allow_test_data: allow test splits; the provenance then says so.
        used_as: corpus to the kinds that each of its pairs is used as, in turn.

    Example:
        >>> data = load_training_data(Library("sample"), ["entailment/val"], images="sample")
        >>> data.pairs.num_rows, data.provenance["trained_on_val"], data.provenance["trained_on_test"]
        (38, True, False)
    """
    parts = [part_of(name) for name in names]
    if not parts or len(set(parts)) < len(parts):
        raise InvalidOption(f"training data {list(names)}: give at least one part such as cxc/val, each once")
    guarded = _protected_parts(protect, allow_test_data)
    splits, missing = evaluation_splits(library, ("val", "test"))
    protected = [split for split in splits if split.name.rpartition("/")[2] in guarded]
    folder = None if images is None else ImageFolder(images)
    used = []
    tables = []
    sources: dict[str, SourceRecord] = {}
    for corpus, part in parts:
        name = f"{corpus.name}/{part}"
        pairs = corpus.pairs(library, part)
        _check_guarded(name, pairs, guarded, missing)
        usable, left_out = _keep(name, pairs, protected, folder)
        if used_as is not None and corpus.name in used_as:
            usable, unused = _use_as(name, usable, used_as[corpus.name], with_images=folder is not None)
            left_out |= unused
        used.append(usable)
        tables.append(as_labelled(corpus.name, usable, with_images=folder is not None))
        sources[name] = _describe(library, corpus, tables[-1], left_out)
    table = pa.concat_tables(tables).combine_chunks()
    holds, shares = count_members(used, splits)
    provenance: TrainingRecord = {
        "parts": list(sources),
        "pairs": table.num_rows,
        "positives": _positives(table),
        "sources": sources,
        "holds": holds,
        "shares_words": shares,
        "trained_on_test": any(name.endswith("/test") for name in holds),
        "trained_on_val": any(name.endswith("/val") for name in holds),
        "protected": [split.name for split in protected],
        "not_at_hand": missing,
        "threshold": THRESHOLD,
        "edition": library.edition,
        "files": library.files_used(),
    }
    return TrainingData(table, provenance)


def part_of(name: str) -> tuple[Corpus, str]:
    """The corpus and the part of a name such as ``cxc/val``; ``dev`` and ``validation`` mean ``val``."""
    corpus, _, part = name.partition("/")
    known = corpora()
    if corpus not in known:
        raise UnknownName("corpus of labelled pairs", corpus, known)
    part = ALIASES.get(part, part)
    if part not in known[corpus].parts:
        raise UnknownName(f"part of {corpus}", name, [f"{corpus}/{each}" for each in known[corpus].parts])
    return known[corpus], part


def _protected_parts(protect: str, allow_test_data: bool) -> set[str]:
    parts = {part.strip() for part in protect.split(",")}
    if not {"test"} <= parts <= {"val", "test"}:
        raise InvalidOption(
            f"protect {protect!r}: give test, or val,test. To allow test data, give allow_test_data "
            "(--allow-test-data)."
        )
    return parts - {"test"} if allow_test_data else parts


def _check_guarded(name: str, pairs: Pairs, guarded: set[str], missing: Sequence[str]) -> None:
    """Raise DataError if a part has photographs of Flickr and the splits of Flickr30k are missing."""
    lacking = [f"flickr30k/{part}" for part in sorted(guarded) if f"flickr30k/{part}" in missing]
    photos = pc.any(pc.starts_with(pairs.table["image_key"], "flickr30k/")).as_py()
    if lacking and photos:
        raise DataError(
            f"{name} has photographs of Flickr30k, and {' and '.join(lacking)} is missing, so its images cannot be "
            "kept out. Put Karpathy's file of Flickr30k into the mirror folder; cxc-eccv list names it."
        )


def _keep(
    name: str, pairs: Pairs, protected: Sequence[EvaluationSplit], folder: ImageFolder | None
) -> tuple[pa.Table, dict[str, int]]:
    """The pairs of a part to train on, and reason to the number of others."""
    kept, leaks = drop_members(pairs, protected)
    usable, useless = _find_usable(kept, folder)
    left_out = {reason: number for reason, number in {**pairs.left_out, **leaks, **useless}.items() if number}
    if not usable.num_rows:
        reasons = ", ".join(f"{reason} ({number:,})" for reason, number in left_out.items())
        raise InvalidOption(
            f"{name}: no pair is left to train on. Left out: {reasons}. To use test data, give allow_test_data "
            "(--allow-test-data); to use photographs, give their folder (--images)."
        )
    return usable, left_out


def _find_usable(kept: pa.Table, folder: ImageFolder | None) -> tuple[pa.Table, dict[str, int]]:
    """The pairs with a usable premise and hypothesis, and reason to the number of others."""
    has_premise = np.array(pc.not_equal(_premises(kept), ""))
    has_hypothesis = np.array(pc.not_equal(pc.utf8_trim_whitespace(kept["hypothesis"]), ""))
    if folder is not None:
        folder.find_all(kept["image"].drop_null().to_pylist())
        has_premise |= np.array(pc.is_valid(kept["image"]))
    useless = {
        "no words to judge": int((~has_hypothesis).sum()),
        "neither captions nor an image as premise": int((has_hypothesis & ~has_premise).sum()),
    }
    return kept.filter(pa.array(has_hypothesis & has_premise)), useless


def warn_of_truncation(cut: int, pairs: int, name: str) -> None:
    """Warn, of the caller's caller, that a classifier of this name saw only a part of some premises."""
    if cut:
        warnings.warn(
            f"{cut:,} of {pairs:,} pairs are longer than the context of {name}: their premises were truncated",
            stacklevel=3,
        )


NEEDS = {"text": "captions", "visual": "an image", "multimodal": "captions and an image"}
"""Kind of a pair to the content of its premise."""


def _use_as(name: str, pairs: pa.Table, kinds: Sequence[str], *, with_images: bool) -> tuple[pa.Table, dict[str, int]]:
    """The pairs once as each of these kinds, and reason to the number of those left out."""
    has_text = np.array(pc.not_equal(_premises(pairs), ""))
    has_image = np.array(pc.is_valid(pairs["image"])) & with_images
    fits = {"text": has_text, "visual": has_image, "multimodal": has_text & has_image}
    tables = []
    for kind in kinds:
        part = pairs.filter(pa.array(fits[kind]))
        if not part.num_rows:
            without = "" if with_images else " No folder of images is given (--images)."
            raise InvalidOption(f"{name} as {kind}: no pair has {NEEDS[kind]} as premise.{without}")
        if kind == "visual":
            none = pa.array([[]] * part.num_rows, pairs.schema.field("premises").type)
            part = part.set_column(pairs.schema.get_field_index("premises"), "premises", none)
        elif kind == "text":
            none = pa.nulls(part.num_rows, pa.string())
            part = part.set_column(pairs.schema.get_field_index("image"), "image", none)
        tables.append(part)
    unused = int((~np.any([fits[kind] for kind in kinds], axis=0)).sum())
    reason = f"without {' or '.join(NEEDS[kind] for kind in kinds)} as premise"
    return pa.concat_tables(tables).combine_chunks(), {reason: unused} if unused else {}


def as_labelled(source: str, pairs: pa.Table, *, with_images: bool = True) -> pa.Table:
    """Pairs of a corpus as a table of :data:`LABELLED_SCHEMA`, named by their source."""
    premises = _premises(pairs)
    images = pairs["image"] if with_images else pa.nulls(pairs.num_rows, pa.string())
    kinds = pc.if_else(pc.is_null(images), "text", pc.if_else(pc.equal(premises, ""), "visual", "multimodal"))
    sources = pa.array([source] * pairs.num_rows, pa.string())
    middle = [pairs[name] for name in ("hypothesis", "label", "rating")]
    return pa.table(
        [premises, images, *middle, kinds, sources, pairs["image_key"], pairs["caption_key"]], schema=LABELLED_SCHEMA
    )


def _premises(pairs: pa.Table) -> pa.Array:
    """The captions of each premise, joined by spaces."""
    return pc.utf8_trim_whitespace(join_captions(pairs["premises"].combine_chunks()))


def _describe(library: Library, corpus: Corpus, table: pa.Table, left_out: Mapping[str, int]) -> SourceRecord:
    return {
        "pairs": table.num_rows,
        "positives": _positives(table),
        "kinds": dict(Counter(table["kind"].to_pylist())),
        "rule": corpus.rule,
        "licence": library.catalog.group(corpus.groups[0]).licence,
        "left_out": dict(left_out),
    }


def _positives(table: pa.Table) -> int:
    return int(pc.sum(table["label"]).as_py())


# The guard: pairs with an image, a caption or the words of a caption of an evaluation split. Images and captions with
# an id are compared by id, whatever words two captions share; sentences without one (of STS-B, or hypotheses of
# SNLI-VE) by their words.


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSplit:
    """The keys of images and captions of an evaluation split, and the words of its captions."""

    name: str
    image_keys: pa.Array
    caption_keys: pa.Array
    texts: pa.Array


def evaluation_splits(library: Library, parts: Sequence[str]) -> tuple[list[EvaluationSplit], list[str]]:
    """The evaluation splits of these parts (``val``, ``test``), and the names of missing ones."""
    splits = []
    missing = []
    for part, collection in product(parts, captioned_collections()):
        name = f"{collection.name}/{part}"
        split = SPLIT_OF_PART[part]
        if has_split(library, split, collection) or (collection.is_default and part == "test"):  # which is required
            content = library.split(split, collection)
            splits.append(library.cached(("evaluation split", name), partial(_index, name, content)))
        else:
            missing.append(name)
    return splits, missing


def _index(name: str, content: Split) -> EvaluationSplit:
    captions = np.concatenate([content.caption_ids, content.cut_caption_ids])
    texts = pc.unique(plain_texts(content.captions["text"].combine_chunks()))
    return EvaluationSplit(
        name,
        pa.array(make_keys(content.collection.photographs, content.image_ids)),
        pa.array(make_keys(content.collection.name, captions)),
        texts.filter(pc.not_equal(texts, "")),
    )


def plain_texts(texts: pa.Array) -> pa.Array:
    """The lower-case letters and digits of each text, to compare texts by their words.

    Example:
        >>> plain_texts(pa.array(["A dog, running.", "a dog running"])).to_pylist()
        ['adogrunning', 'adogrunning']
    """
    return pc.replace_substring_regex(pc.utf8_lower(texts), pattern=r"[^\p{L}\p{N}]+", replacement="")


def make_plain(table: pa.Table) -> pa.Table:
    """Pairs with the :func:`plain_texts` of their sentences, for :func:`find_members`."""
    premises = table["premises"].combine_chunks()
    offsets = np.append(0, np.cumsum(pc.list_value_length(premises))).astype(np.int32)
    columns = {
        "premises": pa.ListArray.from_arrays(offsets, plain_texts(premises.flatten())),
        "hypothesis": plain_texts(table["hypothesis"].combine_chunks()),
        "image_key": table["image_key"],
        "caption_key": table["caption_key"],
    }
    return pa.table(columns)


def find_members(table: pa.Table, split: EvaluationSplit) -> dict[str, Mask]:
    """Reason (``image``, ``caption``, ``words``, ``other``) to the (N,) mask of the plain pairs with data of a split.

    ``words``: a sentence without an id has the words of a caption; ``other``: one whose id is another caption's has.
    """
    premises = table["premises"].combine_chunks()
    owners = np.asarray(pc.list_parent_indices(premises))
    has_premise = np.zeros(table.num_rows, dtype=bool)
    has_premise[owners[_is_in(premises.flatten(), split.texts)]] = True
    has_hypothesis = _is_in(table["hypothesis"], split.texts)
    premise_unnamed = np.asarray(pc.is_null(table["image_key"]))
    hypothesis_unnamed = np.asarray(pc.is_null(table["caption_key"]))
    return {
        "image": _is_in(table["image_key"], split.image_keys),
        "caption": _is_in(table["caption_key"], split.caption_keys),
        "words": (has_premise & premise_unnamed) | (has_hypothesis & hypothesis_unnamed),
        "other": (has_premise & ~premise_unnamed) | (has_hypothesis & ~hypothesis_unnamed),
    }


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
    plain = make_plain(pairs.table)
    for split in protected:
        members = find_members(plain, split)
        for why, text in REASONS.items():
            new = members[why] & ~inside
            inside |= new
            if new.any():
                left_out[text.format(split.name)] = int(new.sum())
    return pairs.table.filter(pa.array(~inside)), left_out


def count_members(
    tables: Sequence[pa.Table], splits: Sequence[EvaluationSplit]
) -> tuple[dict[str, int], dict[str, int]]:
    """Split to the number of pairs of it, and split to the number of pairs that only share words with it."""
    holds = Counter[str]()
    shares = Counter[str]()
    for table in tables:
        plain = make_plain(table)
        for split in splits:
            members = find_members(plain, split)
            inside = members["image"] | members["caption"] | members["words"]
            holds[split.name] += int(inside.sum())
            shares[split.name] += int((members["other"] & ~inside).sum())
    return _drop_zeros(holds), _drop_zeros(shares)


def _drop_zeros(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
