"""The Trainer of dual encoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import TrainerCallback, TrainerState

from cxc_eccv.studies.baselines.dual_encoder.arguments import DualEncoderTrainingArguments
from cxc_eccv.studies.baselines.dual_encoder.chunks import encode_in_chunks
from cxc_eccv.studies.baselines.dual_encoder.data import EpochSampler
from cxc_eccv.studies.baselines.dual_encoder.losses import Objective
from cxc_eccv.studies.trainers.enhanced import EnhancedTrainer, Row, WeakBatches
from cxc_eccv.studies.trainers.gathering import gather
from cxc_eccv.studies.trainers.trainer import WholeTrainer

Metrics = dict[str, float]


LOSS = "last_batch_loss"
LOSS_OF_EQUAL_VECTORS = "last_batch_loss_of_equal_vectors"
SPREAD = "last_batch_spread"
"""Entries of the log about the batch of the last step."""

COLLAPSED_SPREAD = 0.05
COLLAPSED_DISTANCE = 0.03
"""Of a model that collapsed, at most: the spread of its vectors, of which dropout is a part, and the distance of its
loss from that of equal vectors, as a share of the latter."""


def measure_spread(vectors: torch.Tensor) -> float:
    """Mean squared distance of (N, D) vectors from their mean, as a share of their mean squared length.

    Example:
        >>> measure_spread(torch.eye(2)), measure_spread(torch.ones(2, 3))
        (0.5, 0.0)
    """
    single = vectors.float()
    return float((single - single.mean(0)).square().sum() / single.square().sum())


class CollapseCallback(TrainerCallback):
    """Adds to the log, and so to the last checkpoint, what shows whether the last step's vectors were equal."""

    def __init__(self, trainer: DualEncoderTrainer) -> None:
        self.trainer = trainer

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - Trainer's
        """Compare the batch after the last step of the run."""
        if state.global_step == state.max_steps:
            state.log_history.append({"step": state.global_step, **self.trainer.compare_with_equal_vectors()})


def describe_collapse(state: TrainerState) -> list[str]:
    """A sentence if the vectors were equal at the last step of a run, else nothing."""
    rows = [row for row in state.log_history if SPREAD in row]
    if not rows:
        return []
    loss, equal, spread = (rows[-1][name] for name in (LOSS, LOSS_OF_EQUAL_VECTORS, SPREAD))
    if spread > COLLAPSED_SPREAD or abs(loss - equal) > COLLAPSED_DISTANCE * abs(equal):
        return []
    return [
        f"The training collapsed: in the last batch all vectors were about equal, and the loss, {loss:.4g}, was about "
        f"that of equal vectors, {equal:.4g}. Give a lower --learning-rate, or clip gradients with --max-grad-norm 1."
    ]


def staircase(step: int) -> float:
    """The paper's factor of the learning rate: 0.1% less after every 1000 steps."""
    return float(0.999 ** (step // 1000))


class DualEncoderTrainer(EnhancedTrainer, WholeTrainer):
    """Trains a model with ``text_embeds`` and ``image_embeds``; ``score`` computes the metrics of a model.

    The loss of ``added_batches`` of weak positives, times their ``weight``, is added to that of each batch.
    """

    # The loss is a mean over the batch: Trainer divides it when it accumulates gradients.
    loss_is_scaled_for_ga = False

    args: DualEncoderTrainingArguments
    objective: Objective

    def __init__(
        self,
        *,
        objective: Objective,
        score: Callable[[Any], Metrics] | None = None,
        paper_schedule: bool = True,
        added_batches: WeakBatches | None = None,
        **options: Any,  # noqa: ANN401 - Trainer's own
    ) -> None:
        self.objective = objective
        self.score = score
        self.paper_schedule = paper_schedule
        # Trainer requires an eval_dataset, which our evaluate does not use.
        super().__init__(**{"eval_dataset": options.get("train_dataset"), **options})
        self.add_callback(CollapseCallback(self))
        if self.args.chunk_size is not None:
            encode_in_chunks(self.model, self.args.chunk_size)
        self._adds_batches = added_batches is not None
        self.weak_batches = added_batches or self.weak_batches

    def images_of(self, inputs: Row) -> list[int]:
        """The positions of the batch's images."""
        positions: list[int] = inputs["image_index"].tolist()
        return positions

    def step_of_extra_batch(self) -> int | None:
        """The step of EnhancedTrainer's extra batch, or the current step for batches whose loss is added."""
        return self.state.global_step if self._adds_batches else super().step_of_extra_batch()

    def training_step(self, *arguments: Any, **options: Any) -> torch.Tensor:  # noqa: ANN401 - Trainer's own
        """Add the gradients of a batch and of its added weak positives; return the loss of the batch."""
        loss = super().training_step(*arguments, **options)
        if self._adds_batches:
            self.train_on_weak_positives()
        return loss

    def compute_loss(self, model: torch.nn.Module, inputs: Row, *_: Any, **_options: Any) -> torch.Tensor:  # noqa: ANN401 - Trainer's own
        """The objective on one batch, against the batches of all processes."""
        indices = {name: inputs.pop(name) for name in ("text_index", "image_index")}
        weight = inputs.pop("weight", 1.0)
        outputs = model(**inputs)
        images = outputs.image_embeds if self.objective.has_images else None
        scale = self._scale(outputs)
        loss = self.objective(outputs.text_embeds, images, scale, **indices)
        self._last_batch = outputs.text_embeds.detach(), None if images is None else images.detach(), scale.detach()
        self._last_indices = indices
        self._last_loss = loss.detach()
        weighted: torch.Tensor = weight * loss
        return weighted

    @torch.no_grad()
    def compare_with_equal_vectors(self) -> Metrics:
        """The loss of the last batch, its loss if all its vectors were equal, and the spread of its vectors."""
        texts, images, scale = self._last_batch
        all_texts = gather(texts)
        all_images = None if images is None else gather(images)
        equal_texts = all_texts.mean(0).expand_as(texts)
        equal_images = None if images is None or all_images is None else all_images.mean(0).expand_as(images)
        equal = self.objective(equal_texts, equal_images, scale, **self._last_indices)
        losses = gather(torch.stack([self._last_loss, equal])[None]).mean(0)
        spreads = [measure_spread(side) for side in (all_texts, all_images) if side is not None]
        return {LOSS: float(losses[0]), LOSS_OF_EQUAL_VECTORS: float(losses[1]), SPREAD: max(spreads)}

    def create_scheduler(self, num_training_steps: int, optimizer: Optimizer | None = None) -> LRScheduler:
        """The paper's staircase, or the schedule of the arguments."""
        if not self.paper_schedule:
            return super().create_scheduler(num_training_steps, optimizer)
        if self.lr_scheduler is None:
            chosen: Any = self.optimizer if optimizer is None else optimizer
            self.lr_scheduler = LambdaLR(chosen, staircase)
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def measure(self) -> Metrics:
        """The library's metrics on the whole validation split, under their report keys."""
        return {} if self.score is None else self.score(self.accelerator.unwrap_model(self.model))

    def order(self, dataset: Any, seed: int) -> EpochSampler:  # noqa: ANN401 - as WholeTrainer says
        """All images, in an order that depends on seed and epoch."""
        return EpochSampler(len(dataset), seed)

    def _scale(self, outputs: Any) -> torch.Tensor:  # noqa: ANN401 - our output or a CLIP-like one
        # Models like CLIP have the logarithm of the factor, and return features of unit length.
        model = self.accelerator.unwrap_model(self.model)
        scale: torch.Tensor = outputs.scale if "scale" in outputs else model.logit_scale.exp()
        return scale
