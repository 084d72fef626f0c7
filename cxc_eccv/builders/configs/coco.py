"""Configs of COCO's images and captions, and of their merged judgments: ``captions``, ``pairs``, ``retrieval``."""

import itertools
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Value
from numpy.typing import NDArray

from cxc_eccv.builders.dataset_config import (
    BuildOptions,
    DatasetConfig,
    Rows,
    captions_by_image,
    list_column,
    nullable,
    struct_lists,
    subset_lists,
)
from cxc_eccv.judgments.evidence.source import MERGED, label_sources
from cxc_eccv.judgments.merging import MergedPairs, merge
from cxc_eccv.sources.catalog import SPLITS
from cxc_eccv.sources.library import COCO_IMAGES, Split
from cxc_eccv.types import DIRECTIONS, find_positions

MERGED_GROUPS = tuple(dict.fromkeys(itertools.chain.from_iterable(label_sources()[name].groups for name in MERGED)))
"""Groups of raw files of the sources that are merged."""


def captions_rows(split: Split, options: BuildOptions) -> Rows:
    """One row per image, in Karpathy order."""
    order, sizes = captions_by_image(split)
    captions = {
        "id": split.caption_ids[order],
        "text": split.captions["text"].combine_chunks().take(pa.array(order)),
        "invalid": np.isin(split.caption_ids[order], split.library.invalid_ids("caption")),
    }
    names = split.images["file_name"].to_pylist()
    folders = split.images["folder"].to_pylist()
    columns = {
        "image_id": split.images["image_id"],
        "file_name": split.images["file_name"],
        "coco_url": _addresses(split.library.edition, folders, names),
        "split": [split.name] * len(names),
        "captions": struct_lists(sizes, captions),
        "categories": _category_names(split),
        "invalid": np.isin(split.image_ids, split.library.invalid_ids("image")),
    }
    left_out = {}
    if split.cut_caption_ids.size:
        left_out["captions beyond the fifth of an image"] = int(split.cut_caption_ids.size)
    return Rows(pa.table(columns), left_out)


def _addresses(edition: str, folders: list[str], names: list[str]) -> pa.Array:
    """Images of another edition, such as the embedded sample, are not at COCO."""
    at_coco = [f"{COCO_IMAGES}/{folder}/{name}" for folder, name in zip(folders, names, strict=True)]
    return pa.array(at_coco if edition == "official" else [None] * len(names), pa.string())


def _category_names(split: Split) -> pa.Array:
    sets = split.categories()
    image, category = np.nonzero(sets.present)
    names = pa.array(sets.category_names).take(pa.array(category))
    return list_column(np.bincount(image, minlength=sets.image_ids.size), names)


CAPTIONS_CONFIG = DatasetConfig(
    name="captions",
    title="MS-COCO images with their five captions and categories, in Karpathy splits",
    description="One row per image: its five captions with their COCO ids, and which of the 80 COCO object "
    "categories it shows. Captions are kept exactly as COCO has them, including trailing blanks and line breaks.",
    collection="Images and captions are MS-COCO's; the splits are those of Karpathy and Li (2015). The sixth and "
    "seventh captions that some images have are cut, as in every published evaluation. Categories are those with "
    "at least one instance annotation, crowd regions included.",
    columns={
        "image_id": (Value("int64"), "COCO image id"),
        "file_name": (Value("string"), "COCO 2014 file name"),
        "coco_url": (Value("string"), "address of the image at COCO; null in the embedded sample"),
        "split": (ClassLabel(names=list(SPLITS)), "Karpathy split"),
        "captions": (
            [{"id": Value("int64"), "text": Value("string"), "invalid": Value("bool")}],
            "caption id, text, and whether ECCV Caption lists it as invalid",
        ),
        "categories": ([Value("string")], "names of the object categories present; empty where COCO has no instance"),
        "invalid": (Value("bool"), "ECCV Caption lists the image as invalid"),
    },
    splits=SPLITS,
    rows=captions_rows,
    sources=("karpathy", "coco_instances", "eccv_caption"),
    defects=(
        "261 of the 25,000 test captions are byte-identical to a caption of another image: exact ties happen.",
        "48 test and 52 validation images have no instance annotation, and so no category.",
        "32 test captions have no content or are wrong, and test image 578492 duplicates two training images; "
        "`invalid` marks them, none is removed.",
        "Some captions end in blanks or contain line breaks.",
    ),
    example='for caption in dataset[0]["captions"]:\n    print(caption["text"])',
    photographs=True,
)


