"""Names of splits: ours, those of raw files, and those that a user may write."""

__all__ = ["RAW_SPLIT", "SPLITS", "SPLIT_NAMES", "SPLIT_OF_RAW"]

SPLITS = ("train", "restval", "validation", "test")

RAW_SPLIT = {"train": "train", "restval": "restval", "validation": "val", "test": "test"}
"""Split to its name in raw files."""

SPLIT_OF_RAW = {raw: split for split, raw in RAW_SPLIT.items()}
"""Name in a raw file to the split."""

SPLIT_NAMES = {"train": "train", "restval": "restval", "val": "validation", "validation": "validation", "test": "test"}
"""Name that a user may write to the split."""
