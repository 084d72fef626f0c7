"""Build, check, fill and run the encoders of the classifier's branches; mask images by their attention."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import BlipVisionModel, PreTrainedConfig, PreTrainedModel
from transformers.models.blip.modeling_blip_text import BlipTextModel

from cxc_eccv.encoding.checkpoints import build_model
from cxc_eccv.encoding.loading import inference
from cxc_eccv.errors import CheckpointMismatch, InvalidOption
from cxc_eccv.studies.trainers.backbones import image_width

FUSION = ("vilt", "bridgetower")
"""Types of models that read pixels and text together."""

BLIP_PARTS = {"blip_text_model": BlipTextModel, "blip_vision_model": BlipVisionModel}
"""Parts of BLIP, which AutoModel cannot build on their own."""


def build_encoder(config: PreTrainedConfig | None) -> Any:  # noqa: ANN401 - any model, or None
    """A model with new weights; a pooler with weights is removed, since nothing here uses it."""
    if config is None:
        return None
    kind = BLIP_PARTS.get(config.model_type)
    model = build_model(config) if kind is None else kind(config)
    pooler = getattr(model, "pooler", None)
    if pooler is not None and any(True for _ in pooler.parameters()):
        model.pooler = None
    return model


def copy_config(part: PreTrainedModel | None) -> PreTrainedConfig | None:
    """A copy of a model's config, for float32 weights."""
    return None if part is None else type(part.config).from_dict(part.config.to_dict() | {"dtype": "float32"})


def check_reader(model: PreTrainedModel, fuses: bool) -> None:
    """Raise InvalidOption if a model cannot read the hypothesis beside an image."""
    takes = inspect.signature(model.base_model.forward).parameters
    if fuses and model.config.model_type not in FUSION:
        raise InvalidOption(
            f"visual_text_model: {type(model).__name__} is no fusion model ({', '.join(FUSION)}, or BLIP's for "
            "image-text retrieval); give image_model as well"
        )
    if not fuses and "encoder_hidden_states" not in takes:
        raise InvalidOption(
            f"visual_text_model: {type(model).__name__} cannot attend to an image; give BLIP's text encoder or BERT"
        )


def copy_weights(source: PreTrainedModel, target: nn.Module) -> None:
    """Load the source's weights into the target; a cross-attention that the source lacks stays new."""
    missing = target.load_state_dict(source.state_dict(), strict=False).missing_keys
    missing = [name for name in missing if "crossattention" not in name]
    if missing:
        raise CheckpointMismatch(
            f"{type(source).__name__} lacks {len(missing)} weights of {type(target).__name__}, the first: {missing[0]}"
        )


def cross_widths(image_config: PreTrainedConfig | None, reader_config: Any) -> tuple[int, int]:  # noqa: ANN401 - configs share no attributes
    """Width of an image's positions, and input width of the text encoder's cross-attention; 0 without images."""
    if image_config is None:
        return 0, 0
    width = getattr(reader_config, "encoder_hidden_size", reader_config.hidden_size)
    return image_width(image_config), int(width)


def spread_positions(states: torch.Tensor) -> torch.Tensor:
    """(N, positions, D) states from a transformer, or from the (N, D, H, W) of a convolutional network."""
    return states if states.dim() == 3 else states.flatten(2).transpose(1, 2)


