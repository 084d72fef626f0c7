"""Config ``sis``: graded similarity of image pairs."""

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.builders.single_ratings import RATING_COLUMNS, with_single_ratings
from cxc_eccv.sources.library import Library
from cxc_eccv.types import FloatArray


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """One row per rated ordered pair, in the order of the raw file."""
    table = library.cxc("sis", split)
    left, right = (np.asarray(table[side]) for side in ("left_id", "right_id"))
    reverse = _reverse_ratings(table)
    ratings = np.asarray(table["rating"])
    columns = {
        "image1_id": left,
        "file_name1": lookup.file_names(library, split, left),
        "image2_id": right,
        "file_name2": lookup.file_names(library, split, right),
        "rating": ratings,
        "reverse_rating": lookup.nullable(reverse),
        "positive": np.fmax(ratings, reverse) >= options.sis,
        "sampling_method": table["sampling_method"],
    }
    return with_single_ratings(columns, library, "sis", split)


def _reverse_ratings(table: pa.Table) -> FloatArray:
    left, right = table["left_id"].to_pylist(), table["right_id"].to_pylist()
    ratings = dict(zip(zip(left, right, strict=True), table["rating"].to_pylist(), strict=True))
    return np.array([ratings.get((b, a), np.nan) for a, b in zip(left, right, strict=True)])


CONFIG = DatasetConfig(
    name="sis",
    title="Image pairs with graded similarity (CxC SIS)",
    description="One row per ordered pair of images with a rating from 0 (unrelated) to 5 (same scene).",
    collection="Crisscrossed Captions (Parekh et al., 2021): image pairs sampled by the similarity of their captions "
    "(`i2i_csim`). The rating is the mean over annotators.",
    **columns(
        image1_id=(Value("int64"), "COCO id of the first image"),
        file_name1=(Value("string"), "its file name"),
        image2_id=(Value("int64"), "COCO id of the second image"),
        file_name2=(Value("string"), "its file name"),
        rating=(Value("float64"), "mean rating of this order, 0 to 5"),
        reverse_rating=(
            Value("float64"),
            "mean rating of the pair in the other order, null where only this order was rated",
        ),
        positive=(Value("bool"), "either rating is at least 2.5"),
        sampling_method=(ClassLabel(names=["i2i_csim"]), "how the pair was chosen"),
        **RATING_COLUMNS,
    ),
    splits=("validation", "test"),
    rows=rows,
    sources=("cxc", "karpathy"),
    defects=(
        "Many pairs were rated twice, once in each order, with different scores: 4,506 rows of validation and 5,726 "
        "of test have their reverse in the file, 0.42 to 0.44 apart on average and 2.3 at most. A pair is positive "
        "if either rating is.",
    ),
    example='pairs = dataset.filter(lambda row: row["reverse_rating"] is not None)\nprint(pairs[0])',
)
