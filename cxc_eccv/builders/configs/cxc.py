"""Configs of the Crisscrossed Captions: graded similarity of image-caption, caption and image pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Value

from cxc_eccv.builders.dataset_config import BuildOptions, DatasetConfig, Rows, nullable
from cxc_eccv.sources.library import Split
from cxc_eccv.types import FloatArray

RATING_COLUMNS = {
    "rating_count": (Value("int64"), "number of single ratings, null without the file of single ratings"),
    "rating_std": (
        Value("float64"),
        "their population standard deviation (0 for one rating), null without that file",
    ),
}


def with_single_ratings(columns: dict[str, object], split: Split, kind: str) -> Rows:
    """Rows of CxC with the number and standard deviation of their single ratings; null without the file of these."""
    table = split.ratings(kind)
    single = split.annotators(kind)
    if single is None:
        unknown = {name: pa.nulls(table.num_rows, feature.pa_type) for name, (feature, _) in RATING_COLUMNS.items()}
        return Rows(pa.table(columns | unknown))
    pairs = np.concatenate([np.stack([part["left_id"], part["right_id"]], axis=1) for part in (table, single)])
    places = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    row_of = np.full(places.max() + 1, -1)
    row_of[places[: table.num_rows]] = np.arange(table.num_rows)
    rows = row_of[places[table.num_rows :]]
    known = rows >= 0
    ratings = np.asarray(single["rating"])
    rows = rows[known]
    ratings = ratings[known]
    count = np.bincount(rows, minlength=table.num_rows)
    least = np.maximum(count, 1)
    mean = np.bincount(rows, ratings, table.num_rows) / least
    std = np.sqrt(np.bincount(rows, (ratings - mean[rows]) ** 2, table.num_rows) / least)
    spread = {"rating_count": pa.array(count, mask=count == 0), "rating_std": pa.array(std, mask=count == 0)}
    left_out = int((~known).sum())
    rule = "single ratings of pairs without an aggregated one"
    return Rows(pa.table(columns | spread), {rule: left_out} if left_out else {})


def sits_rows(split: Split, options: BuildOptions) -> Rows:
    """One row per rated pair, in the order of the raw file."""
    table = split.ratings("sits")
    caption_ids = np.asarray(table["left_id"])
    image_ids = np.asarray(table["right_id"])
    ratings = np.asarray(table["rating"])
    columns = {
        "caption_id": caption_ids,
        "caption": split.texts_of(caption_ids),
        "caption_image_id": split.owners_of(caption_ids),
        "image_id": image_ids,
        "file_name": split.files_of(image_ids),
        "rating": ratings,
        "positive": ratings >= options.sits,
        "sampling_method": table["sampling_method"],
    }
    return with_single_ratings(columns, split, "sits")


SITS_CONFIG = DatasetConfig(
    name="sits",
    title="Image-caption pairs with graded similarity (CxC SITS)",
    description="One row per caption and image with a rating from 0 (unrelated) to 5 (the caption describes it fully).",
    collection="Crisscrossed Captions (Parekh et al., 2021). `c2i_original` pairs are the original COCO links; "
    "`c2i_intrasim` pairs were chosen by the ratings of their captions and images. The rating is the mean over "
    "annotators.",
    columns={
        "caption_id": (Value("int64"), "COCO caption id"),
        "caption": (Value("string"), "its text"),
        "caption_image_id": (Value("int64"), "the image the caption was written for"),
        "image_id": (Value("int64"), "COCO id of the rated image"),
        "file_name": (Value("string"), "its file name"),
        "rating": (Value("float64"), "mean rating, 0 to 5"),
        "positive": (Value("bool"), "rating of at least 3"),
        "sampling_method": (ClassLabel(names=["c2i_original", "c2i_intrasim"]), "how the pair was chosen"),
        **RATING_COLUMNS,
    },
    splits=("validation", "test"),
    rows=sits_rows,
    sources=("cxc", "karpathy"),
    defects=("38 original links of validation and 29 of test are rated below 3.",),
    example='original = dataset.features["sampling_method"].str2int("c2i_original")\n'
    'wrong = dataset.filter(lambda row: row["sampling_method"] == original and not row["positive"])\n'
    "print(len(wrong))",
)


def sts_rows(split: Split, options: BuildOptions) -> Rows:
    """One row per rated pair, in the order of the raw file."""
    table = split.ratings("sts")
    columns: dict[str, object] = {}
    for number, side in (("1", "left_id"), ("2", "right_id")):
        caption_ids = np.asarray(table[side])
        image_ids = split.owners_of(caption_ids)
        columns |= {
            f"caption{number}_id": caption_ids,
            f"caption{number}": split.texts_of(caption_ids),
            f"image{number}_id": image_ids,
            f"file_name{number}": split.files_of(image_ids),
        }
    ratings = np.asarray(table["rating"])
    columns |= {"rating": ratings, "positive": ratings >= options.sts, "sampling_method": table["sampling_method"]}
    return with_single_ratings(columns, split, "sts")


STS_CONFIG = DatasetConfig(
    name="sts",
    title="Caption pairs with graded similarity (CxC STS)",
    description="One row per pair of captions with a rating from 0 (unrelated) to 5 (same meaning).",
    collection="Crisscrossed Captions (Parekh et al., 2021). `c2c_cocaption` pairs are captions of one image; "
    "`c2c_isim` pairs are captions of two images that are similar by their captions' or images' embeddings. The "
    "rating is the mean over annotators.",
    columns={
        "caption1_id": (Value("int64"), "COCO id of the first caption"),
        "caption1": (Value("string"), "its text"),
        "image1_id": (Value("int64"), "the image it was written for"),
        "file_name1": (Value("string"), "that image's file name"),
        "caption2_id": (Value("int64"), "COCO id of the second caption"),
        "caption2": (Value("string"), "its text"),
        "image2_id": (Value("int64"), "the image it was written for"),
        "file_name2": (Value("string"), "that image's file name"),
        "rating": (Value("float64"), "mean rating, 0 to 5"),
        "positive": (Value("bool"), "rating of at least 3"),
        "sampling_method": (ClassLabel(names=["c2c_cocaption", "c2c_isim"]), "how the pair was chosen"),
        **RATING_COLUMNS,
    },
    splits=("validation", "test"),
    rows=sts_rows,
    sources=("cxc", "karpathy"),
    defects=("Every caption occurs one to three times on the left. Counting both sides, it has 2 to 13 partners.",),
    example='best = dataset.sort("rating", reverse=True)[0]\nprint(best["caption1"], "|", best["caption2"])',
)


def sis_rows(split: Split, options: BuildOptions) -> Rows:
    """One row per rated ordered pair, in the order of the raw file."""
    table = split.ratings("sis")
    left, right = (np.asarray(table[side]) for side in ("left_id", "right_id"))
    reverse = _reverse_ratings(table)
    ratings = np.asarray(table["rating"])
    columns = {
        "image1_id": left,
        "file_name1": split.files_of(left),
        "image2_id": right,
        "file_name2": split.files_of(right),
        "rating": ratings,
        "reverse_rating": nullable(reverse),
        "positive": np.fmax(ratings, reverse) >= options.sis,
        "sampling_method": table["sampling_method"],
    }
    return with_single_ratings(columns, split, "sis")


def _reverse_ratings(table: pa.Table) -> FloatArray:
    left = table["left_id"].to_pylist()
    right = table["right_id"].to_pylist()
    ratings = dict(zip(zip(left, right, strict=True), table["rating"].to_pylist(), strict=True))
    return np.array([ratings.get((b, a), np.nan) for a, b in zip(left, right, strict=True)])


SIS_CONFIG = DatasetConfig(
    name="sis",
    title="Image pairs with graded similarity (CxC SIS)",
    description="One row per ordered pair of images with a rating from 0 (unrelated) to 5 (same scene).",
    collection="Crisscrossed Captions (Parekh et al., 2021): image pairs sampled by the similarity of their captions "
    "(`i2i_csim`). The rating is the mean over annotators.",
    columns={
        "image1_id": (Value("int64"), "COCO id of the first image"),
        "file_name1": (Value("string"), "its file name"),
        "image2_id": (Value("int64"), "COCO id of the second image"),
        "file_name2": (Value("string"), "its file name"),
        "rating": (Value("float64"), "mean rating of this order, 0 to 5"),
        "reverse_rating": (
            Value("float64"),
            "mean rating of the pair in the other order, null where only this order was rated",
        ),
        "positive": (Value("bool"), "either rating is at least 2.5"),
        "sampling_method": (ClassLabel(names=["i2i_csim"]), "how the pair was chosen"),
        **RATING_COLUMNS,
    },
    splits=("validation", "test"),
    rows=sis_rows,
    sources=("cxc", "karpathy"),
    defects=(
        "Many pairs were rated twice, once in each order, with different scores: 4,506 rows of validation and 5,726 "
        "of test have their reverse in the file, 0.42 to 0.44 apart on average and 2.3 at most. A pair is positive "
        "if either rating is.",
    ),
    example='pairs = dataset.filter(lambda row: row["reverse_rating"] is not None)\nprint(pairs[0])',
)


CONFIGS = (SITS_CONFIG, STS_CONFIG, SIS_CONFIG)
