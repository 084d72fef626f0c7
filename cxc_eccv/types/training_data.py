"""What a model was trained on, as its run declares it: a benchmark that it has seen says less about it."""

from __future__ import annotations

from collections.abc import Sequence

from cxc_eccv.errors import InvalidOption

UNKNOWN = "unknown"

DATA_SETS = {
    "coco_train": "COCO train",
    "coco_val": "COCO val",
    "flickr30k": "Flickr30k",
    "web": "web crawl",
    UNKNOWN: "unknown",
}
"""Names that all models share, in words; any other name of a data set is kept as it is."""


def check_training_data(names: Sequence[str]) -> tuple[str, ...]:
    """The names without repeats, ``unknown`` if there are none; raises InvalidOption for one that is not a line.

    Example:
        >>> check_training_data(["coco_train", "laion2b"]), check_training_data([])
        (('coco_train', 'laion2b'), ('unknown',))
    """
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or "," in name:
            raise InvalidOption(
                f"training data {name!r:.60}: give names such as {', '.join(DATA_SETS)}, or those of other data sets"
            )
    distinct = tuple(dict.fromkeys(names)) or (UNKNOWN,)
    if len(distinct) > 1 and UNKNOWN in distinct:
        raise InvalidOption(f"training data: {UNKNOWN} excludes other names; leave it out")
    return distinct


def describe_training_data(names: Sequence[str]) -> str:
    """The names in words.

    Example:
        >>> describe_training_data(["coco_train", "laion2b"])
        'COCO train, laion2b'
    """
    return ", ".join(DATA_SETS.get(name, name) for name in names)
