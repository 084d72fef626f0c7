"""Images without what matters in them: the patches that an image encoder attends to most, blanked."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from cxc_eccv.errors import InvalidOption


def blank_attended(image_model: PreTrainedModel, pixel_values: torch.Tensor, ratio: float = 0.4) -> torch.Tensor:
    """A copy of (N, 3, H, W) images whose round(ratio P) most attended patches of P are 0, the mean colour."""
    attention = first_token_attention(image_model, pixel_values)
    count = round(ratio * attention.shape[1])
    blank = torch.zeros_like(attention, dtype=torch.bool)
    blank.scatter_(1, attention.argsort(dim=1, descending=True, stable=True)[:, :count], True)
    height, width = _patch_size(image_model)
    rows, columns = pixel_values.shape[2] // height, pixel_values.shape[3] // width
    grid = blank.view(-1, 1, rows, columns).repeat_interleave(height, 2).repeat_interleave(width, 3)
    blanked = pixel_values.clone()
    # Pixels beyond the last whole patch are in no patch.
    part = blanked[:, :, : grid.shape[2], : grid.shape[3]]
    part.masked_fill_(grid, 0)
    return blanked


def first_token_attention(image_model: PreTrainedModel, pixel_values: torch.Tensor) -> torch.Tensor:
    """(N, P) attention of the last layer's first token to each patch: the mean over heads, without gradient."""
    before, was_training = image_model.config._attn_implementation, image_model.training
    # Other implementations than the plain one do not say what they attend to.
    image_model.eval().set_attn_implementation("eager")
    try:
        with torch.no_grad():
            found: Any = image_model(pixel_values=pixel_values, output_attentions=True)
    finally:
        image_model.set_attn_implementation(before)
        image_model.train(was_training)
    layers = getattr(found, "attentions", None)
    height, width = _patch_size(image_model)
    patches = (pixel_values.shape[2] // height) * (pixel_values.shape[3] // width)
    last = layers[-1] if layers else None
    if last is None or last.dim() != 4 or len(last) != len(pixel_values) or last.shape[-1] != last.shape[-2]:
        raise _refuse(image_model, "does not tell the attention between its patches")
    before_patches = last.shape[-1] - patches
    if before_patches not in _extra_tokens(image_model):
        raise _refuse(image_model, f"has {last.shape[-1]} tokens for {patches} patches, not one token before them")
    attention: torch.Tensor = last[:, :, 0, before_patches:].mean(dim=1)
    return attention


def check_attends(image_model: PreTrainedModel) -> None:
    """Raise InvalidOption where :func:`blank_attended` cannot work with an encoder: found out with one blank image."""
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
    """How many tokens stand before the patches: the first one, DeiT's second one, registers."""
    registers = getattr(image_model.config, "num_register_tokens", 0) or 0
    return (1 + registers, 2) if image_model.config.model_type == "deit" else (1 + registers,)


def _refuse(image_model: PreTrainedModel, why: str) -> InvalidOption:
    return InvalidOption(
        f"masking: {type(image_model).__name__} {why}. It blanks the patches that the first token of an encoder like "
        "ViT attends to; give mask_share=0, or such an encoder"
    )
