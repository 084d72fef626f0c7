"""EntailmentTrainer: a Trainer with a learning rate for new layers, batches of similar length, and its own measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from cxc_eccv.studies.baselines.entailment_classifier.data import LengthSampler, PairItems
from cxc_eccv.studies.baselines.training import WholeTrainer
from cxc_eccv.studies.entailment.measures import choose_threshold, measure_classifier
from cxc_eccv.types import FloatArray

NEW = ("text_head", "visual_head", "joint_head", "text_gate", "visual_gate", "visual_projection", "image_projection")
"""Modules with new weights."""


class EntailmentTrainer(WholeTrainer):
    """Trains a classifier; the measures of the ``held`` pairs at their best threshold choose the checkpoint."""

    def __init__(self, *, held: PairItems | None, threshold_for: str, **options: Any) -> None:  # noqa: ANN401 - Trainer's own
        self.held, self.threshold_for = held, threshold_for
        # Trainer requires an eval_dataset, which our evaluate does not use.
        super().__init__(**{"eval_dataset": held, **options})

    def create_optimizer(self, model: Any = None) -> Optimizer:  # noqa: ANN401 - as Trainer says
        """The optimizer with a separate group for the new layers; biases and norms do not decay, as in Trainer."""
        if self.optimizer is None:
            trained: Any = self.model
            rate = getattr(self.args, "head_learning_rate", None) or self.args.learning_rate
            decayed = set(self.get_decay_parameter_names(trained))
            groups: dict[tuple[bool, bool], list[torch.nn.Parameter]] = {}
            for name, parameter in trained.named_parameters():
                if parameter.requires_grad:
                    groups.setdefault((name.startswith(NEW), name in decayed), []).append(parameter)
            kind, options = self.get_optimizer_cls_and_kwargs(self.args, trained)
            self.optimizer = kind(
                [
                    {
                        "params": parameters,
                        "lr": rate if new else self.args.learning_rate,
                        "weight_decay": self.args.weight_decay if decays else 0.0,
                    }
                    for (new, decays), parameters in groups.items()
                ],
                **options,
            )
        return self.optimizer

    def measure(self) -> dict[str, float]:
        """Accuracy, precision, recall and F0.5 on the held-out pairs, at their best threshold."""
        if self.held is None:
            return {}
        leads, labels = self.leads(self.held), np.asarray(self.held.targets)
        threshold = choose_threshold(leads, labels, for_=self.threshold_for)
        return {rate.name: rate.value for rate in measure_classifier(labels, leads, threshold)}

    def order(self, dataset: Any, seed: int) -> LengthSampler:  # noqa: ANN401 - as WholeTrainer says
        """All pairs, in batches of similar length."""
        return LengthSampler(dataset.lengths, self.args.train_batch_size * self.args.world_size, seed)

    def leads(self, items: PairItems) -> FloatArray:
        """(N,) the entailed logit minus the other, uncalibrated, in the precision of scoring."""
        model: Any = self.accelerator.unwrap_model(self.model)
        was_training, leads = model.training, np.empty(len(items))
        model.eval()
        order = np.argsort(items.lengths, kind="stable").tolist()
        loader = DataLoader(
            items,
            batch_size=self.args.per_device_eval_batch_size,
            sampler=order,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
        )
        done = 0
        with torch.inference_mode():
            for batch in loader:
                batch.pop("labels")
                # The class's own forward: --bf16 and --fp16 wrap the instance's.
                logits = type(model).forward(model, **self._prepare_inputs(batch)).logits
                rows = order[done : done + len(logits)]
                leads[rows] = (logits[:, 1].double() - logits[:, 0].double()).cpu().numpy()
                done += len(rows)
        model.train(was_training)
        return leads
