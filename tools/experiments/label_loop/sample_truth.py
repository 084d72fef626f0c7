"""The truth of the embedded sample, whose generator knows which captions are true of which images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.readers import read_positives
from cxc_eccv.studies.annotation.proposing.pool import Pairs
from cxc_eccv.types import IntArray, find_positions

__all__ = ["Truth"]


class Truth:
    """Which captions of a split are true of which images, in data whose catalog has a file ``truth``.

    Example:
        >>> truth = Truth(Library("sample"), "validation")
        >>> content = truth.content
        >>> int(truth((content.caption_image_ids, content.caption_ids)).sum()), truth.total
        (298, 613)
    """

    def __init__(self, library: Library, split: str) -> None:
        if not library.has(["truth"]):
            raise DataError(
                f"nobody knows all captions that are true of the images of these data (edition {library.edition}): "
                "simulate rounds on the sample (--data-dir sample), or hide labels that are known (--hide eccv)"
            )
        self.content: Split = library.split(split)
        table = library.read("truth", read_positives)
        own = find_positions(np.asarray(table["query_id"]), self.content.image_ids)[1]
        images, captions = (np.asarray(table[name])[own] for name in ("query_id", "item_id"))
        self.pairs = Pairs(self.content)
        self._true = self.pairs.of_ids(images, captions, "the truth")

    def __call__(self, pairs: tuple[IntArray, IntArray]) -> NDArray[np.bool_]:
        """(P,) whether the caption of each pair is true of its image."""
        return np.isin(self.pairs.of_ids(*pairs, "the truth"), self._true)

    @property
    def total(self) -> int:
        """How many pairs are true."""
        return self._true.size
