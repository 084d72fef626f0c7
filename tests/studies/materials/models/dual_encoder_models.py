"""Tiny dual encoders of random weights, with tokenizers and image processors; nothing is downloaded."""

import tiny_models
import torch
import transformers

from cxc_eccv.studies.baselines.dual_encoder.data import PairCollator, TrainingPairs
from cxc_eccv.studies.baselines.dual_encoder.loss import DualEncoderTrainer
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderConfig, DualEncoderModel
from cxc_eccv.studies.baselines.dual_encoder.options import TrainingOptions
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup

TEXT = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
VISION = {"num_stages": 2, "hidden_sizes": [8, 24], "depths": [1, 1], "patch_size": 4, "image_size": 16}


def config(*, images=False, **options):
    sizes = {"extra_layers": 1, "extra_heads": 2, "extra_feed_forward": 16, "extra_dropout": 0.0}
    image = transformers.ConvNextConfig(**VISION) if images else None
    return DualEncoderConfig(transformers.BertConfig(**TEXT, **NO_DROPOUT), image, **{**sizes, **options})


def model(*, images=False, seed=0, **options):
    torch.manual_seed(seed)
    return DualEncoderModel(config(images=images, **options))


def inputs(count=6, length=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 50, (count, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, 3:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def pixels(count=3, seed=0):
    return torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(seed))


def text_pairs(images):
    """So many groups of two captions."""
    groups = [CaptionGroup("coco", number, (2 * number, 2 * number + 1), ("a", "b")) for number in range(images)]
    return TrainingPairs(groups, inputs(2 * images)["input_ids"].tolist(), co_captions=True)


def text_trainer(folder, pairs, objective, weak=None, *, use="extra_batch", alpha=0.3, **options):
    """A trainer of a tiny text model by plain gradient descent, on four pairs a batch, and on weak positives if any."""
    never = {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}
    plain = {"per_device_train_batch_size": 4, "optim": "sgd", "learning_rate": 0.5, **never, **options}
    collate = PairCollator(tiny_models.bert_tokenizer())
    weak_batches = None if weak is None else weak.make_batches(pairs, collate, use=use, alpha=alpha, size=4, seed=1)
    training = TrainingOptions(output_dir=str(folder), use_cpu=True, disable_tqdm=True, **plain)
    return DualEncoderTrainer(
        model=model(freeze_text=False),
        args=training,
        chunk_size=training.chunk_size,
        objective=objective,
        train_dataset=pairs,
        data_collator=collate,
        weak_batches=weak_batches,
        weak_positives_as=use,
        alpha=alpha,
    )
