"""DualEncoderModel: the dual encoders of the CxC paper over any text and image backbone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.generic import ModelOutput

from cxc_eccv.baselines.dual_encoder.configuration import DualEncoderConfig
from cxc_eccv.errors import TowerMissing

__all__ = ["DualEncoderModel", "DualEncoderOutput", "encoded_by_length"]


@dataclass
class DualEncoderOutput(ModelOutput):
    """What a forward pass gives.

    Attributes:
        text_embeds: (T, D) caption features, or None.
        image_embeds: (I, D) image features, or None.
        scale: scalar that similarities are multiplied by in the loss.
    """

    text_embeds: torch.Tensor | None = None
    image_embeds: torch.Tensor | None = None
    scale: torch.Tensor | None = None


class DualEncoderModel(PreTrainedModel):
    """A text tower, shared by both sides of text pairs, and, but for text-text models, an image tower.

    The text tower is a backbone, trainable transformer layers on top, pooling, and, beside an image tower, a linear
    layer to the image features' width (section 5.2 of arXiv 2004.15020).

    Args:
        config: the architecture.

    Example:
        >>> from transformers import BertConfig
        >>> size = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=9)
        >>> config = DualEncoderConfig(BertConfig(**size), extra_heads=2, extra_feed_forward=8)
        >>> model = DualEncoderModel(config).eval()
        >>> model.get_text_features(torch.tensor([[1, 2, 3]])).pooler_output.shape
        torch.Size([1, 8])
    """

    config_class = DualEncoderConfig
    config: DualEncoderConfig
    base_model_prefix = "dual_encoder"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True

    def __init__(self, config: DualEncoderConfig) -> None:
        super().__init__(config)
        self.text_model = AutoModel.from_config(config.text_config, trust_remote_code=False)
        self.text_layers = _extra_layers(config)
        self.image_model = (
            AutoModel.from_config(config.image_config, trust_remote_code=False) if config.has_images else None
        )
        self.text_projection = nn.Linear(config.text_width, config.width) if config.has_images else nn.Identity()
        self.log_scale = nn.Parameter(torch.tensor(config.scale).log())
        self.post_init()  # type: ignore[no-untyped-call] # transformers' own
        self._freeze()

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - transformers' own
        """As every model does; what the config freezes is frozen."""
        found = super().from_pretrained(*arguments, **options)
        # Loading makes new parameters, which are all trainable.
        (found[0] if isinstance(found, tuple) else found)._freeze()
        return found

    @classmethod
    def from_backbones(cls, text: PreTrainedModel, image: PreTrainedModel | None = None, **options: Any) -> Self:  # noqa: ANN401 - config's
        """A model whose backbones hold the given weights, and whose other layers are new.

        Args:
            text: the text backbone.
            image: the image backbone; None for a model of texts alone.
            options: of :class:`DualEncoderConfig`.
        """
        model = cls(DualEncoderConfig(text.config, None if image is None else image.config, **options))
        model.text_model.load_state_dict(text.state_dict())
        if image is not None and model.image_model is not None:
            model.image_model.load_state_dict(image.state_dict())
        return model

    def get_text_features(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **_others: Any,  # noqa: ANN401 - tokenizers differ in what else they give
    ) -> BaseModelOutputWithPooling:
        """Features of captions.

        Args:
            input_ids: (T, L) tokens.
            attention_mask: (T, L), 0 for padding; None where there is none.

        Returns:
            ``last_hidden_state`` (T, L, text width) and ``pooler_output`` (T, D).
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        tokens = encoded_by_length(self._token_states, input_ids, mask)
        features = self._finished(self.text_projection(_pooled(tokens, mask, self.config.pooling)))
        return BaseModelOutputWithPooling(last_hidden_state=tokens, pooler_output=features)

    def get_image_features(
        self,
        pixel_values: torch.Tensor,
        **_others: Any,  # noqa: ANN401 - image processors differ in what else they give
    ) -> BaseModelOutputWithPooling:
        """Features of images.

        Args:
            pixel_values: (I, 3, H, W).

        Returns:
            The backbone's ``last_hidden_state`` and ``pooler_output`` (I, D).

        Raises:
            TowerMissing: a model of texts alone.
        """
        if self.image_model is None:
            raise TowerMissing("this dual encoder has no image tower (DE_T2T); train one with an image backbone")
        found = self.image_model(pixel_values=pixel_values)
        features = self._finished(_pooled_image(found, self.config.image_pooling))
        return BaseModelOutputWithPooling(last_hidden_state=found.last_hidden_state, pooler_output=features)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
    ) -> DualEncoderOutput:
        """Features of captions, images or both; their numbers may differ."""
        texts = None if input_ids is None else self.get_text_features(input_ids, attention_mask).pooler_output
        images = None if pixel_values is None else self.get_image_features(pixel_values).pooler_output
        return DualEncoderOutput(text_embeds=texts, image_embeds=images, scale=self.log_scale.exp())

    def train(self, mode: bool = True) -> Self:
        """Training or evaluation mode; a frozen text backbone stays in evaluation mode, without dropout."""
        super().train(mode)
        if self.config.freeze_text:
            self.text_model.eval()
        return self

    def _freeze(self) -> None:
        self.text_model.requires_grad_(not self.config.freeze_text)
        self.log_scale.requires_grad_(self.config.learned_scale)

    def _token_states(self, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.freeze_text):
            tokens: torch.Tensor = self.text_model(input_ids=input_ids, attention_mask=mask).last_hidden_state
        if self.text_layers is not None:
            tokens = self.text_layers(tokens, src_key_padding_mask=mask == 0)
        return tokens

    def _finished(self, features: torch.Tensor) -> torch.Tensor:
        return functional.normalize(features, dim=-1) if self.config.normalize else features

    def _init_weights(self, module: nn.Module) -> None:
        if module is self:
            nn.init.constant_(self.log_scale, torch.tensor(self.config.scale).log().item())
        elif isinstance(module, nn.MultiheadAttention):
            # TransformerEncoder copies one layer; without this all of them would start with the same attention.
            nn.init.normal_(module.in_proj_weight, std=0.02)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def _extra_layers(config: DualEncoderConfig) -> nn.TransformerEncoder | None:
    if not config.extra_layers:
        return None
    layer = nn.TransformerEncoderLayer(
        config.text_width,
        config.extra_heads,
        config.extra_feed_forward,
        config.extra_dropout,
        activation="gelu",
        batch_first=True,
    )
    return nn.TransformerEncoder(layer, config.extra_layers, enable_nested_tensor=False)


