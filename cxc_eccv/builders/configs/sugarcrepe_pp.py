"""Config ``sugarcrepe_pp``: images of COCO val2017, each with two captions that say the same, and a hard negative."""

import pyarrow as pa
from datasets import ClassLabel, Value

from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, Sentences, columns
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import SUGARCREPE_PP_PARTS, read_sugarcrepe_pp


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """Part after part, each in the order of its file."""
    tables = {part: library.read(f"sugarcrepe_pp_{part}", read_sugarcrepe_pp) for part in SUGARCREPE_PP_PARTS}
    parts = [table.add_column(0, "part", pa.array([part] * table.num_rows)) for part, table in tables.items()]
    return Rows(pa.concat_tables(parts).combine_chunks().select(list(CONFIG.features)))


CONFIG = DatasetConfig(
    name="sugarcrepe_pp",
    title="SugarCrepe++: two captions that say the same against a hard negative",
    description="One row per item: an image, two captions that describe it in different words, and a negative that "
    "differs from the first in one thing. The task `sugarcrepe_pp` counts the items whose image scores both captions "
    "strictly above the negative; `sugarcrepe_pp_text` those whose captions are closer to each other than to it.",
    collection="SugarCrepe++ (Dumpala et al., 2024): SugarCrepe's items with a second caption, which a language model "
    "wrote and people checked.",
    **columns(
        part=(ClassLabel(names=list(SUGARCREPE_PP_PARTS)), "how the negative was made, and what was changed"),
        item_id=(Value("int64"), "id of the item in the file of its part"),
        file_name=(Value("string"), "file name of the image in COCO val2017"),
        image_id=(Value("int64"), "COCO image id"),
        caption=(Value("string"), "the caption, exactly as in the file"),
        caption2=(Value("string"), "the same in other words"),
        negative=(Value("string"), "the hard negative, exactly as in the file"),
    ),
    splits=("test",),
    rows=rows,
    sources=("sugarcrepe_pp", "karpathy"),
    defects=(
        "4,757 items of five parts have the image, caption and negative of SugarCrepe but for rewordings: 3,879 "
        "negatives are identical.",
        "559 items have an image of the Karpathy test split.",
    ),
    example='swapped = dataset.features["part"].str2int("swap_att")\n'
    'row = dataset.filter(lambda row: row["part"] == swapped)[0]\nprint(row["caption"], "|", row["caption2"])',
    sentences=Sentences(
        "part",
        ("image_ids", "image_id"),
        {"caption_embeddings": "caption", "caption2_embeddings": "caption2", "negative_embeddings": "negative"},
        image_files="file_name",
    ),
)
