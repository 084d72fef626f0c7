"""Tiny dual encoders of random weights, with tokenizers and image processors; nothing is downloaded."""

import torch
import transformers

from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderConfig, DualEncoderModel

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
