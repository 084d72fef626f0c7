"""THumB: correlation of similarities with people's ratings of how precise captions are."""

import numpy as np
import pyarrow as pa

from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit, read_thumb
from cxc_eccv.tasks.coco_fg import with_captions
from cxc_eccv.tasks.task import Collection, Task
from cxc_eccv.types import RatedPairs


def content(library: Library, split: str) -> KarpathySplit:
    """The 500 images, and the rated captions under the number of their row."""
    table, images = library.read("thumb", read_thumb), library.images(split)
    shown = images.filter(pa.array(np.isin(np.asarray(images["image_id"]), np.asarray(table["image_id"]))))
    captions = pa.table({"caption_id": table["item_id"], "image_id": table["image_id"], "text": table["caption"]})
    return KarpathySplit(shown, captions, np.empty(0, dtype=np.int64))


def ratings(library: Library, split: str) -> RatedPairs:
    """Every caption with its image and its precision, 1 to 5."""
    table = library.read("thumb", read_thumb)
    return RatedPairs(*(np.asarray(table[name]) for name in ("image_id", "item_id", "precision")))


def view(run: Run) -> Run:
    """A run with the rated captions for those of the split."""
    return with_captions(run, "thumb_ids", "thumb_embeddings")


TASK = Task(
    name="thumb",
    title="THumB",
    description=(
        "Rank correlation of similarities with human ratings, from 1 to 5, of how precise captions are: five captions "
        "of each of 500 COCO test images, one of them COCO's. Captions are named by their place in the file, from 0."
    ),
    directions={},
    rated={"precision": ratings},
    splits=("test",),
    metrics=("kendall_tau_c", "spearman_all_pairs"),
    main_metric="kendall_tau_c",
    citation="Kasai et al., NAACL 2022, arXiv:2111.08940",
    licence="none stated in the source (THumB): use your own download, and do not pass it on",
    sources=("karpathy", "thumb"),
    collection=Collection(
        "THumB", content, lambda _: ("test",), lambda library: library.has(["thumb"]), arrays="thumb_"
    ),
    view=view,
)
