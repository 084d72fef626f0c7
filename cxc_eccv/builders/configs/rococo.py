"""Config ``rococo``: the captions of the test split, each with a word replaced."""

import pyarrow as pa
from datasets import ClassLabel, Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, Sentences, columns
from cxc_eccv.sources.library import Library
from cxc_eccv.types.altered import ALTERATIONS


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """Kind after kind, each in Karpathy order."""
    return Rows(pa.concat_tables([_of_kind(library, split, kind) for kind in ALTERATIONS]).combine_chunks())


def _of_kind(library: Library, split: str, kind: str) -> pa.Table:
    table = library.rococo(kind)
    names = lookup.file_names(library, split, table["image_id"].to_numpy())
    columns = {"kind": pa.array([kind] * table.num_rows), "image_id": table["image_id"], "file_name": names}
    return pa.table(columns | {name: table[name] for name in ("caption_id", "original", "altered")})


CONFIG = DatasetConfig(
    name="rococo",
    title="RoCOCO: captions with one word replaced",
    description="One row per kind and caption of the test split: the caption, and the same caption with a word "
    "replaced so that it should no longer describe the image. The new word is of the same concept (`same_concept`), of "
    "another concept (`diff_concept`), a random word of the vocabulary (`rand_voca`) or a dangerous one (`danger`). "
    "The tasks `rococo_...` add the 25,000 altered captions of a kind to the 25,000 originals that an image ranks.",
    collection="RoCOCO (Park et al., 2023): a program altered the captions; people did not check them. The source "
    "lists five original and five altered captions of an image; they are paired by position.",
    **columns(
        kind=(ClassLabel(names=list(ALTERATIONS)), "what replaces the word"),
        image_id=(Value("int64"), "COCO image id"),
        file_name=(Value("string"), "its file name"),
        caption_id=(Value("int64"), "COCO id of the original caption"),
        original=(Value("string"), "the caption, as COCO has it"),
        altered=(Value("string"), "the altered caption, as RoCOCO has it"),
    ),
    splits=("test",),
    rows=rows,
    sources=("rococo", "karpathy"),
    defects=(
        "Altered captions differ from originals in form: blanks surround punctuation (`clean , spacious`), and those "
        "of `same_concept`, `diff_concept` and `rand_voca` have no full stop at the end and, except for three, no "
        "capital at the beginning. Of the originals, 18,816 end in a full stop and 21,244 begin with a capital. The "
        "source's loader hides this: it lower-cases all captions, removes most punctuation and cuts after 30 words. To "
        "measure the alteration alone, encode both in one form if your model sees case or punctuation.",
        "Three altered captions of `danger` equal their originals byte for byte (caption ids 570396, 784839 and "
        "608017). They tie, and the tie counts against the original.",
        "Altered captions repeat: 24,812 of the 25,000 in `danger` are distinct, 24,993 in `same_concept`, 24,987 in "
        "`rand_voca` and all in `diff_concept`.",
        "In 3 to 8% of the captions of a kind, a repeated word is replaced at each of its places, or several words "
        "replace one.",
        "Ten entries of the source have a sixth original caption between the five and the altered ones. It is left out "
        "here, as in every evaluation of the split. The source's loader counts it as a positive, so its galleries have "
        "50,010 captions.",
    ),
    example='danger = dataset.features["kind"].str2int("danger")\n'
    'row = dataset.filter(lambda row: row["kind"] == danger)[0]\nprint(row["original"], "->", row["altered"])',
    sentences=Sentences("kind", ("ids", "caption_id"), {"embeddings": "altered"}),
)
