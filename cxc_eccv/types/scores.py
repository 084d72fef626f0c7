"""Scores: the values of a report by key, with an error for a wrong key that names the right ones."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from cxc_eccv.errors import UnknownScore
from cxc_eccv.types.ids import shorten

KEYS_NAMED = 8
"""Most keys in a message."""


class Scores(dict[str, float]):
    """``task/direction/metric`` to value.

    Raises:
        UnknownScore: a key is looked up that is not here; the message gives the reason if its metric was skipped, and
            the keys that are here, the nearest first.

    Example:
        >>> Scores({"cxc/i2t/map_at_r": 0.5, "cxc/i2t/mrr": 0.75})["cxc/i2t/mAP@R"]
        Traceback (most recent call last):
        cxc_eccv.errors.UnknownScore: no score 'cxc/i2t/mAP@R'; the report has cxc/i2t/map_at_r, cxc/i2t/mrr
    """

    __slots__ = ("skipped",)

    def __init__(self, values: Mapping[str, float], skipped: Mapping[str, str] = {}) -> None:
        super().__init__(values)
        self.skipped = skipped

    def __missing__(self, key: object) -> float:
        """Raise UnknownScore."""
        reason = self._find_reason(str(key))
        if reason is not None:
            raise UnknownScore(f"no score {shorten(key)}: {reason}")
        if not self:
            raise UnknownScore(f"no score {shorten(key)}; the report has no scores")
        written = str(key)[:100].strip().casefold().replace("@", "_at_").replace(" ", "_")
        nearest = difflib.get_close_matches(written, self, n=len(self), cutoff=0)
        message = f"no score {shorten(key)}; the report has {', '.join(nearest[:KEYS_NAMED])}"
        if len(nearest) > KEYS_NAMED:
            message += f", and {len(nearest) - KEYS_NAMED} more: list(report.scores)"
        raise UnknownScore(message)

    def _find_reason(self, key: str) -> str | None:
        """Why the metric of a key, its direction or its task was skipped, or None."""
        while key:
            if key in self.skipped:
                return f"{key} was skipped, as {self.skipped[key]}"
            key = key.rpartition("/")[0]
        return None
