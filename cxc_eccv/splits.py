"""Names of splits in this package, in raw files, and in options."""

SPLITS = ("train", "restval", "validation", "test")

RAW_SPLIT = {"train": "train", "restval": "restval", "validation": "val", "test": "test"}

SPLIT_OF_RAW = {raw: split for split, raw in RAW_SPLIT.items()}

SPLIT_NAMES = {"train": "train", "restval": "restval", "val": "validation", "validation": "validation", "test": "test"}
