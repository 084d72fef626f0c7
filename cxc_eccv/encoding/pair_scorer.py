"""Pairs of an image and a caption to the scores that a cross-encoder gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from cxc_eccv.encoding.images import Inputs, Prepared, group_by_shape, image_input, join_inputs, prepare_image
from cxc_eccv.encoding.models import CROSS_ENCODERS, LoadedModel, load_model, model_key
from cxc_eccv.encoding.processes import join_processes
from cxc_eccv.encoding.shards import Notes, Shard, encode_side, image_identity, lock_output, write_output
from cxc_eccv.encoding.sides import caption_items, image_items, work_ahead
from cxc_eccv.encoding.text_input import TextInput
from cxc_eccv.errors import ModelError
from cxc_eccv.types import IntArray
from cxc_eccv.types.ids import check_whole

__all__ = ["PairScorer", "PairWork"]

IMAGES_AHEAD = 32

Result = TypeVar("Result")


class PairScorer:
    """A callable from N images and N captions to (N,) float32 scores.

    The score is the logit of "match"; of a head with two classes its lead over "no match". Unlike the probability it
    does not run into ties at 1.

    Args:
        loaded: a model with an image-text-matching head (ViLT, BLIP, BridgeTower).
        batch_size: pairs at once.
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
        self.prepare = image_input(loaded)

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of the texts are longer than the model's context, and will be cut."""
        limit = self._texts.limit
        return 0 if limit is None else sum(length > limit for length in self._texts.lengths(texts))

    def __call__(self, images: Sequence[Inputs], texts: Sequence[str]) -> NDArray[np.float32]:
        """(N,) scores; images whose tensors differ in shape go through the model apart."""
        scores = np.empty(len(texts), dtype=np.float32)
        with torch.inference_mode():
            for group in group_by_shape(images):
                tokens = self._texts([texts[place] for place in group]).items()
                inputs = {name: tensor.to(self._loaded.device) for name, tensor in tokens}
                inputs |= join_inputs(self._loaded, [images[place] for place in group])
                scores[group] = _match(self._model(**inputs)).float().cpu().numpy()
        return scores


def _match(output: object) -> torch.Tensor:
    """(N,) logits out of (N, 1), or of (N, 2) for "no match" and "match"."""
    logits: torch.Tensor = output.itm_score if hasattr(output, "itm_score") else output.logits  # type: ignore[attr-defined] # one of the two, by the model's class
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1].float() - logits[:, 0].float()


class PairWork:
    """A cross-encoder with the images and captions whose pairs it is to score; options as of ``encode``.

    A pair has a number: image row times number of captions plus caption row.
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - a name or one of several classes
        *,
        images: str | Path | Iterable[tuple[Any, Any]],
        captions: Any,  # noqa: ANN401 - a table or pairs
        processor: Any = None,  # noqa: ANN401 - see load_model
        batch_size: int = 64,
        device: str | None = None,
        dtype: str | None = None,
        skip_bad_images: bool = False,
    ) -> None:
        self._loaded = load_model(model, processor=processor, device=device, dtype=dtype)
        self.scorer, self.items = PairScorer(self._loaded, batch_size), image_items(images)
        self.caption_ids, self.texts = caption_items(captions)
        self.image_ids = np.array([number for number, _ in self.items], dtype=np.int64)
        self.skip_bad = skip_bad_images

    def run(
        self,
        pairs: IntArray,
        make: Callable[[IntArray, NDArray[np.float32]], Result],
        write: Callable[[Path, Result], None],
        path: Path | None,
        progress: bool,
    ) -> Result:
        """Score pairs, on all processes, and make a result of them, which the first one writes.

        Args:
            pairs: (P,) ascending numbers.
            make: of the numbers that have a score, ascending, and these scores.
            write: the result to a file.
            path: the file, or None.
            progress: show a bar.
        """
        key = "" if path is None else model_key(self._loaded, ["images", "captions"])
        with join_processes() as processes, lock_output(path, processes):
            found, notes = encode_side(_PairSide(self, pairs), path, processes, key=key, progress=progress)
            notes = Notes.join([notes, Notes(truncated=self.scorer.count_truncated(self.texts))])
            result = make(pairs[found.ids], found.vectors[:, 0])
            facts = {"model": self._loaded.name, "fingerprint": key, "lowercased": self._loaded.lowercases}
            write_output(processes, path, lambda to: write(to, result), notes, **facts)
        return result


class _PairSide:
    """Pairs by their ascending numbers, so that those of an image stand together and it is opened once."""

    name = "pairs"
    shard_size = 8192

    def __init__(self, work: PairWork, pairs: IntArray) -> None:
        self._scorer, self._items, self._texts, self._skip_bad = work.scorer, work.items, work.texts, work.skip_bad
        self._image_rows, self._caption_rows = np.divmod(pairs, work.caption_ids.size)
        self.ids = np.arange(pairs.size)

    def identity(self, part: slice) -> list[Any]:
        """The images and captions that occur, and how they pair up."""
        images, captions = np.unique(self._image_rows[part]), np.unique(self._caption_rows[part])
        pairs = [self._image_rows[part].tolist(), self._caption_rows[part].tolist()]
        files = [image_identity(self._items[row][1]) for row in images.tolist()]
        return [self._skip_bad, *pairs, files, [self._texts[row] for row in captions.tolist()]]

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """Score slices of the pairs; (N, 1) scores stand for vectors."""
        rows = chain.from_iterable(np.unique(self._image_rows[part]).tolist() for part in parts)
        prepared = work_ahead(self._prepare, rows, IMAGES_AHEAD)
        for part in parts:
            yield self._shard(part, prepared)

    def _prepare(self, row: int) -> Prepared:
        return prepare_image(self._items[row], self._scorer.prepare, self._skip_bad)

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
            scores += [self._score(good, current)] if good else []
        vectors = np.concatenate(scores) if scores else np.empty(0, dtype=np.float32)
        return Shard(np.array(kept, dtype=np.int64), vectors[:, None], notes)

    def _score(self, pairs: list[int], current: dict[int, Prepared]) -> NDArray[np.float32]:
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
