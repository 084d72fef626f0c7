"""SugarCrepe++: whether two captions that say the same both win over a hard negative, by image and by text alone."""

from dataclasses import replace
from functools import partial

import numpy as np

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import SUGARCREPE_PP_PARTS, KarpathySplit, read_sugarcrepe_pp
from cxc_eccv.tasks.sugarcrepe import images_of, split_of_images
from cxc_eccv.tasks.task import TEXT, Collection, Task
from cxc_eccv.types import Comparisons

FILES = {part: f"sugarcrepe_pp_{part}" for part in SUGARCREPE_PP_PARTS}
"""Part to the catalog's name of its file, which is how the names of a run's arrays begin too."""


def comparisons(library: Library, split: str, part: str, *, of_text: bool) -> Comparisons:
    """The items of one part; intervals draw the images of all parts together."""
    table = library.read(FILES[part], read_sugarcrepe_pp)
    item_ids, image_ids = (np.asarray(table[name]) for name in ("item_id", "image_id"))
    among = images_of(library, FILES.values(), read_sugarcrepe_pp)
    return Comparisons(item_ids, image_ids, among, captions=("caption", "caption2"), of_text=of_text)


def content(library: Library, split: str) -> KarpathySplit:
    """The images; its captions have no ids of COCO."""
    return split_of_images(images_of(library, FILES.values(), read_sugarcrepe_pp))


COLLECTION = Collection(
    "SugarCrepe++", content, lambda _: ("test",), lambda library: library.has(FILES.values()), arrays="sugarcrepe_pp_"
)

TASK = Task(
    name="sugarcrepe_pp",
    title="SugarCrepe++",
    description=(
        "Images of COCO val2017, each with two captions that say the same in other words, and a hard negative. An item "
        "counts if the image scores both captions strictly above the negative. Each of the five parts has its "
        "accuracy, and the whole their mean."
    ),
    directions={part: partial(comparisons, part=part, of_text=False) for part in SUGARCREPE_PP_PARTS},
    splits=("test",),
    metrics=("pairwise_accuracy",),
    main_metric="mean_pairwise_accuracy",
    citation="Dumpala et al., NeurIPS 2024, arXiv:2406.11171",
    licence="CC BY 4.0 (SugarCrepe++); images and captions of COCO: CC BY 4.0 (COCO Consortium)",
    sources=("sugarcrepe_pp",),
    config="sugarcrepe_pp",
    whole=("mean_pairwise_accuracy",),
    serves="comparisons",
    collection=COLLECTION,
)

OF_TEXT = replace(
    TASK,
    name="sugarcrepe_pp_text",
    title="SugarCrepe++ text",
    description=(
        "SugarCrepe++ without the images: an item counts if its two captions are strictly more similar to each other "
        "than either is to the hard negative. Each of the five parts has its accuracy, and the whole their mean."
    ),
    directions={f"{TEXT}{part}": partial(comparisons, part=part, of_text=True) for part in SUGARCREPE_PP_PARTS},
    licence="CC BY 4.0 (SugarCrepe++)",
)

TASKS = (OF_TEXT,)
