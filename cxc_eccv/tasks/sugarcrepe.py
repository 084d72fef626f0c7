"""SugarCrepe: whether an image scores its caption above a hard negative, in seven parts."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import SUGARCREPE_PARTS, KarpathySplit, read_sugarcrepe
from cxc_eccv.tasks.task import Collection, Task
from cxc_eccv.types import Comparisons, IntArray

FILES = {part: f"sugarcrepe_{part}" for part in SUGARCREPE_PARTS}
"""Part to the name of its file in the catalog, which is also the prefix of a run's arrays."""


def images_of(library: Library, files: Iterable[str], read: Callable[[Path], pa.Table]) -> IntArray:
    """(I,) ids of the images of all parts."""
    tables = [library.read(name, read) for name in files]
    return np.unique(np.concatenate([np.asarray(table["image_id"]) for table in tables]))


def comparisons(library: Library, split: str, part: str) -> Comparisons:
    """The items of one part; intervals draw images of all parts, as an image may occur in several."""
    table = library.read(FILES[part], read_sugarcrepe)
    among = images_of(library, FILES.values(), read_sugarcrepe)
    return Comparisons(np.asarray(table["item_id"]), np.asarray(table["image_id"]), among)


def content(library: Library, split: str) -> KarpathySplit:
    """The images, without captions, as these have no COCO ids."""
    return split_of_images(images_of(library, FILES.values(), read_sugarcrepe))


def split_of_images(ids: IntArray) -> KarpathySplit:
    """Images of COCO val2017 without captions."""
    names = [f"{number:012d}.jpg" for number in ids]
    images = pa.table({"image_id": ids, "file_name": names, "folder": ["val2017"] * ids.size})
    none = pa.array([], pa.int64())
    captions = pa.table({"caption_id": none, "image_id": none, "text": pa.array([], pa.string())})
    return KarpathySplit(images, captions, np.empty(0, dtype=np.int64))


TASK = Task(
    name="sugarcrepe",
    title="SugarCrepe",
    description=(
        "Images of COCO val2017, each with a caption and a hard negative: the caption with an object, an attribute or "
        "a relation replaced, two of them swapped, or one added. An item counts if its image scores the caption "
        "strictly above the negative; a tie does not count. Each of the seven parts has an accuracy; their plain mean "
        "is the score of the whole."
    ),
    directions={part: partial(comparisons, part=part) for part in SUGARCREPE_PARTS},
    splits=("test",),
    metrics=("pairwise_accuracy",),
    main_metric="mean_pairwise_accuracy",
    citation="Hsieh et al., NeurIPS 2023, arXiv:2306.14610",
    licence="MIT (SugarCrepe); images and captions of COCO: CC BY 4.0 (COCO Consortium)",
    sources=("sugarcrepe",),
    config="sugarcrepe",
    whole=("mean_pairwise_accuracy",),
    serves="comparisons",
    collection=Collection(
        "SugarCrepe", content, lambda _: ("test",), lambda library: library.has(FILES.values()), arrays="sugarcrepe_"
    ),
)
