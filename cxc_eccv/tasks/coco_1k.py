"""COCO 1K: the original links in five folds of 1,000 images, averaged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.judgments.merging import coco_links
from cxc_eccv.sources.library import Split
from cxc_eccv.sources.reading import read_ids
from cxc_eccv.tasks.task import NotApplicable, Part, Task
from cxc_eccv.types import CROSS_MODAL, IntArray, Judgments, find_positions
from cxc_eccv.types.judgments import orient

COCO_1K_IMAGES = 5_000
COCO_1K_CAPTIONS = 25_000
COCO_1K_FOLDS = 5


def _folded_links(split: Split, direction: str) -> Judgments:
    links = coco_links(split, direction)
    captions, images = _fold_orders(split)
    queries, gallery = orient(images, captions, direction)
    query_folds, gallery_folds = (
        find_positions(ids, order)[0] // (order.size // COCO_1K_FOLDS)
        for ids, order in ((links.query_ids, queries), (links.gallery_ids, gallery))
    )
    return replace(links, query_folds=query_folds, gallery_folds=gallery_folds)


def _fold_orders(split: Split) -> tuple[IntArray, IntArray]:
    """Caption ids and image ids in the order of the folds; images are in the order of their captions."""
    captions = split.caption_ids
    images = split.caption_image_ids
    unique_images = np.unique(images)
    if captions.size != COCO_1K_CAPTIONS or unique_images.size != COCO_1K_IMAGES:
        raise NotApplicable(
            f"needs {COCO_1K_IMAGES:,} images with {COCO_1K_CAPTIONS:,} captions, "
            f"and the {split.name} split has {unique_images.size:,} with {captions.size:,}"
        )
    order = split.library.read("coco_test_ids", read_ids) if split.name == "test" else captions
    if not np.array_equal(np.sort(order), np.sort(captions)):
        raise DataError(
            f"the {order.size:,} captions of coco_test_ids, whose order defines the folds of coco_1k, are not the "
            f"{captions.size:,} captions of the {split.name} split. "
            "Restore the file, or leave out coco_1k."
        )
    ordered_images = images[find_positions(order, captions)[0]]
    first = np.sort(np.unique(ordered_images, return_index=True)[1])
    return order, ordered_images[first]


TASK = Task(
    name="coco_1k",
    title="COCO 1K",
    description=(
        "Retrieval among 1,000 images and their 5,000 captions, averaged over five folds of a COCO Karpathy split. "
        "The folds are cut in file order, and queries rank the items of their fold. The positives are those of COCO "
        "5K."
    ),
    parts=tuple(Part(direction, ranks=_folded_links) for direction in CROSS_MODAL),
    splits=("validation", "test"),
    metrics=("recall_at_k", "rsum"),
    main_metric="rsum",
    citation="Karpathy and Fei-Fei, CVPR 2015, arXiv:1412.2306; Chun et al., ECCV 2022, arXiv:2204.03359",
    licence="CC BY 4.0 (COCO Consortium)",
    sources=("karpathy", "eccv_caption"),
    label_sources=("coco",),
    config="captions",
)
