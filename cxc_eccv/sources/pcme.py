"""PCME's caption id lists of the Karpathy splits (arXiv 2101.05068), a second record of who is in which split."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from cxc_eccv.sources.reading import read_ids

__all__ = ["read_id_list"]


def read_id_list(path: Path) -> pa.Table:
    """Read one ``coco_*_ids.npy``.

    Returns:
        ``caption_id`` int64, in file order (the Karpathy order).

    Raises:
        MalformedSource: not an npy file of unique whole numbers.
    """
    return pa.table({"caption_id": read_ids(path)})
