"""Extra steps of one of two processes, which draw from weak positives of their own: equal shares, few, or none."""

import os
import warnings

import torch
import transformers
from torch import distributed

from cxc_eccv.studies.trainers.enhanced import EnhancedTrainer, WeakBatches

SHARES = {"equal": ([0, 1, 2, 3], [4, 5, 6, 7]), "few": ([0, 1, 2], [4]), "none": ([0, 1], [])}
"""Images that have a weak positive on the first process, and on the second."""


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Linear(2, 1)

    def forward(self, inputs):
        return {"loss": self.line(inputs).square().mean()}


def example(image, weak=False):
    return {"image_id": image, "inputs": torch.randn(2, generator=torch.Generator().manual_seed(image + 100 * weak))}


def train(folder, share):
    """What was said, the pairs of each extra batch, and the weights at the end."""
    extra = []

    def load(pairs, step):
        extra.append((step, pairs))
        return [example(image, weak=True) for image, _ in pairs]

    def collate(parts):
        return transformers.default_data_collator([row for part in parts for row in part])

    images = SHARES[share][distributed.get_rank()]
    options = {"use_cpu": True, "ddp_backend": "gloo", "report_to": "none", "save_strategy": "no", "optim": "sgd"}
    options |= {"disable_tqdm": True, "remove_unused_columns": False, "lr_scheduler_type": "constant"}
    trainer = EnhancedTrainer(
        model=Line(),
        args=transformers.TrainingArguments(
            str(folder / share), per_device_train_batch_size=2, learning_rate=0.1, max_steps=2, **options
        ),
        train_dataset=[example(image) for image in range(8)],
        data_collator=transformers.default_data_collator,
        weak_batches=WeakBatches({image: [image] for image in images}, load, collate, size=2),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train()
    said = [str(found.message) for found in caught if "extra batch" in str(found.message)]
    state = trainer.accelerator.unwrap_model(trainer.model).state_dict()
    return {"said": said, "extra": extra, "weights": {name: value.clone() for name, value in state.items()}}


def train_all(folder, rank):
    """Each share; Trainer finds the other process by what torchrun sets."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    return {share: train(folder, share) for share in SHARES}
