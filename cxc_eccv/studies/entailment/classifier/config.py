"""EntailmentConfig: the branches, heads and calibration of a classifier of entailment."""

from __future__ import annotations

from typing import Any, ClassVar

from transformers import AutoConfig, PreTrainedConfig

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.trainers.backbones import as_config
from cxc_eccv.studies.trainers.portable import PortableConfig

PAIR_KINDS = ("text", "visual", "multimodal")
"""Kinds of premises; a kind's number is its index here."""

TEXT, VISUAL, MULTIMODAL = range(3)


class EntailmentConfig(PortableConfig):
    """Config of a classifier with a text branch, a visual branch, or both; without either it has a BERT for text.

    Args:
        text_config: config of the text branch's encoder, or its dictionary; None for no text branch.
        image_config: config of the image encoder, or its dictionary; None if a fusion model reads the pixels.
        visual_text_config: config of the text encoder that attends to the image (BLIP's, or BERT's), or of a fusion
            model (ViLT, BridgeTower); None for no visual branch.
        shared_text: the text branch uses the visual branch's text encoder, without the image ("w/o BERT").
        head: ``softmax`` over two values, or ``sigmoid`` of one.
        head_widths: units of the two hidden layers of every head; None for the width of the state.
        head_dropout: dropout before every layer of the heads.
        mask_share: share of a batch's pairs with an image that the masking augmentation copies; 0 for no masking.
        mask_ratio: share of the patches that it blanks.
        threshold: lowest probability of an entailed pair.
        calibration_scale: Platt's factor of the difference of the logits.
        calibration_offset: Platt's offset.

    Raises:
        InvalidOption: shares out of range, or incompatible parts.

    Example:
        >>> from transformers import BertConfig
        >>> config = EntailmentConfig(BertConfig(hidden_size=64))
        >>> config.has_text, config.has_visual, config.widths
        (True, False, (64,))
    """

    model_type = "cxc_eccv_entailment"
    auto_classes: ClassVar[dict[str, str]] = {
        "AutoModel": "cxc_eccv.studies.entailment.classifier.EntailmentClassifier",
        "AutoProcessor": "cxc_eccv.studies.entailment.processing.EntailmentProcessor",
    }
    sub_configs: ClassVar[dict[str, Any]] = dict.fromkeys(
        ("text_config", "image_config", "visual_text_config"), AutoConfig
    )

    def __init__(
        self,
        text_config: PreTrainedConfig | dict[str, Any] | None = None,
        image_config: PreTrainedConfig | dict[str, Any] | None = None,
        visual_text_config: PreTrainedConfig | dict[str, Any] | None = None,
        *,
        shared_text: bool = False,
        head: str = "softmax",
        head_widths: tuple[int, int] | list[int] | None = None,
        head_dropout: float = 0.0,
        mask_share: float = 0.25,
        mask_ratio: float = 0.4,
        threshold: float = 0.5,
        calibration_scale: float = 1.0,
        calibration_offset: float = 0.0,
        **options: Any,  # noqa: ANN401 - those of every config
    ) -> None:
        # transformers creates a config without arguments, to write only what differs from it.
        if text_config is None and visual_text_config is None:
            text_config = {"model_type": "bert"}
        self.text_config = as_config(text_config)
        self.image_config = as_config(image_config)
        self.visual_text_config = as_config(visual_text_config)
        self.shared_text = shared_text
        self.head = head
        self.head_dropout = head_dropout
        self.head_widths = None if head_widths is None else list(head_widths)
        self.mask_share = mask_share
        self.mask_ratio = mask_ratio
        self.threshold = threshold
        self.calibration_scale = calibration_scale
        self.calibration_offset = calibration_offset
        self._check()
        super().__init__(**options)

    @property
    def has_text(self) -> bool:
        """Whether the model has a text branch."""
        return self.text_config is not None or self.shared_text

    @property
    def has_visual(self) -> bool:
        """Whether the model has a visual branch."""
        return self.visual_text_config is not None

    @property
    def is_fusion(self) -> bool:
        """Whether one model reads both pixels and text."""
        return self.has_visual and self.image_config is None

    @property
    def widths(self) -> tuple[int, ...]:
        """State width of each branch, the text branch first."""
        text = self.visual_text_config if self.shared_text else self.text_config
        return tuple(int(config.hidden_size) for config in (text, self.visual_text_config) if config is not None)

    def _check(self) -> None:
        if not 0 <= self.mask_share <= 1:
            raise InvalidOption(f"mask_share={self.mask_share}: give a share of the batch from 0 (no masking) to 1")
        if not 0 < self.mask_ratio < 1:
            raise InvalidOption(f"mask_ratio={self.mask_ratio}: give a share of the patches above 0 and below 1")
        if self.image_config is not None and not self.has_visual:
            raise InvalidOption("an image encoder needs a text encoder that attends to it: give visual_text_config")
        if self.shared_text and (self.text_config is not None or self.image_config is None):
            raise InvalidOption(
                "shared_text: give image_config and visual_text_config, whose text encoder serves both branches, and "
                "leave out text_config"
            )
        if self.visual_text_config is not None and self.is_fusion and self.mask_share:
            raise InvalidOption(
                f"masking needs a separate image encoder, and {self.visual_text_config.model_type} has none: give "
                "mask_share=0"
            )
