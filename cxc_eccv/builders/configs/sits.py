"""Config ``sits``: graded similarity of image-caption pairs."""

import numpy as np
from datasets import ClassLabel, Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.builders.single_ratings import RATING_COLUMNS, with_single_ratings
from cxc_eccv.sources.library import Library


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """One row per rated pair, in the order of the raw file."""
    table = library.cxc("sits", split)
    caption_ids, image_ids = np.asarray(table["left_id"]), np.asarray(table["right_id"])
    ratings = np.asarray(table["rating"])
    columns = {
        "caption_id": caption_ids,
        "caption": lookup.caption_texts(library, split, caption_ids),
        "caption_image_id": lookup.images_of(library, split, caption_ids),
        "image_id": image_ids,
        "file_name": lookup.file_names(library, split, image_ids),
        "rating": ratings,
        "positive": ratings >= options.sits,
        "sampling_method": table["sampling_method"],
    }
    return with_single_ratings(columns, library, "sits", split)


CONFIG = DatasetConfig(
    name="sits",
    title="Image-caption pairs with graded similarity (CxC SITS)",
    description="One row per caption and image with a rating from 0 (unrelated) to 5 (the caption describes it fully).",
    collection="Crisscrossed Captions (Parekh et al., 2021). `c2i_original` pairs are the original COCO links; "
    "`c2i_intrasim` pairs were chosen by the ratings of their captions and images. The rating is the mean over "
    "annotators.",
    **columns(
        caption_id=(Value("int64"), "COCO caption id"),
        caption=(Value("string"), "its text"),
        caption_image_id=(Value("int64"), "the image the caption was written for"),
        image_id=(Value("int64"), "COCO id of the rated image"),
        file_name=(Value("string"), "its file name"),
        rating=(Value("float64"), "mean rating, 0 to 5"),
        positive=(Value("bool"), "rating of at least 3"),
        sampling_method=(ClassLabel(names=["c2i_original", "c2i_intrasim"]), "how the pair was chosen"),
        **RATING_COLUMNS,
    ),
    splits=("validation", "test"),
    rows=rows,
    sources=("cxc", "karpathy"),
    defects=("38 original links of validation and 29 of test are rated below 3.",),
    example='original = dataset.features["sampling_method"].str2int("c2i_original")\n'
    'wrong = dataset.filter(lambda row: row["sampling_method"] == original and not row["positive"])\n'
    "print(len(wrong))",
)
