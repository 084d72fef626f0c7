"""In-batch losses of dual encoders over a similarity matrix, across processes, and the Trainer that minimises them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import TrainerCallback, TrainerState

from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.dual_encoder.chunks import encode_in_chunks
from cxc_eccv.studies.baselines.dual_encoder.data import BatchPositives, EpochSampler, WeakPositives
from cxc_eccv.studies.trainers.enhanced import EnhancedTrainer, Row
from cxc_eccv.studies.trainers.trainer import WholeTrainer, gather
from cxc_eccv.training.contrastive import in_batch_softmax, mean_of_positives

Metrics = dict[str, float]


def softmax_without_positive(similarities: torch.Tensor, positives: torch.Tensor) -> torch.Tensor:
    r"""The CxC paper's loss as printed (arXiv 2004.15020, eq. 1), without positives in the denominator.

    :math:`L_i = -\frac{1}{|P_i|} \sum_{p \in P_i} S_{ip} + \log \sum_{j \notin P_i} e^{S_{ij}}`. It has no lower bound.
    Shapes are those of :func:`in_batch_softmax`; ignored items have a similarity of minus infinity, and a row with
    only these as negatives has a loss of 0. InvalidOption if a row has no negative, as in a batch of one pair.
    """
    if positives.all(1).any():
        raise InvalidOption("a row of the batch has no negative; use batches of at least two pairs")
    negatives = similarities.masked_fill(positives, float("-inf"))
    lonely = negatives.isneginf().all(1)
    losses = negatives.masked_fill(lonely[:, None], 0).logsumexp(1) - mean_of_positives(similarities, positives)
    return losses.masked_fill(lonely, 0)


def triplet_loss(similarities: torch.Tensor, positives: torch.Tensor, *, margin: float, negatives: str) -> torch.Tensor:
    r"""The hinge losses of the models in ECCV Caption's appendix D.2: (K,) means over the positives of each row.

    A positive p and a negative n of row i cost :math:`[m - S_{ip} + S_{in}]_+`. A positive's loss is the sum over
    ``all`` negatives (VSE0), the cost of the ``hardest``, the most similar one (VSE++, arXiv 1707.05612, eq. 6), or the
    cost of the most similar ``semi_hard`` one, which is less similar than the positive (arXiv 1503.03832, section 3.2),
    and 0 without any. Ignored items of the (K, N) similarities have minus infinity.
    """
    rows, columns = positives.nonzero(as_tuple=True)
    matched = similarities[rows, columns, None]
    others = similarities.masked_fill(positives, float("-inf"))[rows]
    if negatives == "semi_hard":
        others = others.masked_fill(others >= matched, float("-inf"))
    costs = (margin - matched + others).clamp(min=0)
    sums = costs.sum(1) if negatives == "all" else costs.amax(1)
    return torch.zeros_like(similarities[:, 0]).index_add(0, rows, sums) / positives.sum(1)


SOFTMAXES = {"softmax": in_batch_softmax, "paper": softmax_without_positive}
TRIPLETS = {"triplet_all": "all", "triplet_semi_hard": "semi_hard", "triplet_hardest": "hardest"}
"""Name on the command line to the loss of each row, or to the negatives of a triplet loss."""


class Items(NamedTuple):
    """(K, D) features of items of a batch, and their (K,) positions among all training captions or images."""

    features: torch.Tensor
    indices: torch.Tensor


MODES = {"t2t": ("t2t",), "i2t": ("i2t", "t2i"), "t2t+i2t": ("i2t", "t2i", "t2t")}
"""DE_T2T, DE_I2T and DE_T2T+I2T of the CxC paper, to the directions whose mean R@10 selects the best checkpoint."""


@dataclass(frozen=True, slots=True)
class Objective:
    """The loss to minimise (arXiv 2004.15020, eq. 2): ``i2t + t2i + c * t2t``, with ``text_weight`` c.

    The ``margin`` is in units of the unscaled dot product. ``ignored`` items are not used as negatives of each other,
    though they may not match.
    """

    mode: str = "t2t+i2t"
    loss: str = "paper"
    text_weight: float = 1.0
    margin: float = 0.2
    positives: BatchPositives = field(default_factory=BatchPositives)
    ignored: BatchPositives = field(default_factory=BatchPositives)

    def spare(self, weak: WeakPositives, use: str) -> Objective:
        """The objective with weak positives as positives or ignored, so that they are no negatives."""
        described = BatchPositives.described(weak.groups, weak.matrix)
        if use == "multi_positive":
            return replace(self, positives=self.positives.united(described))
        return replace(self, ignored=described)

    @property
    def has_images(self) -> bool:
        """Whether it trains on pairs of images and captions."""
        return "i2t" in self.mode

    @property
    def has_text_pairs(self) -> bool:
        """Whether it trains on pairs of captions."""
        return "t2t" in self.mode

    def __call__(
        self,
        texts: torch.Tensor,
        images: torch.Tensor | None,
        scale: torch.Tensor,
        text_index: torch.Tensor,
        image_index: torch.Tensor,
    ) -> torch.Tensor:
        """Loss of this process's rows against the items of all processes; the mean over processes is the batch's loss.

        ``texts`` are (K, D) features, or (2 K, D) of pairs of captions, left ones first; ``images`` (K, D), or None.
        """
        count = len(image_index)
        total = texts.new_zeros((), dtype=torch.float32)
        left = Items(texts[:count], text_index[:count])
        if images is not None:
            pictures = Items(images, image_index)
            total = total + self._one_way("i2t", pictures, left, scale) + self._one_way("t2i", left, pictures, scale)
        if self.has_text_pairs:
            weight = self.text_weight if images is not None else 1.0
            right = Items(texts[count:], text_index[count:])
            both = self._one_way("t2t", left, right, scale) + self._one_way("t2t", right, left, scale)
            total = total + weight * both
        return total

    def _one_way(self, direction: str, queries: Items, items: Items, scale: torch.Tensor) -> torch.Tensor:
        """The loss of this process's queries against the items of all processes."""
        columns = gather(items.indices)
        offset = current_processes().rank * len(queries.indices)
        positives = self.positives.mark(direction, queries.indices, columns, offset=offset)
        ignored = self.ignored.mark(direction, queries.indices, columns, offset=offset) & ~positives
        return self.compare(queries.features, gather(items.features), scale, (positives, ignored))

    def compare(
        self,
        queries: torch.Tensor,
        items: torch.Tensor,
        scale: torch.Tensor,
        masks: tuple[torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """Mean loss of (K, D) queries against (N, D) items, with (K, N) masks of positives and of ignored items."""
        positives, ignored = masks
        # Logits and their sums of exponentials need float32 even if features are bf16.
        similarities = queries.float() @ items.float().T
        if self.loss in SOFTMAXES:
            similarities = scale.float() * similarities
        similarities = similarities.masked_fill(ignored, float("-inf"))
        if self.loss in TRIPLETS:
            return triplet_loss(similarities, positives, margin=self.margin, negatives=TRIPLETS[self.loss]).mean()
        return SOFTMAXES[self.loss](similarities, positives).mean()


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

    ``weak_positives_as`` says what ``weak_batches`` are: ``extra_batch`` a step that follows each step, ``weight`` a
    loss, times the ``weight`` of the batch, that is added to that of each batch.
    """

    # The loss is a mean over the batch: Trainer divides it when it accumulates gradients.
    loss_is_scaled_for_ga = False

    objective: Objective

    def __init__(
        self,
        *,
        objective: Objective,
        score: Callable[[Any], Metrics] | None = None,
        paper_schedule: bool = True,
        weak_positives_as: str = "extra_batch",
        chunk_size: int | None = None,
        **options: Any,  # noqa: ANN401 - Trainer's own
    ) -> None:
        self.objective = objective
        self.score = score
        self.paper_schedule = paper_schedule
        self._adds_batches = weak_positives_as == "weight"
        # Trainer requires an eval_dataset, which our evaluate does not use.
        super().__init__(**{"eval_dataset": options.get("train_dataset"), **options})
        self.add_callback(CollapseCallback(self))
        if chunk_size is not None:
            encode_in_chunks(self.model, chunk_size)

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
            self.train_on_weak_positives()  # none is left for an extra step
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
