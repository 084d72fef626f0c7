"""Config ``captions``: one row per image with its captions and categories."""

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.sources.edition import SPLITS
from cxc_eccv.sources.library import COCO_IMAGES, Library


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """One row per image, in Karpathy order."""
    content = library.karpathy(split)
    order, sizes = lookup.captions_by_image(library, split)
    captions = {
        "id": content.caption_ids[order],
        "text": content.captions["text"].combine_chunks().take(pa.array(order)),
        "invalid": np.isin(content.caption_ids[order], library.invalid_ids("caption")),
    }
    names, folders = content.images["file_name"].to_pylist(), content.images["folder"].to_pylist()
    columns = {
        "image_id": content.images["image_id"],
        "file_name": content.images["file_name"],
        "coco_url": _addresses(library.edition, folders, names),
        "split": [split] * len(names),
        "captions": lookup.struct_lists(sizes, captions),
        "categories": _category_names(library, split),
        "invalid": np.isin(content.image_ids, library.invalid_ids("image")),
    }
    left_out = {}
    if content.cut_caption_ids.size:
        left_out["captions beyond the fifth of an image"] = int(content.cut_caption_ids.size)
    return Rows(pa.table(columns), left_out)


def _addresses(edition: str, folders: list[str], names: list[str]) -> pa.Array:
    """Images of another edition, such as the embedded sample, are not at COCO."""
    at_coco = [f"{COCO_IMAGES}/{folder}/{name}" for folder, name in zip(folders, names, strict=True)]
    return pa.array(at_coco if edition == "official" else [None] * len(names), pa.string())


def _category_names(library: Library, split: str) -> pa.Array:
    sets = library.categories(split)
    image, category = np.nonzero(sets.present)
    names = pa.array(sets.category_names).take(pa.array(category))
    return lookup.list_column(np.bincount(image, minlength=sets.image_ids.size), names)


CONFIG = DatasetConfig(
    name="captions",
    title="MS-COCO images with their five captions and categories, in Karpathy splits",
    description="One row per image: its five captions with their COCO ids, and which of the 80 COCO object "
    "categories it shows. Captions are kept exactly as COCO has them, including trailing blanks and line breaks.",
    collection="Images and captions are MS-COCO's; the splits are those of Karpathy and Li (2015). The sixth and "
    "seventh captions that some images have are cut, as in every published evaluation. Categories are those with "
    "at least one instance annotation, crowd regions included.",
    **columns(
        image_id=(Value("int64"), "COCO image id"),
        file_name=(Value("string"), "COCO 2014 file name"),
        coco_url=(Value("string"), "address of the image at COCO; null in the embedded sample"),
        split=(ClassLabel(names=list(SPLITS)), "Karpathy split"),
        captions=(
            [{"id": Value("int64"), "text": Value("string"), "invalid": Value("bool")}],
            "caption id, text, and whether ECCV Caption lists it as invalid",
        ),
        categories=([Value("string")], "names of the object categories present; empty where COCO has no instance"),
        invalid=(Value("bool"), "ECCV Caption lists the image as invalid"),
    ),
    splits=SPLITS,
    rows=rows,
    sources=("karpathy", "coco_instances", "eccv_caption"),
    defects=(
        "261 of the 25,000 test captions are byte-identical to a caption of another image: exact ties happen.",
        "48 test and 52 validation images have no instance annotation, and so no category.",
        "32 test captions have no content or are wrong, and test image 578492 duplicates two training images; "
        "`invalid` marks them, none is removed.",
        "Some captions end in blanks or contain line breaks.",
    ),
    example='for caption in dataset[0]["captions"]:\n    print(caption["text"])',
)
