"""The model that a training run starts from, with its tokenizer or processor. The sample has small backbones."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoImageProcessor,
    AutoModel,
    AutoProcessor,
    AutoTokenizer,
    BitConfig,
    BitModel,
    ConvNextImageProcessorPil,
    VisionTextDualEncoderProcessor,
)

from cxc_eccv.encoding.adapters import load_backbone_with_info, refuse_adapter
from cxc_eccv.encoding.checkpoints import load_part
from cxc_eccv.encoding.loading import from_checkpoint
from cxc_eccv.encoding.text_input import context_length, in_lower_case, never_saw_capitals, padded_length
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, TowerMissing
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.arguments import ModelArguments
from cxc_eccv.studies.baselines.dual_encoder.data import find_tokenizer
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderModel
from cxc_eccv.studies.trainers.sample_encoders import small_bert, word_tokenizer

LONGEST = 512
"""Tokens of a caption if the tokenizer has no limit."""

OPTIONS = (
    "extra_layers",
    "extra_heads",
    "extra_feed_forward",
    "extra_dropout",
    "pooling",
    "image_pooling",
    "normalize",
    "scale",
    "learned_scale",
)
"""Model arguments with options of the same name in the config."""


def starting_model(arguments: ModelArguments, mode: str, image_feature_size: int = 0) -> tuple[Any, Any]:
    """The model, and its tokenizer (for texts only) or processor, for a mode of ``Objective``.

    With an ``image_feature_size`` it has no image tower, but projects captions to vectors of that size.
    """
    if (arguments.pretrained is None) != arguments.no_pretraining:
        raise InvalidOption("give either --pretrained with a dual encoder to start from, or --no-pretraining")
    if arguments.pretrained is not None:
        return _pretrained(arguments.pretrained, mode, image_feature_size)
    text, tokenizer = text_backbone(arguments.text_model)
    image = None
    image_processor = None
    if mode != "t2t" and not image_feature_size:
        image, image_processor = image_backbone(arguments.image_model)
    options = {name: getattr(arguments, name) for name in OPTIONS} | {"image_feature_size": image_feature_size}
    model = DualEncoderModel.from_backbones(text, image, freeze_text=not arguments.train_text_model, **options)
    processing = tokenizer if image is None else VisionTextDualEncoderProcessor(image_processor, tokenizer)
    return model, _with_limit(processing, model)


def _backbone(source: str, takes: str, side: str) -> Any:  # noqa: ANN401 - any model
    model, info = load_backbone_with_info(AutoModel, source)
    if model.main_input_name != takes:
        raise TowerMissing(f"{source} ({type(model).__name__}) has no {side} side: it reads {model.main_input_name}")
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise CheckpointMismatch(
            f"{source}: the checkpoint lacks {len(missing)} weights of {type(model).__name__}, the first: {missing[0]}"
        )
    return model


def _pretrained(source: str, mode: str, image_feature_size: int) -> tuple[Any, Any]:
    refuse_adapter(source)
    model = from_checkpoint(source, torch.float32, ())
    has_images = hasattr(model, "get_image_features") and getattr(model.config, "has_images", True)
    if not hasattr(model, "get_text_features"):
        raise TowerMissing(f"{source} ({type(model).__name__}) is no dual encoder; give it as --text-model")
    size = getattr(model.config, "image_feature_size", 0)
    if size != image_feature_size:
        raise InvalidOption(
            f"{source} takes image vectors of {size} numbers, and those of --image-features have {image_feature_size} "
            "(0: none). Give vectors of the model that it was trained with, or --no-pretraining"
        )
    if mode != "t2t" and not has_images and not size:
        raise TowerMissing(f"{source} has no image tower, which mode {mode} needs; choose --mode t2t")
    if mode == "t2t" and has_images:
        raise InvalidOption(f"{source} has an image tower, which mode t2t does not train; choose another mode")
    processing = load_part(AutoProcessor if has_images else AutoTokenizer, source)
    if has_images and never_saw_capitals(find_tokenizer(processing), model):
        processing.tokenizer = in_lower_case(processing.tokenizer)
    return model, _with_limit(processing, model)


def _with_limit(processing: Any, model: Any) -> Any:  # noqa: ANN401 - processors and dual encoders share no type
    """Limit the tokenizer to the model's context, and pad on the right, so that first tokens stay first."""
    tokenizer = find_tokenizer(processing)
    tokenizer.model_max_length = context_length(tokenizer, model) or LONGEST
    if padded_length(tokenizer, model) is None:
        tokenizer.padding_side = "right"
    return processing


def text_backbone(source: str) -> tuple[Any, Any]:
    """The text backbone and its tokenizer; for the sample a BERT of one layer with the words of its train split."""
    if source != SAMPLE:
        return _backbone(source, "input_ids", "text"), load_part(AutoTokenizer, source)
    tokenizer = word_tokenizer(Library(SAMPLE).split("train").captions["text"].to_pylist())
    return small_bert(tokenizer, hidden_size=128, layers=1), tokenizer


def image_backbone(source: str) -> tuple[Any, Any]:
    """The image backbone and its processor; for the sample a ResNet of three stages with group normalisation."""
    if source != SAMPLE:
        return _backbone(source, "pixel_values", "image"), load_part(AutoImageProcessor, source)
    config = BitConfig(embedding_size=32, hidden_sizes=[96, 192, 256], depths=[1, 1, 1], num_groups=8)
    return BitModel(config), ConvNextImageProcessorPil(size={"shortest_edge": 64}, crop_pct=1.0)
