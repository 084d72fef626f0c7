"""Entailment-enhanced training: after each batch an extra one of weak positives, with a smaller learning rate.

Weak positives are captions of other images that a classifier takes to be entailed. Within a batch the learning rate is
the same for all, so they make batches of their own (variable learning rate, section 4 of the paper on multi-modal
entailment for retrieval). No model and no loss has to know of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainerCallback

from cxc_eccv.errors import InvalidOption
from cxc_eccv.types import IntArray

if TYPE_CHECKING:
    import datasets

IMAGE_KEY = "image_id"
"""Under which a batch holds the ids of its images."""

Pair = tuple[int, int]


class WeakBatches:
    """Draws weak positives for the images of a batch, and makes a batch of them.

    What is drawn depends on the seed, the step, the process and the images alone, so that a run that goes on from a
    checkpoint draws the same. A batch holds an image and a caption at most once.

    Args:
        captions: image id to the ids of its weak positives.
        load: called with some of a batch's pairs of image id and caption id and with the number of the step, in one of
            the data loader's workers: what takes long, such as opening images, belongs here.
        collate: called with what ``load`` gave for the parts of a batch, in their order, for what a model trains on: as
            the data collator makes a batch of such pairs.
        size: pairs of a batch; where there are fewer images with weak positives, it is smaller.
        seed: of what is drawn.

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
        load: Callable[[list[Pair], int], Any],
        collate: Callable[[list[Any]], dict[str, Any]],
        *,
        size: int,
        seed: int = 0,
    ) -> None:
        if size < 1:
            raise InvalidOption(f"size={size}: a batch of weak positives needs at least one")
        self.captions = {image: ids for image, ids in captions.items() if len(ids)}
        self.load, self.collate, self.size, self.seed = load, collate, size, seed

    @classmethod
    def of_rows(
        cls,
        captions: Mapping[int, Sequence[int]],
        rows: datasets.Dataset,
        collate: Callable[[list[dict[str, Any]]], dict[str, Any]],
        *,
        size: int,
        seed: int = 0,
    ) -> Self:
        """Batches of rows as the config ``pairs`` has them: an image's row with the caption of another.

        Weak positives whose image or caption has no row are left out and counted in a warning; InvalidOption where none
        is left. The loader's workers read the rows; ``collate`` runs in the process that trains.
        """
        images, texts = ({number: row for row, number in enumerate(rows[name])} for name in ("image_id", "caption_id"))
        known = {
            image: [caption for caption in ids if caption in texts]
            for image, ids in captions.items()
            if image in images
        }
        total, left = (sum(map(len, found.values())) for found in (captions, known))
        if not left:
            raise InvalidOption(f"none of {total} weak positives is of an image and a caption of the rows")
        if left < total:
            warnings.warn(f"{total - left} of {total} weak positives have no row and are left out", stacklevel=2)
        load = _RowsOfPairs(rows, rows.select_columns(["caption_id", "caption"]), images, texts)
        return cls(known, load, lambda parts: collate(list(chain.from_iterable(parts))), size=size, seed=seed)

    def draw(self, images: Iterable[int], *, step: int, rank: int = 0) -> list[Pair]:
        """Pairs of image and caption: first for the images given, then for others."""
        random = np.random.default_rng([self.seed, step, rank])
        given = [image for image in dict.fromkeys(images) if image in self.captions]
        found: dict[int, int] = {}
        taken: set[int] = set()
        for image in chain(_shuffle(given, random), _shuffle(self.captions, random)):
            if len(found) == self.size:
                break
            free = [] if image in found else [caption for caption in self.captions[image] if caption not in taken]
            if free:
                found[image] = int(free[random.integers(len(free))])
                taken.add(found[image])
        return list(found.items())


def _shuffle(ids: Iterable[int], random: np.random.Generator) -> Iterator[int]:
    yield from random.permutation(np.fromiter(ids, dtype=np.int64)).tolist()


@dataclass(frozen=True, slots=True)
class _RowsOfPairs:
    """The rows of some pairs: all of the image's, with the caption of another."""

    rows: datasets.Dataset
    captions: datasets.Dataset
    row_of_image: Mapping[int, int]
    row_of_caption: Mapping[int, int]

    def __call__(self, pairs: list[Pair], step: int) -> list[dict[str, Any]]:
        return [
            self.rows[self.row_of_image[image]] | self.captions[self.row_of_caption[caption]]
            for image, caption in pairs
        ]


