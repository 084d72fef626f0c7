"""Config ``plausible_match``: images whose category sets nearly agree."""

import numpy as np
import pyarrow as pa
from datasets import Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.judgments.plausible import category_distances, with_categories
from cxc_eccv.sources.library import Library

ZETAS = (0, 1, 2)


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """One row per image with at least one category, in Karpathy order."""
    image_ids, present = with_categories(library, split)
    sets = library.categories(split)
    _, category = np.nonzero(present)
    distances = category_distances(present)
    sizes, names = present.sum(axis=1), pa.array(sets.category_names)
    columns = {
        "image_id": image_ids,
        "file_name": lookup.file_names(library, split, image_ids),
        "categories": lookup.list_column(sizes, names.take(pa.array(category))),
        "category_ids": lookup.list_column(sizes, sets.category_ids[category]),
    }
    for zeta in ZETAS:
        matches = distances <= zeta
        columns[f"matches_{zeta}"] = lookup.list_column(matches.sum(axis=1), image_ids[np.nonzero(matches)[1]])
    without = sets.image_ids.size - image_ids.size
    return Rows(pa.table(columns), {"images without any category": without} if without else {})


CONFIG = DatasetConfig(
    name="plausible_match",
    title="Plausible matches by object categories (PMRP)",
    description="One row per image: its categories and the images whose category sets differ in at most zeta = 0, 1, "
    "2 categories, itself included. A caption has its image's categories, so its plausible matches are those of its "
    "image.",
    collection="Computed from COCO's instance annotations as in PCME (Chun et al., 2021).",
    **columns(
        image_id=(Value("int64"), "COCO image id"),
        file_name=(Value("string"), "its file name"),
        categories=([Value("string")], "names of the object categories present"),
        category_ids=([Value("int64")], "their COCO ids"),
        matches_0=([Value("int64")], "images with the same categories"),
        matches_1=([Value("int64")], "images that differ in at most one category"),
        matches_2=([Value("int64")], "images that differ in at most two categories"),
    ),
    splits=("validation", "test"),  # all pairs of the training images are too many to list
    rows=rows,
    sources=("coco_instances", "karpathy", "pcme"),
    defects=(
        "48 test and 52 validation images have no category; they and their captions are neither queries nor gallery.",
        "Two metrics share the name PMRP: PCME's mean over zeta 0, 1, 2, and ECCV Caption's zeta 0 with R cut to 50.",
    ),
    example='print(len(dataset[0]["matches_0"]), len(dataset[0]["matches_2"]))',
)
