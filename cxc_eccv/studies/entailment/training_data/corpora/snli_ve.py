"""SNLI-VE: does a photograph of Flickr30k entail a hypothesis of SNLI?"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_entailment
from cxc_eccv.studies.entailment.training_data.corpus import Corpus, Pairs, make_pairs

FILES = {
    "snli_ve": {"train": "snli_ve_train", "val": "snli_ve_val", "test": "snli_ve_test"},
    "esnli_ve": {"val": "esnlive_dev", "test": "esnlive_test"},
}
"""Corpus to the raw file of each part; the parts are SNLI-VE's splits, not Karpathy's."""


def _pairs(corpus: str, library: Library, split: str, _threshold: float) -> Pairs:
    """The photograph with its captions in Flickr30k if available, else with the premise of the file."""
    labelled = library.read(FILES[corpus][split], read_entailment)
    captions = library.once("captions of photographs", lambda: _captions(library))
    names = [Path(name).name for name in labelled.table["image"].to_pylist()]
    photos = [_photo(name) for name in names]
    given = labelled.table["premise"].to_pylist()
    return make_pairs(
        [captions.get(photo, premise) for photo, premise in zip(photos, given, strict=True)],
        labelled.table["hypothesis"],
        labelled.table["label"],
        labelled.left_out,
        image=[f"{photo}.jpg" for photo in photos],
        image_key=[f"flickr30k/{photo}" for photo in photos],
    )


def _captions(library: Library) -> Mapping[int, list[str]]:
    captions: dict[int, list[str]] = {}
    for split in library.flickr30k_splits if library.has_flickr30k else ():
        table = library.flickr30k(split).captions
        for photo, text in zip(table["image_id"].to_pylist(), table["text"].to_pylist(), strict=True):
            captions.setdefault(photo, []).append(text)
    return captions


def _photo(name: str) -> int:
    stem = Path(name).stem
    if not (stem.isascii() and stem.isdigit() and len(stem) < 19):
        raise MalformedSource(
            "the labelled pairs of photographs", "", f"image {name!r}", "a name such as 1000092795.jpg"
        )
    return int(stem)


CORPORA = (
    Corpus(
        name="snli_ve",
        title="SNLI-VE",
        kinds=("visual", "multimodal"),
        rule="entailment against neutral and contradiction",
        groups=("snli_ve", "flickr30k"),
        expected={"train": 529_527, "val": 17_858, "test": 17_901},
        pairs=partial(_pairs, "snli_ve"),
        published="529.5k",
        published_parts=("train",),
        remark="listed twice there, as visual and as multimodal data; the 17.8k of val are its development set",
    ),
    Corpus(
        name="esnli_ve",
        title="e-SNLI-VE",
        kinds=("visual", "multimodal"),
        rule="entailment against neutral and contradiction",
        groups=("esnlive", "flickr30k"),
        expected={"val": 14_339, "test": 14_740},
        pairs=partial(_pairs, "esnli_ve"),
    ),
)
