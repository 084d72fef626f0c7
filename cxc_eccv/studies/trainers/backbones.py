"""Configs and widths of backbones, and encoding in batches of similar length: code that models are saved with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedConfig


def as_config(config: PreTrainedConfig | dict[str, Any] | None) -> PreTrainedConfig | None:
    """A config from its dictionary; a config and None are returned unchanged."""
    if config is None or isinstance(config, PreTrainedConfig):
        return config
    options = dict(config)
    return AutoConfig.for_model(options.pop("model_type", None), **options)


def image_width(config: Any) -> int:  # noqa: ANN401 - configs share no attributes
    """Width of an image's positions, which each type of config names differently."""
    if config.model_type == "efficientnet":
        return int(config.hidden_dim)
    sizes = getattr(config, "hidden_sizes", None)
    return int(sizes[-1]) if sizes else int(config.hidden_size)


def encode_by_length(
    encode: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], input_ids: torch.Tensor, mask: torch.Tensor, rows: int
) -> torch.Tensor:
    """(N, ...) outputs of ``encode`` for (N, T) ids and mask, in batches of similar length without surplus padding."""
    ends = (mask.bool() * torch.arange(1, mask.shape[1] + 1, device=mask.device)).amax(1)
    order = ends.argsort()
    parts = []
    for places in order.split(rows):
        width = max(1, int(ends[places].max()))
        parts.append(encode(input_ids[places, :width], mask[places, :width]))
    return torch.cat(parts)[order.argsort()]