def first_states(model: Any, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: ANN401 - any encoder
    """(N, D) states of the first token, which sees all tokens even if the encoder was built as a decoder."""
    takes = inspect.signature(model.forward).parameters
    inputs = {name: tensor for name, tensor in inputs.items() if name in takes}
    options: dict[str, Any] = {}
    if getattr(model.config, "is_decoder", False) and not isinstance(model, BlipTextModel):
        # A decoder's first token would see only itself; transformers uses a 4D mask unchanged.
        ids = inputs["input_ids"]
        dtype = next(model.parameters()).dtype
        seen = inputs.get("attention_mask", torch.ones_like(ids))[:, None, None, :].to(dtype)
        inputs = {**inputs, "attention_mask": ((1 - seen) * torch.finfo(dtype).min).expand(-1, 1, ids.shape[1], -1)}
        options = {"use_cache": False}
    output = model(**inputs, **options)
    states: torch.Tensor = output.last_hidden_state if "last_hidden_state" in output else output.text_features
    return states[:, 0]


def check_sees_all(states: torch.Tensor, branch: str) -> None:
    """Raise InvalidOption if two texts that differ in their last token have the same first state."""
    if torch.equal(states[0], states[1]):
        raise InvalidOption(
            f"the text encoder of the {branch} branch reads from left to right, so its first token does not see the "
            "others; give a bidirectional encoder, such as BERT"
        )


def blank_attended(image_model: PreTrainedModel, pixel_values: torch.Tensor, ratio: float = 0.4) -> torch.Tensor:
    """A copy of (N, 3, H, W) images with the round(ratio P) most attended of P patches set to 0, the mean colour."""
    attention = first_token_attention(image_model, pixel_values)
    count = round(ratio * attention.shape[1])
    blank = torch.zeros_like(attention, dtype=torch.bool)
    blank.scatter_(1, attention.argsort(dim=1, descending=True, stable=True)[:, :count], True)
    height, width = _patch_size(image_model)
    rows = pixel_values.shape[2] // height
    columns = pixel_values.shape[3] // width
    grid = blank.view(-1, 1, rows, columns).repeat_interleave(height, 2).repeat_interleave(width, 3)
    blanked = pixel_values.clone()
    # Pixels beyond the last whole patch belong to no patch.
    part = blanked[:, :, : grid.shape[2], : grid.shape[3]]
    part.masked_fill_(grid, 0)
    return blanked


def first_token_attention(image_model: PreTrainedModel, pixel_values: torch.Tensor) -> torch.Tensor:
    """(N, P) attention of the last layer's first token to each patch, averaged over heads, without gradient."""
    before = image_model.config._attn_implementation
    # Only the eager implementation returns its attention.
    image_model.set_attn_implementation("eager")
    try:
        with inference(image_model):
            output: Any = image_model(pixel_values=pixel_values, output_attentions=True)
    finally:
        image_model.set_attn_implementation(before)
    layers = getattr(output, "attentions", None)
    height, width = _patch_size(image_model)
    patches = (pixel_values.shape[2] // height) * (pixel_values.shape[3] // width)
    last = layers[-1] if layers else None
    if last is None or last.dim() != 4 or len(last) != len(pixel_values) or last.shape[-1] != last.shape[-2]:
        raise _refuse(image_model, "does not return the attention between its patches")
    before_patches = last.shape[-1] - patches
    if before_patches not in _extra_tokens(image_model):
        raise _refuse(image_model, f"has {last.shape[-1]} tokens for {patches} patches, not one token before them")
    attention: torch.Tensor = last[:, :, 0, before_patches:].mean(dim=1)
    return attention


def check_attends(image_model: PreTrainedModel) -> None:
    """Raise InvalidOption if :func:`blank_attended` does not work with an encoder; tries one blank image."""
    size = getattr(image_model.config, "image_size", None)
    if size is None:
        raise _refuse(image_model, "has no patches")
    height, width = (size, size) if isinstance(size, int) else size
    first_token_attention(image_model, torch.zeros(1, 3, height, width))


def _patch_size(image_model: PreTrainedModel) -> tuple[int, int]:
    size = getattr(image_model.config, "patch_size", None)
    if size is None:
        raise _refuse(image_model, "has no patches")
    height, width = (size, size) if isinstance(size, int) else size
    return int(height), int(width)


def _extra_tokens(image_model: PreTrainedModel) -> tuple[int, ...]:
    """Possible numbers of tokens before the patches: the first token, DeiT's second, registers."""
    registers = getattr(image_model.config, "num_register_tokens", 0) or 0
    return (1 + registers, 2) if image_model.config.model_type == "deit" else (1 + registers,)


def _refuse(image_model: PreTrainedModel, why: str) -> InvalidOption:
    return InvalidOption(
        f"masking blanks the patches that the first token of an encoder like ViT attends to, and "
        f"{type(image_model).__name__} {why}; give mask_share=0, or an encoder like ViT"
    )
