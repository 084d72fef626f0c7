"""Pairs of an image with a caption: co-captions, CxC, ECCV Caption, and the entailment-corrected pairs of a user."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
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
    Corpus,
    Pairs,
    make_pairs,
    reaches,
)
from cxc_eccv.studies.trainers.training_record import SPLIT_OF_PART, make_keys


def co_captions(library: Library, part: str, *, collection: Collection) -> Pairs:
    """Every caption as hypothesis, the other captions of its image as premise; always positive."""
    content = library.split(SPLIT_OF_PART.get(part, part), collection)
    owners = content.caption_image_ids
    places = pd.Series(owners).groupby(owners).cumcount().tolist()
    groups = content.captions_of(owners).to_pylist()
    return make_pairs(
        [texts[:place] + texts[place + 1 :] for texts, place in zip(groups, places, strict=True)],
        content.captions["text"],
        np.ones(owners.size, dtype=np.int8),
        image=content.files_of(owners),
        image_key=make_keys(collection.photographs, owners),
        caption_key=make_keys(collection.name, content.caption_ids),
    )


def sits_pairs(library: Library, part: str) -> Pairs:
    """Pairs of an image with a caption of another; the image's own captions are its premise."""
    content = library.split(SPLIT_OF_PART[part])
    rated = content.ratings("sits")
    table = rated.filter(pc.not_equal(rated["sampling_method"], "c2i_original"))
    captions, images, ratings = (np.asarray(table[column]) for column in ("left_id", "right_id", "rating"))
    return make_pairs(
        content.captions_of(images),
        content.texts_of(captions),
        reaches(ratings),
        {"pairs of an image with its own caption": rated.num_rows - table.num_rows},
        image=content.files_of(images),
        rating=ratings,
        image_key=make_keys("coco", images),
        caption_key=make_keys("coco", captions),
    )


def sts_pairs(library: Library, part: str) -> Pairs:
    """The first caption as premise, without its image, and the second as hypothesis."""
    content = library.split(SPLIT_OF_PART[part])
    table = content.ratings("sts")
    left, right, ratings = (np.asarray(table[column]) for column in ("left_id", "right_id", "rating"))
    return make_pairs(
        [[text] for text in content.texts_of(left).to_pylist()],
        content.texts_of(right),
        reaches(ratings),
        rating=ratings,
        image_key=make_keys("coco", content.owners_of(left)),
        caption_key=make_keys("coco", right),
    )


def eccv_pairs(library: Library, _part: str) -> Pairs:
    """The distinct positives of both directions, without an image's own captions, which are its premise."""
    content = library.split("test")
    by_image, by_caption = (content.eccv("eccv", direction) for direction in ("i2t", "t2i"))
    images = np.concatenate([by_image["query_id"], by_caption["item_id"]])
    captions = np.concatenate([by_image["item_id"], by_caption["query_id"]])
    images, captions = np.unique([images, captions], axis=1)
    known = np.isin(captions, content.caption_ids)
    images = images[known]
    captions = captions[known]
    others = content.owners_of(captions) != images
    images = images[others]
    captions = captions[others]
    return make_pairs(
        content.captions_of(images),
        content.texts_of(captions),
        np.ones(captions.size, dtype=np.int8),
        {
            "captions outside the split's five per image": int((~known).sum()),
            "pairs of an image with its own caption": int((~others).sum()),
        },
        image=content.files_of(images),
        image_key=make_keys("coco", images),
        caption_key=make_keys("coco", captions),
    )


FLICKR_NAME = re.compile(r"(?P<id>[1-9][0-9]{0,17})\.jpg")
COCO_NAME = re.compile(r"(?:COCO_(?:train|val)2014_)?(?P<id>[0-9]{12})\.jpg")


def file_pairs(library: Library, part: str) -> Pairs:
    """The rows of the file; ``image_id``, or else the file name, identifies the image."""
    labelled = library.split(SPLIT_OF_PART[part]).entailment()
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


LINKED = "a caption, and the image with its other captions: always positive"
RATED = "rating at or above the threshold"
SPLIT_PARTS = ("train", "val", "test")

CORPORA = (
    Corpus("coco", LINKED, ("karpathy",), ("train", "restval", "val", "test"), partial(co_captions, collection=COCO)),
    Corpus("flickr30k", LINKED, ("flickr30k",), SPLIT_PARTS, partial(co_captions, collection=FLICKR30K)),
    Corpus("flickr8k", LINKED, ("flickr8k",), SPLIT_PARTS, partial(co_captions, collection=FLICKR8K)),
    Corpus("cxc", RATED, ("cxc", "karpathy"), ("val", "test"), sits_pairs),
    Corpus("cxc_sts", RATED, ("cxc", "karpathy"), ("val", "test"), sts_pairs),
    Corpus("eccv", "verified by people: always positive", ("eccv_caption", "karpathy"), ("test",), eccv_pairs),
    Corpus("entailment", "label of the file", ("entailment",), ("val", "test"), file_pairs),
)
