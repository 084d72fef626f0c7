"""The dual encoders of the CxC paper over any text and image backbone: built, loaded, and saved in two forms."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import nn
from torch.nn import functional
from transformers import (
    MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING,
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoProcessor,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.generic import ModelOutput

from cxc_eccv.encoding.adapters import load_backbone_with_info, refuse_adapter
from cxc_eccv.encoding.checkpoints import MODULES_FILE, build_model, load_part
from cxc_eccv.encoding.images import check_image_encoder
from cxc_eccv.encoding.loading import from_checkpoint
from cxc_eccv.encoding.text_input import context_length, in_lower_case, never_saw_capitals, padded_length
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, TowerMissing
from cxc_eccv.sources.catalog import SAMPLE
from cxc_eccv.studies.baselines.dual_encoder.sample import make_image_backbone, make_text_backbone
from cxc_eccv.studies.trainers.backbones import as_config, encode_by_length, image_width
from cxc_eccv.studies.trainers.portable import PortableConfig
from cxc_eccv.studies.trainers.tokens import find_tokenizer

ROWS = 64
"""Captions per batch of encoding on a CPU."""

LONGEST_CAPTION = 512
"""Tokens of a caption if the tokenizer has no limit."""

SENTENCE_PARTS = ("0_Transformer", "1_Pooling", "2_Normalize")
"""Folders of the modules of sentence-transformers, named after their classes; the last one is empty."""


class DualEncoderConfig(PortableConfig):
    """Config of a text tower and, except for text-text models, an image tower; the CxC paper's by default."""

    model_type = "cxc_eccv_dual_encoder"
    auto_classes: ClassVar[dict[str, str]] = {"AutoModel": f"{__name__}.DualEncoderModel"}
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
        image_feature_size: int = 0,
        **options: Any,  # noqa: ANN401 - those of every config
    ) -> None:
        # transformers creates a config without arguments, to write only what differs from it.
        self.text_config: Any = as_config({"model_type": "bert"} if text_config is None else text_config)
        self.image_config = as_config(image_config)
        self.freeze_text = freeze_text
        self.extra_layers = extra_layers
        self.extra_heads = extra_heads
        self.extra_feed_forward = extra_feed_forward
        self.extra_dropout = extra_dropout
        self.pooling = pooling
        self.image_pooling = image_pooling
        self.normalize = normalize
        self.scale = scale
        self.learned_scale = learned_scale
        self.image_feature_size = image_feature_size
        super().__init__(**options)

    @property
    def has_images(self) -> bool:
        """Whether the model has an image tower."""
        return self.image_config is not None

    @property
    def text_width(self) -> int:
        """Width of the text backbone."""
        return int(self.text_config.hidden_size)

    @property
    def width(self) -> int:
        """Width of the features: the image backbone's or that of image vectors, else the text backbone's."""
        if self.image_config is not None:
            return image_width(self.image_config)
        return self.image_feature_size or self.text_width

    @property
    def projects_text(self) -> bool:
        """Whether captions get a linear layer to the width of image features."""
        return self.has_images or self.image_feature_size > 0


@dataclass
class DualEncoderOutput(ModelOutput):
    """(T, D) caption and (I, D) image features, or None, and the factor of similarities in the loss."""

    text_embeds: torch.Tensor | None = None
    image_embeds: torch.Tensor | None = None
    scale: torch.Tensor | None = None