class _Parts(Dataset[Any]):
    """What ``load`` gives for (pairs, step), as a data loader asks for it."""

    def __init__(self, load: Callable[[list[Pair], int], Any]) -> None:
        self.load = load

    def __getitem__(self, part: tuple[list[Pair], int]) -> Any:  # noqa: ANN401 - whatever load gives
        return self.load(*part)


class _PartLoader:
    """Loads the parts of one batch at a time, in as many workers as the data loader of the training has."""

    def __init__(self, load: Callable[[list[Pair], int], Any], workers: int) -> None:
        self._parts: list[tuple[list[Pair], int]] = []
        self._count = max(1, 2 * workers)  # a data loader gives each worker two items in advance
        self._loader = DataLoader(
            _Parts(load),
            batch_size=None,
            sampler=self._parts,
            collate_fn=_as_is,
            num_workers=workers,
            persistent_workers=workers > 0,
            generator=torch.Generator(),  # the training's own draws stay what they are
        )

    def begin(self, pairs: list[Pair], step: int) -> Iterator[Any]:
        """Set the workers to it, and give what they load in the order of the pairs."""
        sizes = range(0, len(pairs), -(-len(pairs) // self._count))
        self._parts[:] = [(pairs[start : start + sizes.step], step) for start in sizes]
        return iter(self._loader)


def _as_is(part: Any) -> Any:  # noqa: ANN401 - whatever load gives
    return part


class EnhancedTrainer(Trainer):
    """A Trainer that takes a step on weak positives, at ``alpha`` times the learning rate, after each of its own.

    It serves as it is, and as a mixin before a Trainer of your own: ``class Mine(EnhancedTrainer, MyTrainer)``. Rows
    have the id of their image as ``image_id``, or batches have those ids; the model does not see them.

    The extra step is what a step of the Trainer is: the same loss, clipping, precision and optimizer, whose moments it
    changes too. It follows the step that accumulated gradients take, is one batch itself, and uses the learning rates
    of that step; neither the schedule nor the count of steps knows of it. With ``alpha`` 1 a run is that on all
    batches in their order; with ``alpha`` 0 no extra step is taken, and a run is that without weak positives, bit for
    bit. On several processes all take the step, on as many pairs as the one with the fewest has; where that is none,
    none does, and a warning at the end counts how often. Extra batches are loaded by as many workers as those of the
    Trainer (``dataloader_num_workers``), while the step before them is computed.

    Args:
        weak_batches: what the extra batches are drawn from; None for none.
        alpha: factor of the learning rate, from 0 to 1; the paper's is 0.3.
        options: those of ``transformers.Trainer``.

    Raises:
        InvalidOption: an alpha out of range, batches without ``image_id``, or DeepSpeed, which steps by itself.
    """

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - Trainer's own
        weak_batches: WeakBatches | None = None,
        alpha: float = 0.3,
        **options: Any,  # noqa: ANN401 - likewise
    ) -> None:
        if not 0 <= alpha <= 1:
            raise InvalidOption(f"alpha={alpha}: the factor of the learning rate of weak positives is from 0 to 1")
        self.weak_batches, self.alpha = weak_batches if alpha else None, alpha
        self._images: list[int] = []
        self._without = 0
        self._loader: _PartLoader | None = None
        self._coming: Iterator[Any] | None = None
        super().__init__(*arguments, **options)
        if self.weak_batches is not None:
            self.data_collator = _WithImages(self.data_collator)
            if self.is_deepspeed_enabled:
                raise InvalidOption("weak positives: DeepSpeed takes its steps by itself; train with DDP or FSDP")
            self.add_callback(_ExtraSteps(self))

    def images_of(self, inputs: dict[str, Any]) -> list[int]:
        """The ids of a batch's images, which are taken out of it; override it where a batch has them elsewhere."""
        ids = inputs.pop(IMAGE_KEY, None)
        if ids is None and self.weak_batches is not None:
            raise InvalidOption(
                f"a batch without {IMAGE_KEY}, by which its weak positives are drawn: train on rows that have it, and "
                "keep the column with remove_unused_columns=False"
            )
        return [] if ids is None else [int(image) for image in ids]

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """As Trainer's; begins to load the weak positives that come next."""
        images = self.images_of(inputs)
        if self.weak_batches is not None:
            self._images += images
            if (step := self.step_of_extra_batch()) is not None:
                self._begin_extra_batch(self.weak_batches, step)
        return super().training_step(model, inputs, num_items_in_batch)

    def prediction_step(self, model: Any, inputs: dict[str, Any], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - Trainer's own
        """As Trainer's, without the ids of images."""
        inputs.pop(IMAGE_KEY, None)
        return super().prediction_step(model, inputs, *arguments, **options)

    def step_of_extra_batch(self) -> int | None:
        """The number of the step that an extra batch follows, or None after a batch that only adds to a step."""
        return self.state.global_step + 1 if self.accelerator.sync_gradients else None

    def _begin_extra_batch(self, weak: WeakBatches, step: int) -> None:
        images, self._images = self._images, []
        pairs = weak.draw(images, step=step, rank=self.args.process_index)
        # A process that stayed away would leave the others waiting; losses over all processes need batches of one size.
        sizes = self.accelerator.gather(torch.tensor([len(pairs)], device=self.accelerator.device))
        smallest = int(sizes.min())
        if not smallest:
            self._without += 1
            return
        if self._loader is None:
            self._loader = _PartLoader(weak.load, self.args.dataloader_num_workers)
        self._coming = self._loader.begin(pairs[:smallest], step)

    def train_on_weak_positives(self) -> bool:
        """Add the gradient of the batch of weak positives that was begun; False where there is none."""
        coming, self._coming = self._coming, None
        if self.weak_batches is None or coming is None:
            return False
        batch = self.weak_batches.collate(list(coming))
        batch.pop(IMAGE_KEY, None)
        super().training_step(self.model_wrapped, batch)
        return True

    def _take_extra_step(self, rates: Sequence[Any]) -> None:
        """One optimizer step on weak positives, where ``rates`` were those of the step before."""
        accumulated, self.current_gradient_accumulation_steps = self.current_gradient_accumulation_steps, 1
        found = self.train_on_weak_positives()
        self.current_gradient_accumulation_steps = accumulated
        if not found:
            return
        if self.args.max_grad_norm > 0:
            self.accelerator.clip_grad_norm_(self.model_wrapped.parameters(), self.args.max_grad_norm)
        optimizer: Any = self.optimizer  # there is one by now
        groups = optimizer.param_groups
        # The schedule has moved on already, and some schedules compute the next rate from this one.
        following = [group["lr"] for group in groups]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = self.alpha * rate
        optimizer.step()
        for group, rate in zip(groups, following, strict=True):
            group["lr"] = rate
        self.model_wrapped.zero_grad()


@dataclass(frozen=True, slots=True)
class _WithImages:
    """Adds the ids of images to what a data collator makes of rows that have them."""

    collate: Callable[[list[Any]], dict[str, Any]]

    def __call__(self, rows: list[Any]) -> dict[str, Any]:
        ids = [row[IMAGE_KEY] for row in rows if isinstance(row, Mapping) and IMAGE_KEY in row]
        return {**({IMAGE_KEY: torch.tensor(ids)} if len(ids) == len(rows) else {}), **self.collate(rows)}


class _ExtraSteps(TrainerCallback):
    """Takes the extra steps after a step ended: the schedule must first know whether the optimizer skipped its own."""

    def __init__(self, trainer: EnhancedTrainer) -> None:
        self.trainer = trainer
        self.rates: list[Any] = []

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - Trainer's
        self.rates = [group["lr"] for group in others["optimizer"].param_groups]

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - likewise
        self.trainer._take_extra_step(self.rates)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - likewise
        without, self.trainer._without, self.trainer._loader = self.trainer._without, 0, None
        if without and state.is_world_process_zero:
            warnings.warn(
                f"{without} of {state.global_step} steps had no extra batch: a process had no weak positive to draw",
                stacklevel=2,
            )