def _pooled(tokens: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    if pooling == "first_token":
        return tokens[:, 0]
    weights = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * weights).sum(1) / weights.sum(1).clamp(min=1)


def _pooled_image(found: Any, pooling: str) -> torch.Tensor:  # noqa: ANN401 - backbones share no type
    states: torch.Tensor = found.last_hidden_state
    if pooling == "max":
        # Transformers give (I, positions, D), convolutional networks (I, D, H, W).
        return states.amax(1) if states.dim() == 3 else states.flatten(2).amax(2)
    # ResNet keeps its pooled features as (I, D, 1, 1).
    pooled: torch.Tensor = found.pooler_output.flatten(1)
    return pooled


def _register(config: type[PreTrainedConfig]) -> None:
    AutoConfig.register(config.model_type, config)
    AutoModel.register(config, DualEncoderModel)


_register(DualEncoderConfig)


ROWS = 64
"""Captions in a group."""

Encode = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def encoded_by_length(encode: Encode, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(T, L, W) states of every token, 0 where there is none.

    A GPU takes the whole batch at once.

    Args:
        encode: (t, l) tokens and mask to (t, l, W) states; a caption's states do not depend on padding.
        input_ids: (T, L).
        mask: (T, L), 0 for padding.

    Example:
        >>> ids = torch.tensor([[1, 2, 3], [4, 0, 0]])
        >>> encoded_by_length(lambda ids, mask: ids[..., None].float(), ids, (ids > 0).long()).squeeze(-1).tolist()
        [[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]]
    """
    if input_ids.device.type != "cpu" or len(input_ids) <= ROWS:
        return encode(input_ids, mask)
    columns = torch.arange(1, mask.shape[1] + 1)
    ends = (mask.bool() * columns).amax(1)
    order = ends.argsort()
    parts = []
    for rows in order.split(ROWS):
        width = max(1, int(ends[rows].max()))
        states = encode(input_ids[rows, :width], mask[rows, :width])
        parts.append(torch.nn.functional.pad(states, (0, 0, 0, mask.shape[1] - width)))
    return torch.cat(parts)[order.argsort()]
