"""PairScorer: the score that a cross-encoder gives an image together with a caption."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from cxc_eccv.encoding.models import CROSS_ENCODERS, LoadedModel, TextInput
from cxc_eccv.encoding.towers import (
    ImageInput,
    Inputs,
    Prepared,
    done_ahead,
    prepared_image,
    ready_for,
)
from cxc_eccv.encoding.work import ImageItem, Notes, Shard, image_identity
from cxc_eccv.errors import ModelError
from cxc_eccv.types import IntArray, check_whole

__all__ = ["PairScorer", "PairSide"]


class PairScorer:
    """A callable from N images and N captions to (N,) float32 scores.

    The score is the logit of "match"; of a head with two classes its lead over "no match". Unlike the probability it
    does not run into ties at 1.

    Args:
        loaded: a model with an image-text-matching head (ViLT, BLIP, BridgeTower).
        batch_size: pairs at once.

    Raises:
        ModelError: the model has no such head.
    """

    def __init__(self, loaded: LoadedModel, batch_size: int) -> None:
        if not loaded.is_cross_encoder or not isinstance(loaded.model, PreTrainedModel):
            raise ModelError(
                f"{loaded.name} ({type(loaded.model).__name__}) does not score pairs; give one of "
                f"{', '.join(CROSS_ENCODERS)}, or use encode for its embeddings"
            )
        check_whole("batch_size", batch_size)
        self._model, self._loaded, self.batch_size = loaded.model, loaded, batch_size
        self._texts = TextInput(loaded.tokenizer, loaded.model)
        self.prepare = ImageInput(loaded)

    def truncated(self, texts: Sequence[str]) -> int:
        """How many of the texts are longer than the model's context, and will be cut."""
        limit = self._texts.limit
        return 0 if limit is None else sum(length > limit for length in self._texts.lengths(texts))

    def __call__(self, images: Sequence[Inputs], texts: Sequence[str]) -> NDArray[np.float32]:
        """(N,) scores; images whose tensors differ in shape go through the model apart."""
        groups: dict[tuple[torch.Size, ...], list[int]] = {}
        for place, inputs in enumerate(images):
            groups.setdefault(tuple(tensor.shape for tensor in inputs.values()), []).append(place)
        scores = np.empty(len(texts), dtype=np.float32)
        with torch.inference_mode():
            for group in groups.values():
                tokens = self._texts([texts[place] for place in group]).items()
                inputs = {name: tensor.to(self._loaded.device) for name, tensor in tokens}
                inputs |= ready_for(self._loaded, [images[place] for place in group])
                scores[group] = _match(self._model(**inputs)).float().cpu().numpy()
        return scores


def _match(output: object) -> torch.Tensor:
    """(N,) logits out of (N, 1), or of (N, 2) for "no match" and "match"."""
    logits: torch.Tensor = output.itm_score if hasattr(output, "itm_score") else output.logits  # type: ignore[attr-defined] # one of the two, by the model's class
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1].float() - logits[:, 0].float()


IMAGES_AHEAD = 32


class PairSide:
    """Pairs, those of an image together, so that it is opened once.

    Args:
        scorer: of pairs.
        items: ids with files or images.
        texts: of the captions.
        image_rows: (P,) ascending places in ``items``.
        caption_rows: (P,) places in ``texts``.
        skip_bad: leave out the pairs of an image that cannot be read, and note it.
    """

    name = "pairs"
    shard_size = 8192

    def __init__(
        self,
        scorer: PairScorer,
        items: Sequence[ImageItem],
        texts: Sequence[str],
        image_rows: IntArray,
        caption_rows: IntArray,
        skip_bad: bool,
    ) -> None:
        self._scorer, self._items, self._texts, self._skip_bad = scorer, items, texts, skip_bad
        self._image_rows, self._caption_rows = image_rows, caption_rows
        self.ids = np.arange(image_rows.size)

    def identity(self, part: slice) -> list[Any]:
        """The images and captions that occur, and how they pair up."""
        images, captions = np.unique(self._image_rows[part]), np.unique(self._caption_rows[part])
        pairs = [self._image_rows[part].tolist(), self._caption_rows[part].tolist()]
        files = [image_identity(self._items[row][1]) for row in images.tolist()]
        return [self._skip_bad, *pairs, files, [self._texts[row] for row in captions.tolist()]]

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """Score slices of the pairs; (N, 1) scores stand for vectors."""
        rows = chain.from_iterable(np.unique(self._image_rows[part]).tolist() for part in parts)
        prepared = done_ahead(self._prepared, rows, IMAGES_AHEAD)
        for part in parts:
            yield self._shard(part, prepared)

    def _prepared(self, row: int) -> Prepared:
        return prepared_image(self._items[row], self._scorer.prepare, self._skip_bad)

    def _shard(self, part: slice, prepared: Iterator[Prepared]) -> Shard:
        scores, kept, notes = [], [], Notes()
        current: dict[int, Prepared] = {}
        for start in range(part.start, part.stop, self._scorer.batch_size):
            pairs = self.ids[start : min(start + self._scorer.batch_size, part.stop)]
            rows = np.unique(self._image_rows[pairs]).tolist()
            current = {row: current[row] if row in current else next(prepared) for row in rows}
            self._note(pairs, current, notes)
            good = [pair for pair in pairs.tolist() if current[int(self._image_rows[pair])][0] is not None]
            kept += good
            scores += [self._scores(good, current)] if good else []
        vectors = np.concatenate(scores) if scores else np.empty(0, dtype=np.float32)
        return Shard(np.array(kept, dtype=np.int64), vectors[:, None], notes)

    def _scores(self, pairs: list[int], current: dict[int, Prepared]) -> Any:  # noqa: ANN401 - (N,) float32
        images = [current[int(self._image_rows[pair])][0] for pair in pairs]
        texts = [self._texts[int(self._caption_rows[pair])] for pair in pairs]
        return self._scorer([inputs for inputs in images if inputs is not None], texts)

    def _note(self, pairs: IntArray, current: dict[int, Prepared], notes: Notes) -> None:
        """Note an image where its first pair is, so that it counts once."""
        for pair in pairs.tolist():
            row = int(self._image_rows[pair])
            inputs, remark = current[row]
            if inputs is None:
                notes.skipped[self._items[row][0]] = remark
            elif remark != "RGB" and (pair == 0 or self._image_rows[pair - 1] != row):
                notes.converted[remark] = notes.converted.get(remark, 0) + 1