def pairs_rows(split: Split, options: BuildOptions) -> Rows:
    """One row per caption, in Karpathy order."""
    columns = {
        "image_id": split.caption_image_ids,
        "file_name": split.files_of(split.caption_image_ids),
        "caption_id": split.caption_ids,
        "caption": split.captions["text"],
        **_judged_captions(split, options),
    }
    return Rows(pa.table(columns))


def _judged_captions(split: Split, options: BuildOptions) -> dict[str, pa.ListArray]:
    """Per caption: the captions of other images that are positives of its image, and those judged negative."""
    merged = merge(split, "i2t", policy=options.policy, thresholds=options.thresholds)
    of_same_image = split.caption_image_ids[merged.items] == merged.query_ids[merged.queries]
    positive = merged.positive & ~of_same_image
    negative = ~merged.positive & ~of_same_image
    return {
        "weak_positives": _captions_per_caption(split, merged, positive, {"sources": merged.said_positive}),
        "judged_negatives": _captions_per_caption(
            split, merged, negative, {"judged_negative_by": merged.said_negative}
        ),
    }


def _captions_per_caption(
    split: Split, merged: MergedPairs, keep: NDArray[np.bool_], says: Mapping[str, NDArray[np.bool_]]
) -> pa.ListArray:
    """Per caption: the kept captions of its image, with the sources that said so."""
    ids = split.caption_ids[merged.items[keep]]
    columns = {
        "caption_id": ids,
        "caption": split.texts_of(ids),
        **{column: subset_lists(flags[keep], merged.sources) for column, flags in says.items()},
    }
    of_images = struct_lists(np.bincount(merged.queries[keep], minlength=merged.query_ids.size), columns)
    return of_images.take(pa.array(find_positions(split.caption_image_ids, merged.query_ids)[0]))


PAIRS_CONFIG = DatasetConfig(
    name="pairs",
    title="Training pairs: image, caption, and weak positives",
    description="One row per caption, with the id and the file name of its image. `weak_positives` are captions of "
    "other images that, by some source, describe this image too. A loss should not use them as negatives and may use "
    "them as extra positives. `judged_negatives` are captions that people rejected: negatives that are sure. "
    "Built with `--images`, a row holds its photograph too: a file stores it once, but a copy in the cache of "
    "`datasets` stores it five times. Stream this config, or take `captions`, with a row per photograph. "
    "`cxc_eccv.attach_images(dataset, folder)` adds photographs from their files.",
    collection="MS-COCO captions in Karpathy splits. Weak positives come from CxC, ECCV Caption and entailment labels "
    "where the split has them. The training splits have none: their lists are empty unless you mine weak positives.",
    columns={
        "image_id": (Value("int64"), "COCO image id"),
        "file_name": (Value("string"), "its file name"),
        "caption_id": (Value("int64"), "COCO caption id"),
        "caption": (Value("string"), "its text"),
        "weak_positives": (
            [{"caption_id": Value("int64"), "caption": Value("string"), "sources": [Value("string")]}],
            "captions of other images that describe this image too, with the sources that say so",
        ),
        "judged_negatives": (
            [{"caption_id": Value("int64"), "caption": Value("string"), "judged_negative_by": [Value("string")]}],
            "captions of other images that people say do not describe this image, with the sources that say so",
        ),
    },
    splits=("train", "restval", "validation", "test"),
    rows=pairs_rows,
    sources=MERGED_GROUPS,
    defects=("Only validation and test were re-annotated; training on them spoils every published comparison.",),
    example='print(dataset[0]["caption"], len(dataset[0]["weak_positives"]))',
    photographs=True,
)


JUDGMENT = {
    "id": Value("int64"),
    "sources": [Value("string")],
    "rules": [Value("string")],
    "rating": Value("float64"),
    "reverse_rating": Value("float64"),
    "conflict": Value("bool"),
    "invalid": Value("bool"),
}


def retrieval_rows(split: Split, options: BuildOptions) -> Rows:
    """Queries of i2t, t2i, t2t and i2i in turn, each in Karpathy order."""
    tables: list[pa.Table] = []
    left_out: dict[str, int] = {}
    for direction in DIRECTIONS:
        pairs = merge(split, direction, policy=options.policy, thresholds=options.thresholds)
        tables.append(_judged_queries(split, direction, pairs))
        left_out |= {f"{direction}: {rule}": number for rule, number in _left_out(pairs, options.policy).items()}
    return Rows(pa.concat_tables(tables).combine_chunks(), left_out)


