"""A pass over the score matrix on a torch device: the same layout, the same tie rule, counted there."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from cxc_eccv.ranking.alignment import sides_of
from cxc_eccv.ranking.blocks import Options
from cxc_eccv.ranking.brackets import refuse_extremes
from cxc_eccv.ranking.counting import Counts
from cxc_eccv.ranking.demand import Demand
from cxc_eccv.ranking.passes import prepared
from cxc_eccv.ranking.product import Layout, twins_of
from cxc_eccv.ranking.row_readers import RowReader
from cxc_eccv.ranking.torch_device import full_precision, torch_on
from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.types import IntArray, positions_of

__all__ = ["count_on_device"]

SCORES_AT_ONCE = 2**26
FLAGS_AT_ONCE = 2**25


def count_on_device(
    run: EmbeddingsRun,
    direction: str,
    demand: Demand,
    options: Options,
    device: str,
    readers: Sequence[RowReader] = (),
) -> Counts:
    """Count one direction on a device; every query is a row, which the readers read too, on the processor.

    Scores are float32 products, never TF32. They may differ from those of another device in the last bits, and so may
    the order of items whose scores agree up to these; byte-identical items tie on every device.

    Raises:
        MissingIds: the run lacks queries or gallery items.
        InvalidOption: no such device.
    """
    torch = torch_on(device)
    query_side, gallery_side = sides_of(direction)
    layout = Layout.of(demand.segments)
    rows = prepared(run, query_side, demand.query_ids, options)
    columns = prepared(run, gallery_side, demand.gallery_ids, options, layout)
    if options.similarity == "dot":
        refuse_extremes(rows, columns, demand.query_ids, layout.spread(demand.gallery_ids))
    for reader in readers:
        reader.attach(demand.query_ids, demand.gallery_ids, layout.column, layout.width)
    counter = _DevicePairs(torch, device, demand, layout)
    originals, copies = twins_of(columns)
    padding = torch.from_numpy(layout.padding).to(device)
    sources, targets = (torch.from_numpy(one).to(device) for one in (originals, copies))
    with full_precision(torch, device):
        rows_there, columns_there = (torch.from_numpy(one).to(device) for one in (rows, columns))
        size = options.block_size or max(1, min(len(rows), SCORES_AT_ONCE // layout.width))
        quiet = None if options.progress else True
        for start in tqdm(range(0, len(rows), size), desc=f"ranking {direction}", leave=False, disable=quiet):
            block = rows_there[start : start + size] @ columns_there.T
            block[:, targets] = block[:, sources]
            block[:, padding] = -torch.inf
            if demand.without_self:
                _leave_out_self(torch, block, demand, layout, start)
            counter.count(block, start)
            for reader in readers:
                reader.read(block.cpu().numpy(), start)
    return counter.result


class _DevicePairs:
    """Positive pairs whose query is a row, counted where the scores are."""

    def __init__(self, torch: Any, device: str, demand: Demand, layout: Layout) -> None:  # noqa: ANN401
        self._torch, self._device = torch, device
        self._bounds = list(itertools.pairwise(layout.bounds.tolist()))
        self._order = np.argsort(demand.queries, kind="stable")
        self._rows, self._columns = demand.queries[self._order], layout.column[demand.items[self._order]]
        self._counts = Counts.zeros(self._order.size, demand.n_segments)

    def count(self, block: Any, start: int) -> None:  # noqa: ANN401 - a (B, width) tensor
        first, last = np.searchsorted(self._rows, [start, start + len(block)]).tolist()
        size = max(1, FLAGS_AT_ONCE // block.shape[1])
        for begin in range(first, last, size):
            self._count(block, start, slice(begin, min(begin + size, last)))

    @property
    def result(self) -> Counts:
        back = np.argsort(self._order)
        return Counts(self._counts.scores[back], self._counts.at_least[back], self._counts.above[back])

    def _count(self, block: Any, start: int, pairs: slice) -> None:  # noqa: ANN401 - a (B, width) tensor
        rows, columns = (self._there(one[pairs]) for one in (self._rows - start, self._columns))
        scores, competing = block[rows, columns], block[rows]
        self._counts.scores[pairs] = scores.cpu().numpy()
        for flags, counts in (
            (competing >= scores[:, None], self._counts.at_least),
            (competing > scores[:, None], self._counts.above),
        ):
            sums = [self._torch.count_nonzero(flags[:, left:right], dim=1) for left, right in self._bounds]
            counts[pairs] = self._torch.stack(sums, dim=1).cpu().numpy()

    def _there(self, places: IntArray) -> Any:  # noqa: ANN401 - a tensor
        return self._torch.from_numpy(np.ascontiguousarray(places)).to(self._device)


def _leave_out_self(torch: Any, block: Any, demand: Demand, layout: Layout, start: int) -> None:  # noqa: ANN401
    places, known = positions_of(demand.query_ids[start : start + len(block)], demand.gallery_ids)
    rows = np.flatnonzero(known)
    chosen = (torch.from_numpy(one).to(block.device) for one in (rows, layout.column[places[rows]]))
    block[tuple(chosen)] = -torch.inf
