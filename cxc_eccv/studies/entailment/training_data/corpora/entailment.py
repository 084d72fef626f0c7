"""The entailment-corrected pairs of a user's file: an image with its captions, a hypothesis, and people's verdict."""

import re
from pathlib import Path

from cxc_eccv.errors import SourceMissing
from cxc_eccv.sources.download import where_from, why_not_in_edition
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import SPLITS, Corpus, Pairs, make_pairs

FLICKR = re.compile(r"(?P<id>[1-9][0-9]{0,17})\.jpg")
COCO = re.compile(r"(?:COCO_(?:train|val)2014_)?(?P<id>[0-9]{12})\.jpg")


def pairs(library: Library, split: str, _threshold: float) -> Pairs:
    """The rows of the file; ``image_id``, or else the file name, identifies the image."""
    labelled = library.entailment(SPLITS[split])
    if labelled is None:
        entry = library.catalog.entry(f"entailment_{split}")
        where = where_from(entry, library.data_dir)
        lacking = why_not_in_edition(f"{entry.name} ({entry.path})", library.data_dir)
        raise SourceMissing(lacking or f"{entry.path} is missing; it is a file of your own.\n{where}")
    table = labelled.table
    names = [Path(name).name for name in table["image"].to_pylist()]
    images = [_image_key(name, number) for name, number in zip(names, table["image_id"].to_pylist(), strict=True)]
    captions = [
        f"coco/{number}" if number is not None and (image or "").startswith("coco/") else None
        for image, number in zip(images, table["caption_id"].to_pylist(), strict=True)
    ]
    return make_pairs(
        table["premise"],
        table["hypothesis"],
        table["label"],
        labelled.left_out,
        image=names,
        image_key=images,
        caption_key=captions,
    )


def _image_key(name: str, number: int | None) -> str | None:
    """The key of an image: Flickr30k names files by photo number, COCO by a prefix or twelve digits."""
    if match := FLICKR.fullmatch(name):
        return f"flickr30k/{match['id']}"
    match = COCO.fullmatch(name)
    if number is None and match is None:
        return None
    return f"coco/{int(match['id']) if number is None and match else number}"


CORPUS = Corpus(
    name="entailment",
    title="Annotated pairs",
    kinds=("text", "visual", "multimodal"),
    rule="label of the file",
    groups=("entailment",),
    expected={"val": None, "test": 2_000},
    pairs=pairs,
    published="2k",
    published_parts=("test",),
    remark="the paper's test set, never released; a file of your own in its layout is counted",
)
