"""RankingsRun: the ranked items of every query, whole or cut short."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.runs.rankings.ranked_lists import RankedLists
from cxc_eccv.runs.run import sides_of
from cxc_eccv.types import DIRECTIONS, IntArray

__all__ = ["RankingsRun", "direction_of"]


@dataclass(frozen=True, slots=True, eq=False)
class RankingsRun:
    """Rankings of one direction or several.

    The order is trusted. Where scores come with it, equal ones share the tie rule of all runs: a positive stands below
    the items that it ties with. A ranking that is cut short gives the metrics that it is deep enough for.

    Attributes:
        lists: direction (``i2t``, ``t2i``, ``t2t``, ``i2i``) to its ranked lists.

    Raises:
        MalformedRun: no direction at all.
        UnknownName: no such direction.

    Example:
        >>> run = RankingsRun.from_dicts({5: [30, 10, 20]}, {30: [5]})
        >>> run.why_not("t2i"), run.why_not("t2t"), run.ids("captions").tolist()
        (None, 'the run has no t2t rankings', [10, 20, 30])
    """

    kind: ClassVar[str] = "rankings"

    lists: Mapping[str, RankedLists]

    def __post_init__(self) -> None:
        for direction in self.lists:
            if direction not in DIRECTIONS:
                raise UnknownName("direction", direction, DIRECTIONS)
        if not self.lists:
            raise MalformedRun("a rankings run needs at least one direction; this one has none")

    @classmethod
    def from_dicts(
        cls,
        i2t: Mapping[Any, ArrayLike] | None = None,
        t2i: Mapping[Any, ArrayLike] | None = None,
        *,
        t2t: Mapping[Any, ArrayLike] | None = None,
        i2i: Mapping[Any, ArrayLike] | None = None,
    ) -> RankingsRun:
        """A run out of dicts, the first two as ``compute_all_metrics`` of the eccv_caption package takes them.

        Args:
            i2t: image id to ranked caption ids, best first.
            t2i: caption id to ranked image ids.
            t2t: caption id to ranked caption ids; the query itself is left out.
            i2i: image id to ranked image ids; likewise.

        Raises:
            MalformedRun: see :meth:`RankedLists.of <cxc_eccv.runs.rankings.ranked_lists.RankedLists.of>`.
        """
        given = {"i2t": i2t, "t2i": t2i, "t2t": t2t, "i2i": i2i}
        return cls({name: RankedLists.of(one, name) for name, one in given.items() if one is not None})

    @property
    def path(self) -> Path | None:
        """The file that holds all directions, or None."""
        paths = {one.path for one in self.lists.values()}
        return paths.pop() if len(paths) == 1 else None

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None where it can."""
        return None if direction in self.lists else f"the run has no {direction} rankings"

    def ids(self, side: str) -> IntArray:
        """(N,) distinct ids of the ``images`` or ``captions`` that ask or are ranked."""
        found = [np.empty(0, dtype=np.int64)]
        for direction, one in self.lists.items():
            queries, gallery = sides_of(direction)
            found += [one.query_ids] * (queries == side) + [one.item_ids] * (gallery == side)
        return np.unique(np.concatenate(found))

    def depths(self, direction: str) -> IntArray:
        """(Q,) items that each query of a direction ranks; among its own kind, itself is none of them."""
        one = self.lists[direction]
        queries, gallery = sides_of(direction)
        own = (
            np.repeat(one.query_ids, one.depths) == one.items if queries == gallery else np.zeros(one.items.size, bool)
        )
        return np.asarray(one.depths - np.add.reduceat(own.astype(np.int64), one.indptr[:-1]))

    def facts(self) -> dict[str, Any]:
        """Kind; file, hash, number of queries and depth per direction; number of images and captions."""
        directions = {
            direction: {
                "file": one.path.name if one.path else None,
                "sha256": one.sha256,
                **one.facts(self.depths(direction)),
            }
            for direction, one in self.lists.items()
        }
        sides = {side: {"count": self.ids(side).size} for side in ("images", "captions") if self.ids(side).size}
        file = self.path.name if self.path else None
        return {"kind": self.kind, "file": file, "directions": directions, **sides}


NAMED = re.compile(rf"(?<![a-z0-9])({'|'.join(DIRECTIONS)})(?![a-z0-9])")


def direction_of(path: Path, direction: str | None) -> str:
    """The direction asked for, else the one in the file's name.

    Args:
        path: for example ``clip_i2t.trec``.
        direction: what the user said, or None.

    Raises:
        UnknownName: no such direction.
        MalformedRun: the name holds no direction, or several.

    Example:
        >>> direction_of(Path("runs/clip-t2i.trec"), None), direction_of(Path("clip.trec"), "i2t")
        ('t2i', 'i2t')
    """
    if direction is not None:
        if direction not in DIRECTIONS:
            raise UnknownName("direction", direction, DIRECTIONS)
        return direction
    found = set(NAMED.findall(path.stem.lower()))
    if len(found) != 1:
        raise MalformedRun(
            f"{path}: does not say which direction its rankings have. Name the file after it, as in "
            f"{path.stem}_i2t{path.suffix}, or give the direction: --direction i2t, load_run(..., direction='i2t')"
        )
    return str(found.pop())
