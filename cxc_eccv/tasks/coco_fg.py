"""MSCOCO-FG: refined captions of the test images, and a pool of similar images."""

from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import MalformedSource
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.runs.embeddings import side_of_arrays
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit, read_image_pool, read_refined_captions
from cxc_eccv.tasks.task import Collection, NotApplicable, Task
from cxc_eccv.types import Judgments

CAPTIONS, IMAGES = "coco_fg_captions", "coco_fg_images"
ARRAYS = ("coco_fg_ids", "coco_fg_embeddings")


def content(library: Library, split: str) -> KarpathySplit:
    """The pool of images, and the refined captions with the ids of the captions they were made from."""
    return library.once(("coco_fg", split), lambda: _join(library, split))


def _join(library: Library, split: str) -> KarpathySplit:
    pool, refined = library.read(IMAGES, read_image_pool), library.read(CAPTIONS, read_refined_captions)
    original = library.karpathy(split)
    images, captioned = np.asarray(pool["image_id"]), np.asarray(refined["image_id"])
    for name, ids in ((IMAGES, images), (CAPTIONS, captioned)):
        if lacking := np.setdiff1d(original.image_ids, ids).tolist():
            where = library.catalog.entry(name).path
            raise MalformedSource(where, "", f"no image {lacking[0]}", f"every image of the {split} split")
    if strange := np.setdiff1d(captioned, original.image_ids).tolist():
        where = library.catalog.entry(CAPTIONS).path
        raise MalformedSource(where, f"image {strange[0]}", "captions of it", f"images of the {split} split alone")
    order, places = np.argsort(captioned, kind="stable"), np.argsort(original.caption_image_ids, kind="stable")
    ids = np.empty_like(captioned)
    ids[order] = original.caption_ids[places]
    captions = pa.table({"caption_id": ids, "image_id": captioned, "text": refined["text"]})
    return KarpathySplit(pool, captions, np.empty(0, dtype=np.int64))


def links(library: Library, split: str, direction: str) -> Judgments:
    """The link of each caption to its image; only images with captions are queries, and all images are ranked."""
    pool = content(library, split)
    captions, owners = pool.caption_ids, pool.caption_image_ids
    if direction == "i2t":
        return Judgments.from_pairs(np.unique(owners), captions, owners, captions)
    return Judgments.from_pairs(captions, pool.image_ids, captions, owners)


def view(run: Run) -> Run:
    """The run with the refined captions in place of those of the split."""
    return with_captions(run, *ARRAYS)


def with_captions(run: Run, ids: str, vectors: str) -> Run:
    """The run with the captions of two further arrays in place of its own; raises NotApplicable if it has none."""
    captions = None
    if isinstance(run, EmbeddingsRun):
        captions = side_of_arrays(run.path or "run", run.further, ids, vectors)
    if captions is None or not isinstance(run, EmbeddingsRun):
        raise NotApplicable(f"the run has no arrays {ids} and {vectors}")
    return replace(run, captions=captions)


TASK = Task(
    name="coco_fg",
    title="MSCOCO-FG",
    description=(
        "Image-text retrieval on the COCO Karpathy test split with captions that were refined to tell their image "
        "from similar ones. A caption ranks the test images and many similar ones from COCO's unlabeled images; an "
        "image of the test split ranks all refined captions. A caption is positive only for the image it was written "
        "for."
    ),
    directions={direction: partial(links, direction=direction) for direction in ("i2t", "t2i")},
    splits=("test",),
    metrics=("recall_at_k", "median_rank"),
    main_metric="recall_at_1",
    citation="Chen et al., SIGIR 2023, arXiv:2304.10824",
    licence="no licence file in the source; captions of COCO: CC BY 4.0 (COCO Consortium)",
    sources=("karpathy", "coco_fg"),
    whole=("rsum",),
    collection=Collection(
        "MSCOCO-FG", content, lambda _: ("test",), lambda library: library.has((CAPTIONS, IMAGES)), arrays="coco_fg_"
    ),
    view=view,
)
