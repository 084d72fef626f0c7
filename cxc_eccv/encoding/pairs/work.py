"""PairWork: what a cross-encoder is to score, and the pass that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.encoding.models import LoadedModel, load_model, model_key
from cxc_eccv.encoding.pairs.scorer import PairScorer, PairSide
from cxc_eccv.encoding.processes import joined
from cxc_eccv.encoding.work import (
    FolderStore,
    ImageItem,
    MemoryStore,
    Notes,
    caption_items,
    encoded,
    held,
    image_items,
    parts_folder,
    warn_of,
    write_whole,
)
from cxc_eccv.types import IntArray

__all__ = ["PairWork", "Scored"]

Result = TypeVar("Result")


class Scored(NamedTuple):
    """Scores of pairs.

    Attributes:
        pairs: (P,) ascending numbers: image row times number of captions plus caption row.
        scores: (P,) float32.
    """

    pairs: IntArray
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class PairWork:
    """A cross-encoder with the images and captions whose pairs it is to score.

    Attributes:
        loaded: the model.
        scorer: of its pairs.
        items: image ids with files or images.
        image_ids: (N,) ids of these.
        caption_ids: (M,) ids.
        texts: of the captions.
        skip_bad: leave out images that cannot be read.
    """

    loaded: LoadedModel
    scorer: PairScorer
    items: list[ImageItem]
    image_ids: IntArray
    caption_ids: IntArray
    texts: list[str]
    skip_bad: bool

    @classmethod
    def of(
        cls,
        model: Any,  # noqa: ANN401 - a name or one of several classes
        *,
        images: str | Path | Iterable[tuple[Any, Any]],
        captions: Any,  # noqa: ANN401 - a table or pairs
        processor: Any = None,  # noqa: ANN401 - see load_model
        batch_size: int = 64,
        device: str | None = None,
        dtype: str | None = None,
        skip_bad_images: bool = False,
    ) -> PairWork:
        """The options of :func:`cxc_eccv.encoding.encode`, checked."""
        loaded = load_model(model, processor=processor, device=device, dtype=dtype)
        scorer, items, (caption_ids, texts) = (
            PairScorer(loaded, batch_size),
            image_items(images),
            caption_items(captions),
        )
        image_ids = np.array([number for number, _ in items], dtype=np.int64)
        return cls(loaded, scorer, items, image_ids, caption_ids, texts, skip_bad_images)

    def run(
        self,
        pairs: IntArray,
        result: Callable[[Scored], Result],
        write: Callable[[Path, Result], None],
        path: Path | None,
        progress: bool,
    ) -> Result:
        """Score the pairs, on all processes; the first one warns and writes.

        Args:
            pairs: (P,) ascending numbers of pairs.
            result: what becomes of the scores.
            write: how it is written.
            path: where to, or None.
            progress: show a bar.
        """
        rows, columns = np.divmod(pairs, self.caption_ids.size)
        side = PairSide(self.scorer, self.items, self.texts, rows, columns, self.skip_bad)
        key = "" if path is None else model_key(self.loaded, ["images", "captions"])
        with joined() as processes, held(path, processes.rank):
            store = MemoryStore() if path is None else FolderStore(parts_folder(path), side.name)
            found, notes = encoded(side, store, processes, key=key, progress=progress)
            notes = Notes.joined([notes, Notes(truncated=self.scorer.truncated(self.texts))])
            made = result(Scored(pairs[found.ids], found.vectors[:, 0]))
            processes.wait()
            if processes.rank == 0:
                warn_of(notes)
            if processes.rank == 0 and path is not None:
                facts = {"model": self.loaded.name, "fingerprint": key, "lowercased": self.loaded.lowercases}
                write_whole(path, lambda to: write(to, made), notes, **facts)
            processes.wait()
        return made