class DualEncoderModel(PreTrainedModel):
    """A text tower, shared by both sides of text pairs, and, except for text-text models, an image tower.

    The text tower is a backbone with trainable transformer layers on top, pooling, and, if it learns from images, a
    linear layer to the width of their features (section 5.2 of arXiv 2004.15020). With ``image_feature_size`` F in the
    config these are vectors of another model, and there is no image tower.
    """

    config_class = DualEncoderConfig
    config: DualEncoderConfig
    base_model_prefix = "dual_encoder"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True

    def __init__(self, config: DualEncoderConfig) -> None:
        super().__init__(config)
        self.text_model = build_model(config.text_config)
        self.text_layers = _extra_layers(config)
        self.image_model = None if config.image_config is None else build_model(config.image_config)
        self.text_projection = nn.Linear(config.text_width, config.width) if config.projects_text else nn.Identity()
        self.log_scale = nn.Parameter(torch.tensor(config.scale).log())
        self.post_init()  # type: ignore[no-untyped-call] # transformers' own
        self._freeze()

    @classmethod
    def from_pretrained(cls, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - transformers' own
        """Load a model, and freeze what its config freezes."""
        loaded = super().from_pretrained(*arguments, **options)
        # Loading makes all parameters trainable.
        (loaded[0] if isinstance(loaded, tuple) else loaded)._freeze()
        return loaded

    @classmethod
    def from_backbones(cls, text: PreTrainedModel, image: PreTrainedModel | None = None, **options: Any) -> Self:  # noqa: ANN401 - config's
        """A model with pretrained backbones and new other layers."""
        if image is not None:
            check_image_encoder(image)
        model = cls(DualEncoderConfig(text.config, None if image is None else image.config, **options))
        model.text_model.load_state_dict(text.state_dict())
        if image is not None and model.image_model is not None:
            model.image_model.load_state_dict(image.state_dict())
        return model

    def get_text_features(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        **_others: Any,  # noqa: ANN401 - other outputs of tokenizers
    ) -> BaseModelOutputWithPooling:
        """Features of (T, L) tokens: ``last_hidden_state`` (T, L, text width), ``pooler_output`` (T, D)."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        tokens = self._encode_in_parts(input_ids, mask)
        features = self._finish(self.text_projection(_pool(tokens, mask, self.config.pooling)))
        return BaseModelOutputWithPooling(last_hidden_state=tokens, pooler_output=features)

    def get_image_features(
        self,
        pixel_values: torch.Tensor,
        **_others: Any,  # noqa: ANN401 - other outputs of image processors
    ) -> BaseModelOutputWithPooling:
        """Features of (I, 3, H, W) images: ``last_hidden_state``, and ``pooler_output`` (I, D)."""
        if self.image_model is None:
            raise TowerMissing("this dual encoder has no image tower (DE_T2T); use one with an image backbone")
        outputs = self.image_model(pixel_values=pixel_values)
        features = self._finish(_pool_image(outputs, self.config.image_pooling))
        return BaseModelOutputWithPooling(last_hidden_state=outputs.last_hidden_state, pooler_output=features)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        image_features: torch.Tensor | None = None,
    ) -> DualEncoderOutput:
        """Features of captions, images or both, whose numbers may differ; (I, F) ``image_features`` are images."""
        texts = None if input_ids is None else self.get_text_features(input_ids, attention_mask).pooler_output
        images = None if pixel_values is None else self.get_image_features(pixel_values).pooler_output
        if image_features is not None:
            images = self._finish(image_features)
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

    def _encode_in_parts(self, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(T, L, W) states; on a CPU, in batches of similar length, with 0 in place of padding."""
        if input_ids.device.type != "cpu" or len(input_ids) <= ROWS:
            return self._encode_tokens(input_ids, mask)

        def encode(ids: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
            padding = input_ids.shape[1] - ids.shape[1]
            return functional.pad(self._encode_tokens(ids, present), (0, 0, 0, padding))

        return encode_by_length(encode, input_ids, mask, ROWS)

    def _encode_tokens(self, input_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.config.freeze_text):
            tokens: torch.Tensor = self.text_model(input_ids=input_ids, attention_mask=mask).last_hidden_state
        if self.text_layers is not None:
            tokens = self.text_layers(tokens, src_key_padding_mask=mask == 0)
        return tokens

    def _finish(self, features: torch.Tensor) -> torch.Tensor:
        return functional.normalize(features, dim=-1) if self.config.normalize else features

    def _init_weights(self, module: nn.Module) -> None:
        if module is self:
            nn.init.constant_(self.log_scale, torch.tensor(self.config.scale).log().item())
        elif isinstance(module, nn.MultiheadAttention):
            # TransformerEncoder copies one layer; without this all layers would start with the same attention.
            nn.init.normal_(module.in_proj_weight, std=0.02)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class ExtraLayer(GradientCheckpointingLayer, nn.TransformerEncoderLayer):
    """A layer above the text backbone, which ``gradient_checkpointing_enable`` reaches."""


def _extra_layers(config: DualEncoderConfig) -> nn.TransformerEncoder | None:
    if not config.extra_layers:
        return None
    layer = ExtraLayer(
        config.text_width,
        config.extra_heads,
        config.extra_feed_forward,
        config.extra_dropout,
        activation="gelu",
        batch_first=True,
    )
    return nn.TransformerEncoder(layer, config.extra_layers, enable_nested_tensor=False)


def _pool(tokens: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    if pooling == "first_token":
        return tokens[:, 0]
    weights = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * weights).sum(1) / weights.sum(1).clamp(min=1)


def _pool_image(outputs: Any, pooling: str) -> torch.Tensor:  # noqa: ANN401 - backbones share no type
    states: torch.Tensor = outputs.last_hidden_state
    if pooling == "max":
        # Transformers give (I, positions, D), convolutional networks (I, D, H, W).
        return states.amax(1) if states.dim() == 3 else states.flatten(2).amax(2)
    # ResNet keeps its pooled features as (I, D, 1, 1).
    pooled: torch.Tensor = outputs.pooler_output.flatten(1)
    return pooled


def text_backbone(source: str) -> tuple[Any, Any]:
    """The text backbone and its tokenizer; ``sample`` is a small one."""
    if source == SAMPLE:
        return make_text_backbone()
    return _backbone(source, "input_ids", "text"), load_part(AutoTokenizer, source)


def image_backbone(source: str) -> tuple[Any, Any]:
    """The image backbone and its processor; ``sample`` is a small one."""
    if source == SAMPLE:
        return make_image_backbone()
    return _backbone(source, "pixel_values", "image"), load_part(AutoImageProcessor, source)


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


def load_dual_encoder(source: str, mode: str, image_feature_size: int) -> tuple[Any, Any]:
    """A dual encoder to go on from, and its tokenizer (for texts only) or processor, for a mode of the objective.

    ``image_feature_size`` is the size of the vectors that stand for images, 0 without them.
    """
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
    return model, limit_tokens(processing, model)


def limit_tokens(processing: Any, model: Any) -> Any:  # noqa: ANN401 - processors and dual encoders share no type
    """Limit the tokenizer to the model's context, and pad on the right, so that first tokens stay first."""
    tokenizer = find_tokenizer(processing)
    tokenizer.model_max_length = context_length(tokenizer, model) or LONGEST_CAPTION
    if padded_length(tokenizer, model) is None:
        tokenizer.padding_side = "right"
    return processing


def has_sentence_form(model: Any) -> bool:  # noqa: ANN401 - a dual encoder, ours or not
    """Whether the features are a backbone's pooled tokens, which is what sentence-transformers' modules compute."""
    return isinstance(model, DualEncoderModel) and not model.config.projects_text and model.text_layers is None


def save_sentence_form(model: DualEncoderModel, tokenizer: Any, folder: Path) -> None:  # noqa: ANN401 - any tokenizer
    """Write what ``SentenceTransformer(folder)`` reads, with the backbone once more in ``0_Transformer``."""
    config = model.config
    pooling = {"word_embedding_dimension": config.width, "pooling_mode_cls_token": config.pooling == "first_token"}
    pooling["pooling_mode_mean_tokens"] = config.pooling == "mean"
    parts = SENTENCE_PARTS if config.normalize else SENTENCE_PARTS[:2]
    names = [part.partition("_")[2] for part in parts]
    modules = [
        {"idx": index, "name": str(index), "path": part, "type": f"sentence_transformers.models.{name}"}
        for index, (part, name) in enumerate(zip(parts, names, strict=True))
    ]
    model.text_model.save_pretrained(folder / SENTENCE_PARTS[0])
    tokenizer.save_pretrained(folder / SENTENCE_PARTS[0])
    _write(folder / SENTENCE_PARTS[1] / "config.json", pooling)
    similarity = "cosine" if config.normalize else "dot"
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": similarity})
    _write(folder / MODULES_FILE, modules)


def _write(path: Path, content: Any) -> None:  # noqa: ANN401 - what JSON holds
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


LOADING = """\
from transformers import AutoModel, {processor}

model = AutoModel.from_pretrained("FOLDER"{code})
processor = {processor}.from_pretrained("FOLDER"{code})
inputs = processor(text=["A dog runs."], return_tensors="pt")
vectors = model.get_text_features(inputs["input_ids"], inputs["attention_mask"]).pooler_output
"""
LOADING_IMAGES = """\
from PIL import Image

inputs = processor(images=[Image.open("dog.jpg")], return_tensors="pt")
vectors = model.get_image_features(inputs["pixel_values"]).pooler_output
"""
LOADING_SENTENCES = """\
from sentence_transformers import SentenceTransformer

vectors = SentenceTransformer("FOLDER").encode(["A dog runs."])
"""


def list_loading_code(model: Any, *, has_images: bool) -> list[str]:  # noqa: ANN401 - a dual encoder, ours or not
    """Code that uses a model without this package, for its card."""
    code = ", trust_remote_code=True" if isinstance(model, DualEncoderModel) else ""
    loading = [LOADING.format(processor="AutoProcessor" if has_images else "AutoTokenizer", code=code)]
    if has_images:
        loading.append(LOADING_IMAGES)
    if has_sentence_form(model):
        loading.append(LOADING_SENTENCES)
    return loading


def find_pipeline_tag(model: Any) -> str | None:  # noqa: ANN401 - likewise
    """The task of a model on the Hub."""
    if isinstance(model, DualEncoderModel):
        return "feature-extraction"
    if type(model.config) in MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING:
        return "zero-shot-image-classification"
    return None


AutoConfig.register(DualEncoderConfig.model_type, DualEncoderConfig)
AutoModel.register(DualEncoderConfig, DualEncoderModel)
