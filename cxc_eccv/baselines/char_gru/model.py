"""The character GRU: captions and precomputed image features to unit vectors of one space."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.generic import ModelOutput

from cxc_eccv.baselines.char_gru.configuration import CharGruConfig
from cxc_eccv.baselines.char_gru.hinge import hinge_loss_of_views
from cxc_eccv.baselines.char_gru.length_parts import encoded_by_length
from cxc_eccv.baselines.char_gru.pooling import AttentionPooling, MaxPooling
from cxc_eccv.baselines.char_gru.recurrent import BidirectionalLayer
from cxc_eccv.errors import InvalidOption

__all__ = ["CharGruModel", "CharGruOutput"]


@dataclass
class CharGruOutput(ModelOutput):
    """What the model returns.

    Attributes:
        loss: () the hinge loss over the images given, or None with fewer than two views or rows.
        text_embeds: (N, V, D) unit vectors of V captions of N images.
        image_embeds: (N, D) unit vectors, or None.
    """

    loss: Tensor | None = None
    text_embeds: Tensor | None = None
    image_embeds: Tensor | None = None

    @property
    def views(self) -> list[Tensor]:
        """(N, D) unit vectors of every caption of an image, and of the image where it is given."""
        captions = [] if self.text_embeds is None else [*self.text_embeds.unbind(dim=1)]
        return captions if self.image_embeds is None else [*captions, self.image_embeds]


class CharGruModel(PreTrainedModel):
    """Character embeddings, a bidirectional recurrent layer, attention pooling; images by one linear layer.

    Args:
        config: the sizes.

    References:
        Merkx and Frank, Learning semantic sentence representations from visually grounded language without lexical
        knowledge, 2019, arXiv:1903.11393.

    Example:
        >>> config = CharGruConfig(vocab_size=9, hidden_size=4, attention_size=3, image_feature_size=0)
        >>> ids, mask = torch.tensor([[2, 3, 0]]), torch.tensor([[1, 1, 0]])
        >>> CharGruModel(config).get_text_features(ids, mask).pooler_output.shape
        torch.Size([1, 8])
    """

    config_class = CharGruConfig
    main_input_name = "input_ids"

    def __init__(self, config: CharGruConfig) -> None:
        super().__init__(config)
        width = config.embedding_size
        self.characters = nn.Embedding(config.vocab_size, config.character_size, padding_idx=config.pad_token_id)
        self.recurrent = BidirectionalLayer(config.recurrent_unit, config.character_size, config.hidden_size)
        self.pooling = AttentionPooling(width, config.attention_size) if config.pooling == "attention" else MaxPooling()
        self.image_projection = nn.Linear(config.image_feature_size, width) if config.image_feature_size else None
        self.post_init()  # type: ignore[no-untyped-call] # as above

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, image_features: Tensor | None = None
    ) -> CharGruOutput:
        """Embeddings and, where there are two views of two images, the loss.

        Args:
            input_ids: (N, V, T) int64: V captions of N images; or (N, T), one caption each.
            attention_mask: likewise, 1 at characters and 0 at padding; None for no padding.
            image_features: (N, F), or None.
        """
        captions = input_ids if input_ids.dim() == 3 else input_ids[:, None]
        ids = captions.flatten(0, 1)
        mask = torch.ones_like(ids) if attention_mask is None else attention_mask.reshape(ids.shape)
        texts = encoded_by_length(self._text_vectors, ids, mask).reshape(*captions.shape[:2], -1)
        images = None if image_features is None else self.get_image_features(image_features).pooler_output
        found = CharGruOutput(text_embeds=texts, image_embeds=images)
        if len(found.views) > 1 and len(captions) > 1:
            found.loss = hinge_loss_of_views(found.views, self.config.margin)
        return found

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """Captions to unit vectors.

        Args:
            input_ids: (N, T) int64, padded on the right.
            attention_mask: (N, T); None where nothing is padded.

        Returns:
            ``pooler_output``: (N, D) float32 unit vectors.

        Raises:
            InvalidOption: a caption without a character, or padding on the left.
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return BaseModelOutputWithPooling(pooler_output=self._text_vectors(input_ids, mask))

    def _text_vectors(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        present = attention_mask.bool()
        if not present[:, 0].all():
            raise InvalidOption("a caption has no character, or is padded on the left; pad on the right")
        states = self.recurrent(self.characters(input_ids), present.sum(dim=1))
        return normalize(self.pooling(states, present).float(), dim=-1)

    def get_image_features(self, image_features: Tensor) -> BaseModelOutputWithPooling:
        """Precomputed (N, F) features to unit vectors, ``pooler_output`` (N, D).

        Raises:
            InvalidOption: the model has no image side, or takes features of another width.
        """
        width = self.config.image_feature_size
        if self.image_projection is None:
            raise InvalidOption("this character GRU was made without an image side (image_feature_size is 0)")
        if image_features.shape[-1] != width:
            raise InvalidOption(f"image features of width {image_features.shape[-1]}; the model takes {width}")
        return BaseModelOutputWithPooling(
            pooler_output=normalize(self.image_projection(image_features).float(), dim=-1)
        )

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """PyTorch's own initialisation, as the paper's code has it."""
        if isinstance(module, (nn.Embedding, nn.Linear, nn.GRU, nn.LSTM)):
            module.reset_parameters()


AutoConfig.register(CharGruConfig.model_type, CharGruConfig, exist_ok=True)
AutoModel.register(CharGruConfig, CharGruModel, exist_ok=True)
