"""Pairs of an image with a caption: co-captions, CxC, ECCV Caption, and the entailment-corrected pairs of a user."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from cxc_eccv.errors import SourceMissing
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.collections.flickr8k import COLLECTION as FLICKR8K
from cxc_eccv.sources.collections.flickr30k import COLLECTION as FLICKR30K
from cxc_eccv.sources.download import where_from, why_not_in_edition
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import EntailmentPairs
from cxc_eccv.studies.entailment.training_data.corpora import (
    SPLITS,
    Corpus,
    Pairs,
    captions_of_images,
    keys,
    make_pairs,
    reaches,
)
from cxc_eccv.types import IntArray


def co_captions(library: Library, part: str, *, collection: Collection) -> Pairs:
    """Every caption as hypothesis, the other captions of its image as premise; always positive."""
    content = library.split(SPLITS.get(part, part), collection)
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
        image_key=keys(collection.photographs, owners),
        caption_key=keys(collection.name, content.caption_ids),
    )


def sits_pairs(library: Library, part: str) -> Pairs:
    """Pairs of an image with a caption of another; the image's own captions are its premise."""
    name = SPLITS[part]
    content = library.split(name)
    rated = library.split(name).ratings("sits")
    table = rated.filter(pc.not_equal(rated["sampling_method"], "c2i_original"))
    captions, images, ratings = (np.asarray(table[column]) for column in ("left_id", "right_id", "rating"))
    return make_pairs(
        captions_of_images(content, images),
        content.texts_of(captions),
        reaches(ratings),
        {"pairs of an image with its own caption": rated.num_rows - table.num_rows},
        image=content.files_of(images),
        rating=ratings,
        image_key=keys("coco", images),
        caption_key=keys("coco", captions),
    )


def sts_pairs(library: Library, part: str) -> Pairs:
    """The first caption as premise, without its image, and the second as hypothesis."""
    name = SPLITS[part]
    content = library.split(name)
    table = library.split(name).ratings("sts")
    left, right, ratings = (np.asarray(table[column]) for column in ("left_id", "right_id", "rating"))
    return make_pairs(
        [[text] for text in content.texts_of(left).to_pylist()],
        content.texts_of(right),
        reaches(ratings),
        rating=ratings,
        image_key=keys("coco", content.owners_of(left)),
        caption_key=keys("coco", right),
    )


def eccv_pairs(library: Library, _part: str) -> Pairs:
    """The distinct positives of both directions, without an image's own captions, which are its premise."""
    content = library.split("test")
    both = np.concatenate([_read_eccv(library, "i2t"), _read_eccv(library, "t2i")[:, ::-1]])
    images, captions = np.unique(both, axis=0).T
    known = np.isin(captions, content.caption_ids)
    unknown, (images, captions) = int((~known).sum()), (images[known], captions[known])
    others = content.owners_of(captions) != images
    of_own, (images, captions) = int((~others).sum()), (images[others], captions[others])
    return make_pairs(
        captions_of_images(content, images),
        content.texts_of(captions),
        np.ones(captions.size, dtype=np.int8),
        {"captions outside the split's five per image": unknown, "pairs of an image with its own caption": of_own},
        image=content.files_of(images),
        image_key=keys("coco", images),
        caption_key=keys("coco", captions),
    )


def _read_eccv(library: Library, direction: str) -> IntArray:
    table = library.split("test").eccv("eccv", direction)
    return np.stack([table["query_id"], table["item_id"]], axis=1)


FLICKR_NAME = re.compile(r"(?P<id>[1-9][0-9]{0,17})\.jpg")
COCO_NAME = re.compile(r"(?:COCO_(?:train|val)2014_)?(?P<id>[0-9]{12})\.jpg")


def file_pairs(library: Library, part: str) -> Pairs:
    """The rows of the file; ``image_id``, or else the file name, identifies the image."""
    labelled = library.split(SPLITS[part]).entailment()
    if labelled is None:
        entry = library.catalog.entry(f"entailment_{part}")
        where = where_from(entry, library.data_dir)
        lacking = why_not_in_edition(f"{entry.name} ({entry.path})", library.data_dir)
        raise SourceMissing(lacking or f"{entry.path} is missing; it is a file of your own.\n{where}")
    return pairs_of_labels(labelled)


def pairs_of_labels(labelled: EntailmentPairs) -> Pairs:
    """The pairs of a user's file of labels, in order."""
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
    if match := FLICKR_NAME.fullmatch(name):
        return f"flickr30k/{match['id']}"
    match = COCO_NAME.fullmatch(name)
    if number is None and match is None:
        return None
    return f"coco/{int(match['id']) if number is None and match else number}"


_co_captions = partial(Corpus, rule="a caption, and the image with its other captions: always positive")

CORPORA = (
    _co_captions(
        name="coco",
        groups=("karpathy",),
        parts=("train", "restval", "val", "test"),
        pairs=partial(co_captions, collection=COCO),
    ),
    _co_captions(
        name="flickr30k",
        groups=("flickr30k",),
        parts=("train", "val", "test"),
        pairs=partial(co_captions, collection=FLICKR30K),
    ),
    _co_captions(
        name="flickr8k",
        groups=("flickr8k",),
        parts=("train", "val", "test"),
        pairs=partial(co_captions, collection=FLICKR8K),
    ),
    Corpus(
        name="cxc",
        rule="rating at or above the threshold",
        groups=("cxc", "karpathy"),
        parts=("val", "test"),
        pairs=sits_pairs,
    ),
    Corpus(
        name="cxc_sts",
        rule="rating at or above the threshold",
        groups=("cxc", "karpathy"),
        parts=("val", "test"),
        pairs=sts_pairs,
    ),
    Corpus(
        name="eccv",
        rule="verified by people: always positive",
        groups=("eccv_caption", "karpathy"),
        parts=("test",),
        pairs=eccv_pairs,
    ),
    Corpus(
        name="entailment",
        rule="label of the file",
        groups=("entailment",),
        parts=("val", "test"),
        pairs=file_pairs,
    ),
)
