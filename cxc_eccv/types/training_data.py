"""What a model was trained on: names of data sets, checked and described."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cxc_eccv.errors import InvalidOption

UNKNOWN_DATA = "unknown"

TRAINING_SETS = {
    "coco_train": "COCO train",
    "coco_val": "COCO val",
    "coco": "COCO (split not stated)",
    "flickr30k": "Flickr30k",
    "web": "web crawl",
    UNKNOWN_DATA: "unknown",
}
"""Names that all models share, in words; any other name of a data set is kept as it is."""

FROM_CARD = "the model's card, which may not list all"
"""Source of training data in reports, if it is not the caller."""

COLLECTION_SPELLINGS = {
    "coco": re.compile(r"(?<![a-z])(ms[-_ ]?)?coco(?![a-z])", re.IGNORECASE),
    "flickr30k": re.compile(r"(?<![a-z])flickr[-_ ]?30k", re.IGNORECASE),
}
"""Names of collections to how they are written in names of data sets and in texts."""


def name_collections(texts: Iterable[str]) -> list[str]:
    """The collections of photographs among ours that texts name.

    Example:
        >>> name_collections(["embedding-data/flickr30k-captions", "MS-COCO, coconuts"]), name_collections(["coconuts"])
        (['coco', 'flickr30k'], [])
    """
    texts = list(texts)
    return [name for name, spelling in COLLECTION_SPELLINGS.items() if any(map(spelling.search, texts))]


def check_training_data(names: Sequence[str]) -> tuple[str, ...]:
    """The names without repeats, ``unknown`` if there are none; raises InvalidOption for one that is not a line.

    Example:
        >>> check_training_data(["coco_train", "laion2b"]), check_training_data([])
        (('coco_train', 'laion2b'), ('unknown',))
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidOption(f"training data {names!r:.60}: give a list of names")
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or "," in name:
            raise InvalidOption(
                f"training data {name!r:.60}: give names such as {', '.join(TRAINING_SETS)}, or those of other data "
                "sets"
            )
    distinct = tuple(dict.fromkeys(names)) or (UNKNOWN_DATA,)
    if len(distinct) > 1 and UNKNOWN_DATA in distinct:
        raise InvalidOption(f"training data: {UNKNOWN_DATA} excludes other names; leave it out")
    return distinct


def describe_training_data(names: Sequence[str], source: str | None = None) -> str:
    """The names in words, and that the model's card may lack some if it is the source.

    Example:
        >>> describe_training_data(["coco_train", "laion2b"])
        'COCO train, laion2b'
        >>> describe_training_data(["coco"], FROM_CARD)
        'COCO (split not stated); its card lists these, perhaps not all'
    """
    listed = ", ".join(TRAINING_SETS.get(name, name) for name in names)
    if source == FROM_CARD:
        return f"{listed}; its card lists these, perhaps not all"
    return listed
