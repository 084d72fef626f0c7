"""Entailment-enhanced training: each step is followed by one on a batch of weak positives, at a smaller learning rate.

Weak positives are captions of other images that a classifier judges to be entailed. They are trained in separate
batches, which have their own learning rate (variable learning rate, section 4 of the paper on multi-modal entailment
for retrieval). Models and losses stay unchanged.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from transformers import Trainer, TrainerCallback

from cxc_eccv.errors import InvalidOption
from cxc_eccv.types import IntArray

if TYPE_CHECKING:
    import datasets

Row = dict[str, Any]
"""An item of the training data, or a batch of them: what a data set, a collator and a Trainer hand on."""

IMAGE_KEY = "image_id"
Pair = tuple[int, int]


class WeakBatches:
    """Draws weak positives for the images of a batch, and makes a batch of them.

    The draw depends on the seed, the step, the process and the images only, so a resumed run draws the same pairs. A
    batch holds an image and a caption at most once.

    Args:
        captions: image id to the ids of its weak positives.
        load: called with some (image id, caption id) pairs of a batch and the number of the step, in a thread: slow
            work, such as opening images, belongs here.
        collate: called with the results of ``load`` for the parts of a batch, in order; makes the model's inputs.
        size: pairs of a batch; smaller if fewer images have weak positives.
        seed: seed of the draws.

    Raises:
        InvalidOption: a size below 1.

    Example:
        >>> weak = WeakBatches({7: [71, 72], 8: [81], 9: []}, lambda pairs, step: pairs, list, size=2)
        >>> weak.draw([8, 5], step=1)[0], len(weak.draw([5], step=1))
        ((8, 81), 2)
    """

    def __init__(
        self,
        captions: Mapping[int, Sequence[int] | IntArray],
        load: Callable[..., Any],
        collate: Callable[[list[Any]], Row],
        *,
        size: int,
        seed: int = 0,
    ) -> None:
        if size < 1:
            raise InvalidOption(f"size={size}: a batch of weak positives needs at least one pair")
        self.captions = {image: ids for image, ids in captions.items() if len(ids)}
        self.load = load
        self.collate = collate
        self.size = size
        self.seed = seed

    @classmethod
    def of_rows(
        cls,
        captions: Mapping[int, Sequence[int]],
        rows: datasets.Dataset,
        collate: Callable[[list[Row]], Row],
        *,
        size: int,
        seed: int = 0,
    ) -> Self:
        """Batches of rows like those of the config ``pairs``: an image's row with the caption of another image.

        Weak positives whose image or caption has no row are left out and counted in a warning; InvalidOption if none is
        left.
        """
        images, texts = ({number: row for row, number in enumerate(rows[name])} for name in ("image_id", "caption_id"))
        known = {
            image: [caption for caption in ids if caption in texts]
            for image, ids in captions.items()
            if image in images
        }
        total, left = (sum(map(len, mapping.values())) for mapping in (captions, known))
        if not left:
            raise InvalidOption(f"none of {total} weak positives has both its image and its caption in the rows")
        if left < total:
            warnings.warn(f"{total - left} of {total} weak positives have no row and are left out", stacklevel=2)
        others = rows.select_columns(["caption_id", "caption"])

        def load(pairs: list[Pair], step: int) -> list[Row]:
            return [rows[images[image]] | others[texts[caption]] for image, caption in pairs]

        return cls(known, load, lambda parts: collate(list(chain.from_iterable(parts))), size=size, seed=seed)

    def draw(self, images: Iterable[int], *, step: int, rank: int = 0) -> list[Pair]:
        """Draw (image id, caption id) pairs: first for these images, then for others."""
        random = np.random.default_rng([self.seed, step, rank])
        given = [image for image in dict.fromkeys(images) if image in self.captions]
        drawn: dict[int, int] = {}
        taken: set[int] = set()
        for image in chain(_shuffle(given, random), _shuffle(self.captions, random)):
            if len(drawn) == self.size:
                break
            free = [] if image in drawn else [caption for caption in self.captions[image] if caption not in taken]
            if free:
                drawn[image] = int(free[random.integers(len(free))])
                taken.add(drawn[image])
        return list(drawn.items())


def _shuffle(ids: Iterable[int], random: np.random.Generator) -> Iterator[int]:
    yield from random.permutation(np.fromiter(ids, dtype=np.int64)).tolist()


class EnhancedTrainer(Trainer):
    """A Trainer that follows each step with a step on weak positives at ``alpha`` times the learning rate.

    Use it directly, or as a mixin before another Trainer: ``class Mine(EnhancedTrainer, MyTrainer)``. Rows, or batches,
    need the ids of their images as ``image_id``; the model does not get them.

    The extra step uses the Trainer's loss, clipping, precision and optimizer, and updates the optimizer's moments. It
    follows the step of the accumulated gradients, on one batch, at the learning rates of that step; it changes neither
    the schedule nor the count of steps. With ``alpha`` 1 the extra batches count like the others; with ``alpha`` 0
    there is no extra step, and the run equals one without weak positives, bit for bit. With several processes all
    extra batches have the size of the smallest; if that is 0, no process takes the step, and a warning at the end says
    how often. ``dataloader_num_workers`` threads load the extra batch while the step before it is computed.

    Args:
        weak_batches: source of the extra batches; None for no extra batches.
        alpha: factor of the learning rate, from 0 to 1; 0.3 in the paper.
        options: options of ``transformers.Trainer``.

    Raises:
        InvalidOption: an alpha out of range, batches without ``image_id``, or DeepSpeed, which runs its own steps.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - Trainer's own
        weak_batches: WeakBatches | None = None,
        alpha: float = 0.3,
        **options: Any,  # noqa: ANN401 - likewise
    ) -> None:
        if not 0 <= alpha <= 1:
            raise InvalidOption(f"alpha={alpha}: give a factor of the learning rate from 0 to 1")
        self.weak_batches = weak_batches if alpha else None
        self.alpha = alpha
        self._images: list[int] = []
        self._without = 0
        self._threads: ThreadPoolExecutor | None = None
        self._coming: Iterator[Any] | None = None
        super().__init__(*arguments, **options)
        if self.weak_batches is not None:
            self.data_collator = _WithImages(self.data_collator)
            if self.is_deepspeed_enabled:
                raise InvalidOption("weak positives do not work with DeepSpeed; train with DDP or FSDP")
            self.add_callback(_ExtraSteps(self))

    def images_of(self, inputs: Row) -> list[int]:
        """Remove the image ids from a batch and return them; override it if they are elsewhere."""
        ids = inputs.pop(IMAGE_KEY, None)
        if ids is None and self.weak_batches is not None:
            raise InvalidOption(
                f"a batch has no {IMAGE_KEY}, which weak positives are drawn by: train on rows that have it, and keep "
                "the column with remove_unused_columns=False"
            )
        return [] if ids is None else [int(image) for image in ids]

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: Row,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Take a step as Trainer does, and start loading the next weak positives."""
        images = self.images_of(inputs)
        if self.weak_batches is not None:
            self._images += images
            if (step := self.step_of_extra_batch()) is not None:
                self._begin_extra_batch(self.weak_batches, step)
        return super().training_step(model, inputs, num_items_in_batch)

    def prediction_step(self, model: Any, inputs: Row, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - Trainer's own
        """Predict as Trainer does, without the image ids."""
        inputs.pop(IMAGE_KEY, None)
        return super().prediction_step(model, inputs, *arguments, **options)

    def step_of_extra_batch(self) -> int | None:
        """The number of the step that an extra batch follows, or None if the batch only accumulates gradients."""
        return self.state.global_step + 1 if self.accelerator.sync_gradients else None

    def _begin_extra_batch(self, weak: WeakBatches, step: int) -> None:
        images = self._images
        self._images = []
        pairs = weak.draw(images, step=step, rank=self.args.process_index)
        # All processes must join in, and losses over all of them need batches of equal size.
        sizes = self.accelerator.gather(torch.tensor([len(pairs)], device=self.accelerator.device))
        smallest = int(sizes.min())
        if not smallest:
            self._without += 1
            return
        workers = self.args.dataloader_num_workers
        if workers and self._threads is None:
            self._threads = ThreadPoolExecutor(workers)
        size = -(-smallest // max(1, workers))
        parts = [pairs[start : min(start + size, smallest)] for start in range(0, smallest, size)]
        load = partial(weak.load, step=step)
        self._coming = map(load, parts) if self._threads is None else self._threads.map(load, parts)

    def train_on_weak_positives(self) -> bool:
        """Add the gradient of the loaded batch of weak positives; False if there is none."""
        coming = self._coming
        self._coming = None
        if self.weak_batches is None or coming is None:
            return False
        batch = self.weak_batches.collate(list(coming))
        batch.pop(IMAGE_KEY, None)
        super().training_step(self.model_wrapped, batch)
        return True

    def _take_extra_step(self, rates: Sequence[Any]) -> None:
        """Take one optimizer step on weak positives; ``rates`` are the learning rates of the step before."""
        accumulated = self.current_gradient_accumulation_steps
        self.current_gradient_accumulation_steps = 1
        trained = self.train_on_weak_positives()
        self.current_gradient_accumulation_steps = accumulated
        if not trained:
            return
        if self.args.max_grad_norm > 0:
            self.accelerator.clip_grad_norm_(self.model_wrapped.parameters(), self.args.max_grad_norm)
        optimizer: Any = self.optimizer  # there is one by now
        groups = optimizer.param_groups
        # The schedule has advanced, and some schedules compute the next rate from the current one.
        following = [group["lr"] for group in groups]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = self.alpha * rate
        optimizer.step()
        for group, rate in zip(groups, following, strict=True):
            group["lr"] = rate
        self.model_wrapped.zero_grad()


@dataclass(frozen=True, slots=True)
class _WithImages:
    """A data collator that keeps the image ids of rows that have them."""

    collate: Callable[[list[Any]], Row]

    def __call__(self, rows: list[Any]) -> Row:
        ids = [row[IMAGE_KEY] for row in rows if isinstance(row, Mapping) and IMAGE_KEY in row]
        return {**({IMAGE_KEY: torch.tensor(ids)} if len(ids) == len(rows) else {}), **self.collate(rows)}


class _ExtraSteps(TrainerCallback):
    """Takes the extra step at the end of each step, after the schedule saw whether the optimizer skipped its step."""

    def __init__(self, trainer: EnhancedTrainer) -> None:
        self.trainer = trainer
        self.rates: list[Any] = []

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - Trainer's
        self.rates = [group["lr"] for group in others["optimizer"].param_groups]

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - likewise
        self.trainer._take_extra_step(self.rates)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - likewise
        without = self.trainer._without
        self.trainer._without = 0
        if self.trainer._threads is not None:
            self.trainer._threads.shutdown()
            self.trainer._threads = None
        if without and state.is_world_process_zero:
            warnings.warn(
                f"{without} of {state.global_step} steps had no extra batch: a process had no weak positives left",
                stacklevel=2,
            )
