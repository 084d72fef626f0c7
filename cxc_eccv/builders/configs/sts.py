"""Config ``sts``: graded similarity of caption pairs."""

import numpy as np
from datasets import ClassLabel, Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.builders.single_ratings import RATING_COLUMNS, with_single_ratings
from cxc_eccv.sources.library import Library


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """One row per rated pair, in the order of the raw file."""
    table = library.cxc("sts", split)
    columns: dict[str, object] = {}
    for number, side in (("1", "left_id"), ("2", "right_id")):
        caption_ids = np.asarray(table[side])
        image_ids = lookup.images_of(library, split, caption_ids)
        columns |= {
            f"caption{number}_id": caption_ids,
            f"caption{number}": lookup.caption_texts(library, split, caption_ids),
            f"image{number}_id": image_ids,
            f"file_name{number}": lookup.file_names(library, split, image_ids),
        }
    ratings = np.asarray(table["rating"])
    columns |= {"rating": ratings, "positive": ratings >= options.sts, "sampling_method": table["sampling_method"]}
    return with_single_ratings(columns, library, "sts", split)


CONFIG = DatasetConfig(
    name="sts",
    title="Caption pairs with graded similarity (CxC STS)",
    description="One row per pair of captions with a rating from 0 (unrelated) to 5 (same meaning).",
    collection="Crisscrossed Captions (Parekh et al., 2021). `c2c_cocaption` pairs are captions of one image; "
    "`c2c_isim` pairs are captions of two images that are similar by their captions' or images' embeddings. The "
    "rating is the mean over annotators.",
    **columns(
        caption1_id=(Value("int64"), "COCO id of the first caption"),
        caption1=(Value("string"), "its text"),
        image1_id=(Value("int64"), "the image it was written for"),
        file_name1=(Value("string"), "that image's file name"),
        caption2_id=(Value("int64"), "COCO id of the second caption"),
        caption2=(Value("string"), "its text"),
        image2_id=(Value("int64"), "the image it was written for"),
        file_name2=(Value("string"), "that image's file name"),
        rating=(Value("float64"), "mean rating, 0 to 5"),
        positive=(Value("bool"), "rating of at least 3"),
        sampling_method=(ClassLabel(names=["c2c_cocaption", "c2c_isim"]), "how the pair was chosen"),
        **RATING_COLUMNS,
    ),
    splits=("validation", "test"),
    rows=rows,
    sources=("cxc", "karpathy"),
    defects=("Every caption occurs one to three times on the left. Counting both sides, it has 2 to 13 partners.",),
    example='best = dataset.sort("rating", reverse=True)[0]\nprint(best["caption1"], "|", best["caption2"])',
)
