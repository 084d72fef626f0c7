"""A classifier of entailment trained on batches of one kind after batches of another, with gradients checkpointed."""

import entailment_models
import pyarrow as pa
import tiny_models
import torch

from cxc_eccv.studies.baselines.entailment_classifier.data import PairCollator, PairItems
from cxc_eccv.studies.baselines.entailment_classifier.loss import EntailmentTrainer
from cxc_eccv.studies.baselines.entailment_classifier.options import TrainingOptions


def pairs():
    """Four pairs of text, which are long, and four of an image alone, so that no batch of four has both."""
    longer = "two cat and a man rides the red bus"
    rows = [{"premise": longer, "hypothesis": f"{longer} {word}", "image": None} for word in ("a", "dog", "on", "red")]
    rows += [{"premise": "", "hypothesis": "a dog", "image": f"{place}.png"} for place in range(4)]
    schema = pa.schema([("premise", pa.string()), ("hypothesis", pa.string()), ("image", pa.string())])
    return pa.Table.from_pylist(rows, schema=schema)


def train(folder, batch):
    """The weights after two epochs, of batches of four over all processes."""
    model, processor = entailment_models.classifier("bert over vit", mask_share=0)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for place in range(4):
        tiny_models.picture(place).save(folder / f"{place}.png")
    files = {f"{place}.png": folder / f"{place}.png" for place in range(4)}
    arguments = TrainingOptions(
        str(folder / "classifier"),
        per_device_train_batch_size=batch,
        num_train_epochs=2,
        learning_rate=0.01,
        optim="sgd",
        activation_checkpointing=True,
        use_cpu=True,
        **({} if batch == 4 else {"ddp_backend": "gloo"}),
        disable_tqdm=True,
        eval_strategy="no",
        save_strategy="no",
        load_best_model_at_end=False,
    )
    trainer = EntailmentTrainer(
        held=None,
        threshold_for="f_half",
        model=model,
        args=arguments,
        train_dataset=PairItems(pairs(), [0.0, 1.0] * 4, files),
        data_collator=PairCollator(processor, looks=True),
    )
    trainer.train()
    state = trainer.accelerator.unwrap_model(trainer.model).state_dict()
    return {name: value.clone() for name, value in state.items()}
