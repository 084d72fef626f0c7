"""Co-captions of COCO, Flickr30k and Flickr8k: the captions of an image entail each other."""

from collections.abc import Callable, Mapping

import numpy as np

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.studies.entailment.training_data.corpus import SPLITS, Corpus, Pairs, keys, make_pairs


def _pair(collection: str, content: KarpathySplit, photographs: str) -> Pairs:
    """Every caption as hypothesis, the other captions of its image as premise; always positive."""
    groups: dict[int, list[str]] = {}
    owners, texts = content.caption_image_ids, content.captions["text"].to_pylist()
    for image_id, text in zip(owners.tolist(), texts, strict=True):
        groups.setdefault(image_id, []).append(text)
    places: dict[int, int] = {}
    premises = []
    for image_id in owners.tolist():
        place = places[image_id] = places.get(image_id, -1) + 1
        premises.append(groups[image_id][:place] + groups[image_id][place + 1 :])
    names = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
    return make_pairs(
        premises,
        texts,
        np.ones(len(texts), dtype=np.int8),
        image=[names[image_id] for image_id in owners.tolist()],
        image_key=keys(photographs, owners),
        caption_key=keys(collection, content.caption_ids),
    )


def _corpus(
    name: str,
    title: str,
    group: str,
    expected: Mapping[str, int],
    read: Callable[[Library, str], KarpathySplit],
    photographs: str,
) -> Corpus:
    """The corpus of a collection; ``photographs`` is the collection that numbers its images."""

    def pairs(library: Library, split: str, _threshold: float) -> Pairs:
        return _pair(name, read(library, SPLITS.get(split, split)), photographs)

    return Corpus(
        name=name,
        title=f"Co-captions of {title}",
        kinds=("text", "multimodal"),
        rule="a caption, and the image with its other captions: always positive",
        groups=(group,),
        expected=expected,
        pairs=pairs,
    )


COCO = {"train": 413_915, "restval": 152_520, "val": 25_000, "test": 25_000}
FLICKR30K = {"train": 145_000, "val": 5_070, "test": 5_000}
FLICKR8K = {"train": 30_000, "val": 5_000, "test": 5_000}

CORPORA = (
    _corpus("coco", "COCO", "karpathy", COCO, Library.karpathy, "coco"),
    _corpus("flickr30k", "Flickr30k", "flickr30k", FLICKR30K, Library.flickr30k, "flickr30k"),
    _corpus("flickr8k", "Flickr8k", "flickr8k", FLICKR8K, Library.flickr8k_split, "flickr30k"),
)
