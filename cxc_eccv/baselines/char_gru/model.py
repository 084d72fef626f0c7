"""The character GRU: captions and precomputed image features to unit vectors of one space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.generic import ModelOutput

from cxc_eccv.baselines.char_gru.configuration import CharGruConfig
from cxc_eccv.baselines.char_gru.hinge import hinge_loss_of_views
from cxc_eccv.errors import InvalidOption

__all__ = [
    "AttentionPooling",
    "BidirectionalLayer",
    "CharGruModel",
    "CharGruOutput",
    "MaxPooling",
    "encoded_by_length",
    "reversed_within",
]


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


UNITS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


def reversed_within(states: Tensor, lengths: Tensor) -> Tensor:
    """Turn every sequence round within its own length; what follows stays where it is.

    Args:
        states: (N, T, D).
        lengths: (N,) int64, at most T.

    Returns:
        (N, T, D).

    Example:
        >>> states = torch.tensor([[[1], [2], [3], [0]]])
        >>> reversed_within(states, torch.tensor([3])).flatten().tolist()
        [3, 2, 1, 0]
    """
    places = torch.arange(states.shape[1], device=states.device).expand(states.shape[:2])
    last = lengths[:, None] - 1
    source = torch.where(places <= last, last - places, places)
    return states.gather(1, source[:, :, None].expand_as(states))


class BidirectionalLayer(nn.Module):
    """One recurrent layer read in both directions, states side by side.

    The layer from right to left starts at a sequence's own last step. This equals packed sequences, which are several
    times slower on a processor.

    Args:
        unit: ``gru`` or ``lstm``.
        input_size: width of a step.
        hidden_size: units per direction.

    Example:
        >>> layer = BidirectionalLayer("gru", 3, 4)
        >>> layer(torch.zeros(2, 5, 3), torch.tensor([5, 2])).shape
        torch.Size([2, 5, 8])
    """

    def __init__(self, unit: str, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.left_to_right = UNITS[unit](input_size, hidden_size, batch_first=True)
        self.right_to_left = UNITS[unit](input_size, hidden_size, batch_first=True)

    def forward(self, steps: Tensor, lengths: Tensor) -> Tensor:
        """(N, T, input size) steps to (N, T, 2 x hidden size) states; those past a length mean nothing."""
        onward = self.left_to_right(steps)[0]
        back = self.right_to_left(reversed_within(steps, lengths))[0]
        return torch.cat([onward, reversed_within(back, lengths)], dim=-1)


class AttentionPooling(nn.Module):
    """Vectorial self-attention: every feature has its own weights over the steps.

    ``a_t = softmax_t(V tanh(W h_t + b_w) + b_v)`` and ``Att(h) = sum_t a_t * h_t``, element by element.

    Args:
        state_size: width of a state.
        attention_size: hidden units.

    References:
        Merkx and Frank, Learning semantic sentence representations from visually grounded language without lexical
        knowledge, 2019, arXiv:1903.11393, section 3.1.2.

    Example:
        >>> AttentionPooling(4, 3)(torch.ones(2, 5, 4), torch.ones(2, 5, dtype=torch.bool))[0].tolist()
        [1.0, 1.0, 1.0, 1.0]
    """

    def __init__(self, state_size: int, attention_size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(state_size, attention_size)
        self.weights = nn.Linear(attention_size, state_size)

    def forward(self, states: Tensor, present: Tensor) -> Tensor:
        """(N, T, D) states and their (N, T) mask to (N, D) vectors."""
        weights = self.weights(torch.tanh(self.hidden(states))).float()
        attention = weights.masked_fill(~present[:, :, None], -torch.inf).softmax(dim=1)
        pooled: Tensor = (attention * states).sum(dim=1)
        return pooled


class MaxPooling(nn.Module):
    """The largest value of every feature over the steps.

    Example:
        >>> states = torch.tensor([[[1.0, 5.0], [3.0, 2.0], [9.0, 9.0]]])
        >>> MaxPooling()(states, torch.tensor([[True, True, False]])).tolist()
        [[3.0, 5.0]]
    """

    def forward(self, states: Tensor, present: Tensor) -> Tensor:
        """(N, T, D) states and their (N, T) mask to (N, D) vectors."""
        return states.masked_fill(~present[:, :, None], -torch.inf).amax(dim=1)


ROWS = 128
"""Captions of one part."""


def encoded_by_length(
    encode: Callable[[Tensor, Tensor], Tensor], input_ids: Tensor, attention_mask: Tensor, rows: int = ROWS
) -> Tensor:
    """What ``encode`` makes of a batch, given to it in parts of like length, each without its surplus padding.

    Args:
        encode: ids and mask of some rows to their (n, D) vectors; a row's vector must not depend on the others.
        input_ids: (N, T), padded on the right.
        attention_mask: (N, T).
        rows: captions of one part.

    Returns:
        (N, D) in the order of the batch.

    Example:
        >>> ids = torch.tensor([[3, 0, 0], [1, 2, 3], [5, 5, 0]])
        >>> encoded_by_length(lambda part, mask: part.sum(1, keepdim=True), ids, (ids > 0).long(), rows=1).tolist()
        [[3], [6], [10]]
    """
    lengths = attention_mask.sum(dim=1)
    order = lengths.argsort()
    parts = []
    for places in torch.split(order, rows):
        longest = int(lengths[places].max())
        parts.append(encode(input_ids[places, :longest], attention_mask[places, :longest]))
    return torch.cat(parts)[order.argsort()]
