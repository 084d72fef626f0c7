"""The entailment-corrected pairs of a user's file: an image with its captions, a hypothesis, and people's verdict."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from cxc_eccv.entailment.training_data.corpus import SPLITS, Corpus, Pairs, keys, make_pairs
from cxc_eccv.errors import SourceMissing
from cxc_eccv.sources.download import where_from
from cxc_eccv.sources.library import Library


def pairs(library: Library, split: str, _threshold: float) -> Pairs:
    """Rows of the file; an image is known by its id, else by its file name in COCO or Flickr30k."""
    labelled = library.entailment(SPLITS[split])
    if labelled is None:
        entry = library.catalog.entry(f"entailment_{split}")
        where = where_from(entry, library.data_dir)
        raise SourceMissing(f"{entry.path} is not at hand: it is the user's own file.\n{where}")
    table = labelled.table
    known = _image_keys(library)
    ids, names, captions = (table[name].to_pylist() for name in ("image_id", "image", "hypothesis_id"))
    return make_pairs(
        table["premise"],
        table["hypothesis"],
        table["label"],
        labelled.left_out,
        image=pa.array([Path(name).name for name in names]),
        image_key=[
            f"coco/{number}" if number is not None else known.get(Path(name).name, f"image/{Path(name).name}")
            for number, name in zip(ids, names, strict=True)
        ],
        caption_key=[None if number is None else f"coco/{number}" for number in captions],
    )


def _image_keys(library: Library) -> Mapping[str, str]:
    found = {}
    contents = [("coco", library.karpathy(split)) for split in library.splits]
    if library.has_flickr30k:
        contents += [("flickr30k", library.flickr30k(split)) for split in library.flickr30k_splits]
    for collection, content in contents:
        found.update(zip(content.images["file_name"].to_pylist(), keys(collection, content.image_ids), strict=True))
    return found


CORPUS = Corpus(
    name="entailment",
    title="Annotated pairs",
    kinds=("text", "visual", "multimodal"),
    rule="label of the file",
    groups=("entailment",),
    expected={"val": 0, "test": 2_000},
    pairs=pairs,
    published="2k",
    published_parts=("test",),
    remark="the paper's test set, which was never released: a file of your own",
)
