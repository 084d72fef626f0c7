"""DualEncoderConfig: which backbones a dual encoder has, and what stands on top of them."""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from cxc_eccv.errors import InvalidOption, UnknownName

__all__ = ["IMAGE_POOLINGS", "POOLINGS", "DualEncoderConfig"]

POOLINGS = ("first_token", "mean")
IMAGE_POOLINGS = ("backbone", "max")


class DualEncoderConfig(PreTrainedConfig):
    """A text tower and, but for text-text models, an image tower; the defaults are those of the CxC paper.

    Args:
        text_config: config of the text backbone, or its dictionary.
        image_config: config of the image backbone, or its dictionary; None for a model of texts alone.
        freeze_text: keep the text backbone as it is; it then stays in evaluation mode.
        extra_layers: trainable transformer layers on top of the text backbone; 0 for none.
        extra_heads: attention heads of these layers.
        extra_feed_forward: width of their hidden layer.
        extra_dropout: dropout of these layers.
        pooling: ``first_token``: the feature at token 0; ``mean``: over the tokens of the caption.
        image_pooling: ``backbone``: what the image backbone gives as pooled; ``max``: the largest value of each
            feature over all positions.
        normalize: scale features to unit length; without it similarities are dot products, as in the paper.
        scale: what similarities are multiplied by in the loss, the inverse of the temperature.
        learned_scale: train the scale.

    Raises:
        InvalidOption: a number out of range.
        UnknownName: no such pooling.

    Example:
        >>> from transformers import BertConfig
        >>> config = DualEncoderConfig(BertConfig(hidden_size=64))
        >>> config.width, config.extra_layers, config.has_images
        (64, 3, False)
    """

    model_type = "cxc_eccv_dual_encoder"
    sub_configs = {"text_config": AutoConfig, "image_config": AutoConfig}  # noqa: RUF012 - transformers' own form

    def __init__(
        self,
        text_config: PreTrainedConfig | dict[str, Any] | None = None,
        image_config: PreTrainedConfig | dict[str, Any] | None = None,
        *,
        freeze_text: bool = True,
        extra_layers: int = 3,
        extra_heads: int = 8,
        extra_feed_forward: int = 3072,
        extra_dropout: float = 0.1,
        pooling: str = "first_token",
        image_pooling: str = "backbone",
        normalize: bool = False,
        scale: float = 1.0,
        learned_scale: bool = False,
        **options: Any,  # noqa: ANN401 - what every config takes
    ) -> None:
        # A config without arguments is what transformers compares with when it writes one.
        self.text_config = _config({"model_type": "bert"} if text_config is None else text_config)
        self.image_config = None if image_config is None else _config(image_config)
        self.freeze_text, self.extra_layers = freeze_text, extra_layers
        self.extra_heads, self.extra_feed_forward = extra_heads, extra_feed_forward
        self.extra_dropout = extra_dropout
        self.pooling, self.image_pooling, self.normalize = pooling, image_pooling, normalize
        self.scale, self.learned_scale = scale, learned_scale
        self._check()
        super().__init__(**options)

    @property
    def has_images(self) -> bool:
        """Whether there is an image tower."""
        return self.image_config is not None

    @property
    def text_width(self) -> int:
        """Width of the text backbone."""
        return int(self.text_config.hidden_size)

    @property
    def width(self) -> int:
        """Width of the features: the image backbone's, else the text backbone's."""
        return self.text_width if self.image_config is None else image_width(self.image_config)

    def _check(self) -> None:
        if self.pooling not in POOLINGS:
            raise UnknownName("pooling", self.pooling, POOLINGS)
        if self.image_pooling not in IMAGE_POOLINGS:
            raise UnknownName("image pooling", self.image_pooling, IMAGE_POOLINGS)
        if self.extra_layers < 0 or not self.scale > 0:
            raise InvalidOption(f"extra_layers={self.extra_layers}, scale={self.scale}: need at least 0 and above 0")
        if self.extra_layers and self.text_width % self.extra_heads:
            raise InvalidOption(
                f"extra_heads={self.extra_heads} does not divide the text width {self.text_width}. "
                "Choose a divisor, or extra_layers=0."
            )


def image_width(config: PreTrainedConfig) -> int:
    """Width of the pooled features of an image backbone.

    Example:
        >>> from transformers import EfficientNetConfig, ResNetConfig
        >>> image_width(EfficientNetConfig(hidden_dim=1792)), image_width(ResNetConfig())
        (1792, 2048)
    """
    if config.model_type == "efficientnet":
        return int(config.hidden_dim)
    sizes = getattr(config, "hidden_sizes", None)
    return int(sizes[-1]) if sizes else int(config.hidden_size)


def _config(given: PreTrainedConfig | dict[str, Any]) -> PreTrainedConfig:
    if isinstance(given, PreTrainedConfig):
        return given
    options = dict(given)
    return AutoConfig.for_model(options.pop("model_type", None), **options)