def _left_out(pairs: MergedPairs, policy: str) -> dict[str, int]:
    without = pairs.query_ids.size - pairs.asked.size
    denied = int((pairs.said_positive.any(axis=1) & ~pairs.positive).sum())
    counts = pairs.left_out | {
        "queries without a positive": without,
        f"positives of one source that policy {policy!r} denies": denied,
    }
    return {rule: number for rule, number in counts.items() if number}


def _judged_queries(split: Split, direction: str, pairs: MergedPairs) -> pa.Table:
    asked = pairs.asked
    query_ids = pairs.query_ids[asked]
    by_image = direction[0] == "i"
    nothing = pa.nulls(asked.size, pa.string())
    columns = {
        "query_id": query_ids,
        "direction": pa.array([direction] * asked.size, pa.string()),
        "query_caption": nothing if by_image else split.texts_of(query_ids),
        "query_file_name": split.files_of(query_ids) if by_image else nothing,
        "query_invalid": np.isin(query_ids, split.library.invalid_ids("image" if by_image else "caption")),
    }
    invalid_ids = split.library.invalid_ids("image" if direction[2] == "i" else "caption")
    for name, chosen in (("positives", pairs.positive), ("negatives", ~pairs.positive)):
        keep = chosen & np.isin(pairs.queries, asked)
        sizes = np.bincount(np.searchsorted(asked, pairs.queries[keep]), minlength=asked.size)
        columns[name] = struct_lists(sizes, _judgment_columns(pairs, keep, invalid_ids))
    return pa.table(columns)


def _judgment_columns(
    pairs: MergedPairs, keep: np.ndarray, invalid_ids: np.ndarray
) -> dict[str, pa.Array | np.ndarray]:
    ids = pairs.gallery_ids[pairs.items[keep]]
    return {
        "id": ids,
        "sources": subset_lists(pairs.judged[keep], pairs.sources),
        "rules": subset_lists(pairs.said_positive[keep], pairs.rules),
        "rating": nullable(pairs.ratings[keep]),
        "reverse_rating": nullable(pairs.reverse[keep]),
        "conflict": pairs.conflict[keep],
        "invalid": np.isin(ids, invalid_ids),
    }


RETRIEVAL_CONFIG = DatasetConfig(
    name="retrieval",
    title="Merged judgments of COCO, CxC, ECCV Caption and entailment labels, with provenance",
    description="One row per query and direction (`i2t`, `t2i`, `t2t`, `i2i`) with everything that was judged: the "
    "positives and the judged negatives, each with the sources that judged it, the rule that makes it positive, its "
    "rating, and whether sources contradict each other. The gallery of a direction is all items of the split; in "
    "`t2t` and `i2i` without the query.",
    collection="Original COCO links (captions of one image for `t2t`), CxC ratings of at least 3 (SITS, STS) or 2.5 "
    "(SIS, either order), ECCV Caption positives, entailment labels where given. Sources say the same of an image "
    "and a caption in `i2t` and `t2i`, whichever was the query when people judged them; the config `eccv_caption` "
    "keeps ECCV Caption's two sets of queries apart. By default a pair is positive if any source says so (`union`); "
    "`strict` needs that no source contradicts, `override` lets the latest source decide.",
    columns={
        "query_id": (Value("int64"), "COCO image id or caption id"),
        "direction": (ClassLabel(names=list(DIRECTIONS)), "query modality to gallery modality"),
        "query_caption": (Value("string"), "the query's text, for caption queries"),
        "query_file_name": (Value("string"), "the query's file name, for image queries"),
        "query_invalid": (Value("bool"), "ECCV Caption lists the query as invalid"),
        "positives": (
            [JUDGMENT],
            "`id`, `sources` that judged the pair, `rules` that make it positive, CxC `rating` (and "
            "`reverse_rating` of the other order, `i2i`), `conflict`, `invalid`",
        ),
        "negatives": ([JUDGMENT], "the same for pairs that were judged and are not positive"),
    },
    splits=("train", "restval", "validation", "test"),
    rows=retrieval_rows,
    sources=MERGED_GROUPS,
    defects=(
        "Unjudged pairs are not negatives: annotators never saw most matches of a caption.",
        "29 original links of test and 38 of validation are rated below 3 and marked as conflicts.",
    ),
    example='row = dataset[0]\nfor positive in row["positives"]:\n    print(positive["id"], positive["rules"])',
)


CONFIGS = (CAPTIONS_CONFIG, PAIRS_CONFIG, RETRIEVAL_CONFIG)
