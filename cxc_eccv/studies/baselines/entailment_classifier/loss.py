"""The targets of the loss, the Trainer and its measures, and what held-out pairs choose: threshold and calibration."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch.optim import Optimizer
from torch.utils.data import DataLoader

from cxc_eccv.encoding.loading import inference
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.studies.baselines.entailment_classifier.data import LengthSampler, PairItems
from cxc_eccv.studies.baselines.entailment_classifier.options import DataOptions
from cxc_eccv.studies.entailment.classifier import EntailmentConfig
from cxc_eccv.studies.entailment.measures import choose_threshold, fit_calibration, measure_classifier
from cxc_eccv.studies.trainers.trainer import WholeTrainer
from cxc_eccv.types import FloatArray

BOUNDARY = 3.0
"""Rating with a soft label of one half."""


def soft_targets(pairs: pa.Table, steepness: float) -> list[float]:
    """Labels; with a steepness, ``1 / (1 + exp(-steepness (rating - 3)))`` for pairs with a rating."""
    labels = np.asarray(pairs["label"], dtype=np.float64)
    if not steepness:
        return [float(label) for label in labels]
    ratings = np.array(pairs["rating"].cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    soft = 1 / (1 + np.exp(-steepness * (ratings - BOUNDARY)))
    return [float(value) for value in np.where(np.isnan(ratings), labels, soft)]


NEW = ("text_head", "visual_head", "joint_head", "text_gate", "visual_gate", "visual_projection", "image_projection")
"""Modules with new weights."""


class EntailmentTrainer(WholeTrainer):
    """Trains a classifier; the measures of the ``held`` pairs at their best threshold choose the checkpoint."""

    def __init__(self, *, held: PairItems | None, threshold_for: str, **options: Any) -> None:  # noqa: ANN401 - Trainer's own
        self.held = held
        self.threshold_for = threshold_for
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
        leads = self.leads(self.held)
        labels = np.asarray(self.held.targets)
        threshold = choose_threshold(leads, labels, for_=self.threshold_for)
        return {rate.name: rate.value for rate in measure_classifier(labels, leads, threshold)}

    def order(self, dataset: Any, seed: int) -> LengthSampler:  # noqa: ANN401 - as WholeTrainer says
        """All pairs, in batches of similar length."""
        return LengthSampler(dataset.lengths, self.args.train_batch_size * self.args.world_size, seed)

    def leads(self, items: PairItems) -> FloatArray:
        """(N,) the entailed logit minus the other, uncalibrated, in the precision of scoring."""
        model: Any = self.accelerator.unwrap_model(self.model)
        leads = np.empty(len(items))
        order = np.argsort(items.lengths, kind="stable").tolist()
        loader = DataLoader(
            items,
            batch_size=self.args.per_device_eval_batch_size,
            sampler=order,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
        )
        done = 0
        with inference(model):
            for batch in loader:
                batch.pop("labels")
                # The class's own forward: --bf16 and --fp16 wrap the instance's.
                logits = type(model).forward(model, **self._prepare_inputs(batch)).logits
                rows = order[done : done + len(logits)]
                leads[rows] = (logits[:, 1].double() - logits[:, 0].double()).cpu().numpy()
                done += len(rows)
        return leads


def settle(config: EntailmentConfig, leads: FloatArray | None, labels: FloatArray, data: DataOptions) -> None:
    """Write calibration and threshold from held-out pairs' (N,) leads into the config; warn if that is impossible."""
    config.threshold = 0.5
    config.calibration_scale = 1.0
    config.calibration_offset = 0.0
    untouched = "the threshold stays 0.5, without calibration"
    if leads is None:
        warnings.warn(f"no pairs are held out: {untouched}", stacklevel=3)
        return
    try:
        scale, offset = fit_calibration(leads, labels)
        threshold = choose_threshold(leads, labels, for_=data.threshold_for, precision=data.precision)
    except (DataError, InvalidOption) as error:
        warnings.warn(f"held-out pairs: {error}; {untouched}", stacklevel=3)
        return
    config.calibration_scale = scale
    config.calibration_offset = offset
    config.threshold = float(1 / (1 + np.exp(-(scale * threshold + offset))))
