"""Config ``sugarcrepe``: images of COCO val2017, each with a caption and a hard negative."""

import pyarrow as pa
from datasets import ClassLabel, Value

from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, Sentences, columns
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import SUGARCREPE_PARTS, read_sugarcrepe


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """Part after part, each in the order of its file."""
    return Rows(pa.concat_tables([_of_part(library, part) for part in SUGARCREPE_PARTS]).combine_chunks())


def _of_part(library: Library, part: str) -> pa.Table:
    table = library.read(f"sugarcrepe_{part}", read_sugarcrepe)
    return table.add_column(0, "part", pa.array([part] * table.num_rows))


CONFIG = DatasetConfig(
    name="sugarcrepe",
    title="SugarCrepe: a caption against a hard negative",
    description="One row per item: an image, a caption that is right, and a negative that differs in one thing. In "
    "`replace_...` an object, an attribute or a relation is another one; in `swap_...` two of the caption's own have "
    "changed places; in `add_...` one is told that is not there. The task `sugarcrepe` counts the items whose image "
    "scores the caption strictly above the negative.",
    collection="SugarCrepe (Hsieh et al., 2023): ChatGPT wrote the negatives, so that they are plausible and fluent; "
    "people sorted out those that are true of the image after all; what two models of text alone could tell was "
    "balanced.",
    **columns(
        part=(ClassLabel(names=list(SUGARCREPE_PARTS)), "how the negative was made, and what was changed"),
        item_id=(Value("int64"), "key of the item in the file of its part"),
        file_name=(Value("string"), "file name of the image in COCO val2017"),
        image_id=(Value("int64"), "COCO image id"),
        caption=(Value("string"), "the caption, exactly as in the file"),
        negative=(Value("string"), "the hard negative, exactly as in the file"),
    ),
    splits=("test",),
    rows=rows,
    sources=("sugarcrepe", "karpathy"),
    defects=(
        "Captions give themselves away by their form: 1,074 of the 7,511 have blanks or a line break at an end, and no "
        "negative has; 6,105 end in a full stop, and 7,489 negatives do; 6,646 begin with a capital, and 7,457 "
        "negatives do. Taking the text with more of these three marks (white space at an end, no full stop, no "
        "capital) for the caption is right about 2,228 items and wrong about one; with a guess at the other 5,282 that "
        "is an accuracy of 62 to 67% of each part, without a look at the image. A model whose tokenizer sees case, "
        "punctuation or white space is measured on the change alone only if it encodes both texts in one form.",
        "A negative of `add_att` or `add_obj` is the longer text in 99% of the items, so that a preference for short "
        "captions solves these parts.",
        "`swap_obj` has no item 108 any more: its authors took it out on 18 November 2023, as its caption was wrong. "
        "The paper's accuracies count its 246 items.",
        "One caption of an image may be in several items: 7,511 items have 4,355 captions of 1,560 images. Within one "
        "part that happens four times in `swap_att` and once in `swap_obj`. Six triples of image, caption and negative "
        "stand in two parts.",
        "Of the 1,560 images 183 are in the Karpathy test split and 177 in the val split, with 1,681 of the items; the "
        "captions of these items are COCO's own, byte for byte, four of them the sixth caption of image 96493. All "
        "images are of val2014, so that the other 1,200 are in restval: a model trained on train and restval has seen "
        "them, with these captions.",
    ),
    example='swapped = dataset.features["part"].str2int("swap_att")\n'
    'row = dataset.filter(lambda row: row["part"] == swapped)[0]\nprint(row["caption"], "|", row["negative"])',
    sentences=Sentences(
        "part",
        ("image_ids", "image_id"),
        {"caption_embeddings": "caption", "negative_embeddings": "negative"},
        image_files="file_name",
    ),
)
