"""Train with several positives per image with your own ``transformers.Trainer``.

    python examples/train_trainer.py         # the embedded sample: offline, seconds

Three things differ from training on pairs only: the collator, the loss, and ``remove_unused_columns=False``. Rows and
images come from the config ``pairs``, the matches from ``retrieval``, whose judgments name their sources. Towers and
inputs are those of ``train_pytorch.py``.

The sample's validation split stands in for training data with judged positives. In the real data only validation and
test have any, and training on them spoils comparisons: mine weak positives of the training split.
"""

import tempfile

import torch
from train_pytorch import BATCH, EPOCHS, SHOWN, TEMPERATURE, Processor, Towers, encode, load_pairs
from transformers import Trainer, TrainingArguments

import cxc_eccv as ce


class MultiPositiveTrainer(Trainer):
    """A Trainer of a model that gives similarities of images to captions."""

    loss_is_scaled_for_ga = False  # the loss is a mean: Trainer divides it where it accumulates gradients

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> object:
        """The loss over all positives of the batch."""
        positives = inputs.pop("positives")
        similarities = model(**inputs)  # of CLIP: model(**inputs).logits_per_image, and no temperature
        loss = ce.multi_positive_loss(similarities, positives, temperature=TEMPERATURE)
        return (loss, {"logits_per_image": similarities}) if return_outputs else loss


def main() -> None:
    """Train, and score the towers on the test split."""
    torch.manual_seed(0)
    pairs, judged = load_pairs(), ce.load("retrieval", split="validation", data_dir="sample")
    processor = Processor(pairs["caption"])
    towers = Towers(len(processor.vocabulary))
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
            learning_rate=3e-3,
            remove_unused_columns=False,  # the collator needs ids and file names
            dataloader_pin_memory=False,
            save_strategy="no",
            logging_strategy="epoch",
            disable_tqdm=True,
        )
        collator = ce.MultiPositiveCollator(processor, ce.collect_positives(judged))
        MultiPositiveTrainer(towers, arguments, data_collator=collator, train_dataset=pairs).train()

    report = ce.evaluate(encode(towers, processor), data_dir="sample", confidence=None)
    print(*(f"{key} {report.scores[key]:.3f}" for key in SHOWN), sep="\n")


if __name__ == "__main__":
    main()
