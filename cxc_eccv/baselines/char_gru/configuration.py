"""The character GRU's configuration."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from cxc_eccv.errors import InvalidOption

__all__ = ["CharGruConfig"]

CHOICES = {"recurrent_unit": ("gru", "lstm"), "pooling": ("attention", "max")}
SIZES = ("vocab_size", "character_size", "hidden_size", "attention_size")


class CharGruConfig(PreTrainedConfig):
    """Sizes of the model; the defaults are the paper's.

    Args:
        vocab_size: number of characters, padding and the unknown character included.
        character_size: width of a character's embedding.
        recurrent_unit: ``gru`` or ``lstm``.
        hidden_size: units per direction; an embedding has twice as many dimensions.
        pooling: ``attention`` or ``max``.
        attention_size: hidden units of the attention layer.
        image_feature_size: width of the precomputed image features; 0 for a model of captions alone.
        margin: of the hinge loss.
        pad_token_id: the padding's id.
        **kwargs: what every configuration takes.

    Raises:
        InvalidOption: no such unit or pooling, a size below 1, a margin that is not positive.

    Example:
        >>> CharGruConfig().embedding_size, CharGruConfig(hidden_size=8).embedding_size
        (2048, 16)
    """

    model_type = "cxc_eccv_char_gru"

    def __init__(
        self,
        vocab_size: int = 128,
        character_size: int = 20,
        recurrent_unit: str = "gru",
        hidden_size: int = 1024,
        pooling: str = "attention",
        attention_size: int = 128,
        image_feature_size: int = 2048,
        margin: float = 0.2,
        pad_token_id: int = 0,
        **kwargs: Any,  # noqa: ANN401 - handed on
    ) -> None:
        self.vocab_size, self.character_size = vocab_size, character_size
        self.recurrent_unit, self.hidden_size = recurrent_unit, hidden_size
        self.pooling, self.attention_size = pooling, attention_size
        self.image_feature_size, self.margin = image_feature_size, margin
        self.pad_token_id = pad_token_id
        self._refuse()
        super().__init__(**kwargs)

    @property
    def embedding_size(self) -> int:
        """Width of a caption's or an image's embedding."""
        return 2 * self.hidden_size

    def _refuse(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidOption(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(choices)}")
        for name in SIZES:
            if getattr(self, name) < 1:
                raise InvalidOption(f"{name} is {getattr(self, name)}, expected a whole number of at least 1")
        if self.image_feature_size < 0:
            raise InvalidOption(f"image_feature_size is {self.image_feature_size}, expected 0 or more")
        if not self.margin > 0:
            raise InvalidOption(f"margin is {self.margin}, expected a positive number")
