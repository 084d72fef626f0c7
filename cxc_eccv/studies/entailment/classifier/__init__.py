"""EntailmentClassifier: does an image with its captions entail a sentence?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn
from torch.nn import functional
from transformers import AutoConfig, AutoModel, PreTrainedModel
from transformers.utils.generic import ModelOutput

from cxc_eccv.encoding.images import check_image_encoder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.entailment.classifier.config import (
    MULTIMODAL,
    PAIR_KINDS,
    TEXT,
    VISUAL,
    EntailmentConfig,
)
from cxc_eccv.studies.entailment.classifier.encoders import (
    blank_attended,
    build_encoder,
    check_attends,
    check_reader,
    check_sees_all,
    copy_config,
    copy_weights,
    cross_widths,
    first_states,
    spread_positions,
)

__all__ = ["PAIR_KINDS", "EntailmentClassifier", "EntailmentConfig"]

TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

Tensors = dict[str, torch.Tensor]


@dataclass
class EntailmentOutput(ModelOutput):
    """The loss, None without labels, and (N, 2) logits for "not entailed" and "entailed".

    The logits are the joint head's if a pair has image and text and the model both branches, else those of the branch.
    """

    loss: torch.Tensor | None = None
    logits: torch.Tensor | None = None


@dataclass
class _Batch:
    """Pairs: tensors with a row per pair, images, and each pair's index into the images; None for one image a pair."""

    texts: Tensors
    images: Tensors
    index: torch.Tensor | None
    kinds: torch.Tensor

    @classmethod
    def of(cls, texts: Tensors, images: Tensors, index: torch.Tensor | None, kinds: torch.Tensor | None) -> _Batch:
        """Make a batch; without ``kinds``, every pair has all inputs that are given."""
        if kinds is None:
            if not texts:
                raise InvalidOption("give input_ids, or pixel_values with visual_input_ids")
            first = next(iter(texts.values()))
            kind = VISUAL if "input_ids" not in texts else MULTIMODAL if images else TEXT
            kinds = torch.full((len(first),), kind, device=first.device)
        return cls(texts, images, index, kinds)

    def __len__(self) -> int:
        return len(self.kinds)

    def select(self, rows: torch.Tensor) -> _Batch:
        """These pairs, with only the images that they need."""
        wanted, index = (rows if self.index is None else self.index[rows]).unique(return_inverse=True)
        images = {name: tensor[wanted] for name, tensor in self.images.items()}
        return _Batch({name: tensor[rows] for name, tensor in self.texts.items()}, images, index, self.kinds[rows])

    def narrow(self, rows: torch.Tensor) -> _Batch:
        """The pairs of these ascending rows; the batch itself if these are all."""
        return self if len(rows) == len(self) else self.select(rows)

    def extend(self, other: _Batch) -> _Batch:
        """These pairs followed by others, which have separate images."""
        places, after = (
            torch.arange(len(b), device=b.kinds.device) if b.index is None else b.index for b in (self, other)
        )
        texts, images = (
            {name: torch.cat([tensor, theirs[name]]) for name, tensor in ours.items()}
            for ours, theirs in ((self.texts, other.texts), (self.images, other.images))
        )
        index = torch.cat([places, after + len(self.images["pixel_values"])])
        return _Batch(texts, images, index, torch.cat([self.kinds, other.kinds]))

    def spread(self, of_images: Tensors) -> Tensors:
        """Tensors of the images, as one row per pair."""
        return of_images if self.index is None else {name: tensor[self.index] for name, tensor in of_images.items()}


class EntailmentClassifier(PreTrainedModel):
    """Text branch, visual branch, gate, and a head of two hidden ReLU layers on each of the three states.

    With h_t the state of the first token of (premise text, hypothesis), equation 1, and h_v that of the hypothesis
    that attends to the image, equation 3 (of BridgeTower, its text side's)::

        g_t = sigmoid(W_t h_t + b_t)      g_v = sigmoid(W_v h_v + b_v)      h_m = g_t * h_t + g_v * h_v     (5 to 7)

    Equation 7 adds the states. If those of the branches differ in size, a linear layer projects h_v to the size of h_t
    before the gate; the visual head still takes h_v itself.

    **Loss** (equations 9 to 12): a pair with text only counts for the text head, one with an image only for the visual
    head, one with both for all three; the sum is divided by the number of pairs in the batch. A branch computes only
    the rows that its head or the joint head needs.

    **Masking** (section 3.2), in training with labels: random entailed pairs with an image (label at least 0.5) are
    copied with the most attended patches blanked, up to ``mask_share`` of the batch's pairs with an image. The copies
    are additional rows, not entailed for the visual and the joint head; the text head does not see them.

    **Labels** are in [0, 1] (1 is entailed): cross-entropy against (1 - y, y).

    Args:
        config: the architecture.

    References:
        Revising Image-Text Retrieval via Multi-Modal Entailment, section 3.

    Example:
        >>> from transformers import BertConfig
        >>> size = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=9)
        >>> model = EntailmentClassifier(EntailmentConfig(BertConfig(**size))).eval()
        >>> output = model(input_ids=torch.tensor([[1, 2, 3]]), labels=torch.tensor([1]))
        >>> output.logits.shape, model.probabilities(output.logits).shape
        (torch.Size([1, 2]), torch.Size([1]))
    """

    config_class = EntailmentConfig
    config: EntailmentConfig
    base_model_prefix = "entailment"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True

    def __init__(self, config: EntailmentConfig) -> None:
        super().__init__(config)
        self.text_model = build_encoder(config.text_config)
        self.image_model = build_encoder(config.image_config)
        self.visual_text_model = build_encoder(config.visual_text_config)
        self.image_projection = _project(*cross_widths(config.image_config, config.visual_text_config))
        text = config.widths[0] if config.has_text else 0
        visual = config.widths[-1]
        self.text_head = _head(text, config) if config.has_text else None
        self.visual_head = _head(visual, config) if config.has_visual else None
        self.joint_head = None
        if config.has_text and config.has_visual:
            self.visual_projection = _project(visual, text)
            self.text_gate = nn.Linear(text, text)
            self.visual_gate = nn.Linear(text, text)
            self.joint_head = _head(text, config)
        self.post_init()  # type: ignore[no-untyped-call] # transformers' own

    @classmethod
    def from_parts(
        cls,
        text_model: PreTrainedModel | None = None,
        *,
        image_model: Any = None,  # noqa: ANN401 - models with two towers share no type
        visual_text_model: Any = None,  # noqa: ANN401 - likewise
        **options: Any,  # noqa: ANN401 - config's
    ) -> Self:
        """Make a classifier from pretrained encoders; its gate and heads are new.

        Args:
            text_model: any encoder whose first token sees the whole text; None for no text branch, or with
                ``shared_text=True``.
            image_model: any image encoder; of a model with two towers its image tower is used.
            visual_text_model: a text encoder that can attend to an image, with new cross-attention if its weights
                have none; or, without ``image_model``, ViLT, BridgeTower or BLIP's matching model.
            options: options of :class:`EntailmentConfig`.

        Raises:
            InvalidOption: a model is unsuited to its part.
            CheckpointMismatch: weights do not fit their config.
        """
        if image_model is None and hasattr(visual_text_model, "text_encoder"):
            image_model = visual_text_model.vision_model
            visual_text_model = visual_text_model.text_encoder
        if hasattr(getattr(image_model, "config", None), "vision_config"):
            image_model = image_model.vision_model
        parts: dict[str, Any] = {
            "text_model": text_model if text_model is None else text_model.base_model,
            "image_model": image_model,
            "visual_text_model": visual_text_model if visual_text_model is None else visual_text_model.base_model,
        }
        configs: dict[str, Any] = {
            f"{name.removesuffix('_model')}_config": copy_config(part) for name, part in parts.items()
        }
        if image_model is not None:
            check_image_encoder(image_model)
        if visual_text_model is not None:
            check_reader(visual_text_model, fuses=image_model is None)
            if image_model is not None:
                reader = configs["visual_text_config"]
                # Only decoders attend to an image; first_states keeps BERT and its kin bidirectional.
                reader.is_decoder = reader.add_cross_attention = True
        model = cls(EntailmentConfig(**configs, **options))
        model.train(False)
        for name, part in parts.items():
            if part is not None:
                copy_weights(part, getattr(model, name))
        model._check_parts()
        return model

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        pixel_mask: torch.Tensor | None = None,
        visual_input_ids: torch.Tensor | None = None,
        visual_attention_mask: torch.Tensor | None = None,
        visual_token_type_ids: torch.Tensor | None = None,
        image_index: torch.Tensor | None = None,
        kinds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
    ) -> EntailmentOutput:
        """Logits of N pairs, and with labels the loss.

        Args:
            input_ids: (N, L) premise texts with hypotheses, for the text branch.
            attention_mask: (N, L), 0 for padding.
            token_type_ids: (N, L), of encoders that have types of tokens.
            pixel_values: (I, 3, H, W) images, each encoded once; black for a missing image.
            pixel_mask: (I, H, W), of ViLT and BridgeTower.
            visual_input_ids: (N, M) hypotheses, for the visual branch.
            visual_attention_mask: (N, M), 0 for padding.
            visual_token_type_ids: (N, M), of encoders that have types of tokens.
            image_index: (N,) index of each pair's image; None for one image per pair, in order.
            kinds: (N,) indices into :data:`PAIR_KINDS`; None if all pairs have all inputs.
            labels: (N,) in [0, 1].

        Raises:
            InvalidOption: a label outside [0, 1].
        """
        texts = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
        texts |= {"visual_input_ids": visual_input_ids, "visual_attention_mask": visual_attention_mask}
        texts |= {"visual_token_type_ids": visual_token_type_ids}
        images = {"pixel_values": pixel_values, "pixel_mask": pixel_mask}
        batch = _Batch.of(_drop_none(texts), _drop_none(images), image_index, kinds)
        if labels is None:
            return EntailmentOutput(logits=_join(self._logits(batch), len(batch)))
        if (outside := labels[~((labels >= 0) & (labels <= 1))]).numel():
            raise InvalidOption(f"label {outside[0]:g}: give a number from 0 to 1")
        pairs = len(batch)
        batch, labels = self._add_masked(batch, labels.float())
        outputs = self._logits(batch)
        logits, rows = outputs["text"]
        kept = rows < pairs  # the text head does not see masked copies
        counted = outputs | {"text": (logits[kept], rows[kept])}
        losses = [soft_cross_entropy(logits, labels[rows]).sum() for logits, rows in counted.values()]
        return EntailmentOutput(loss=torch.stack(losses).sum() / len(batch), logits=_join(outputs, len(batch))[:pairs])

    def probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        """(N,) calibrated probabilities that a pair is entailed, from (N, 2) logits.

        sigmoid(scale (logit 1 - logit 0) + offset) in float64; without calibration this is the softmax.
        """
        lead = logits[:, 1].double() - logits[:, 0].double()
        return torch.sigmoid(self.config.calibration_scale * lead + self.config.calibration_offset)

    @torch.compiler.disable  # type: ignore[untyped-decorator] # looks at attention in inference mode
    def _add_masked(self, batch: _Batch, labels: torch.Tensor) -> tuple[_Batch, torch.Tensor]:
        image_model = self.image_model
        if not (self.training and self.config.mask_share) or image_model is None:
            return batch, labels
        has_image = batch.kinds != TEXT
        # Rounded up from half, so that two pairs with an image have a copy at the default share.
        most = int(self.config.mask_share * int(has_image.sum()) + 0.5)
        entailed = ((labels >= 0.5) & has_image).nonzero()[:, 0]
        drawn = entailed[torch.randperm(len(entailed))[:most].to(entailed.device)]
        if not len(drawn):
            return batch, labels
        copies = batch.select(drawn)
        copies.images["pixel_values"] = blank_attended(
            image_model, copies.images["pixel_values"], self.config.mask_ratio
        )
        return batch.extend(copies), torch.cat([labels, torch.zeros_like(labels[drawn])])

    def _logits(self, batch: _Batch) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """The logits of every head and their rows; the joint head comes last."""
        text_rows = _find_rows(self.text_head, batch.kinds != VISUAL)
        visual_rows = _find_rows(self.visual_head, batch.kinds != TEXT)
        nothing = torch.empty(0, 2, device=batch.kinds.device)
        outputs = {"text": (nothing, text_rows), "visual": (nothing, visual_rows)}
        if self.text_head is not None and len(text_rows):
            text = self._read_text(batch.narrow(text_rows))
            outputs["text"] = _two(self.text_head(text)), text_rows
        if self.visual_head is not None and len(visual_rows):
            visual = self._look(batch.narrow(visual_rows))
            outputs["visual"] = _two(self.visual_head(visual)), visual_rows
        both = (batch.kinds == MULTIMODAL).nonzero()[:, 0]
        if self.joint_head is not None and len(both):
            joint = self._gate(text[torch.isin(text_rows, both)], visual[torch.isin(visual_rows, both)])
            outputs["joint"] = _two(self.joint_head(joint)), both
        return outputs

    def _gate(self, text: torch.Tensor, visual: torch.Tensor) -> torch.Tensor:
        """Equations 5 to 7: (N, D) joint states."""
        visual = self.visual_projection(visual)
        joined: torch.Tensor = self.text_gate(text).sigmoid() * text + self.visual_gate(visual).sigmoid() * visual
        return joined

    def _read_text(self, batch: _Batch) -> torch.Tensor:
        """(N, D) states of the first token of premise and hypothesis (equation 1)."""
        reader: Any = self.visual_text_model if self.config.shared_text else self.text_model
        return first_states(reader, {name: batch.texts[name] for name in TEXT_INPUTS if name in batch.texts})

    def _look(self, batch: _Batch) -> torch.Tensor:
        """(N, D) states of the first token of the hypothesis that attends to the image (equation 3)."""
        text = {name: batch.texts[f"visual_{name}"] for name in TEXT_INPUTS if f"visual_{name}" in batch.texts}
        if self.image_model is None:
            return first_states(self.visual_text_model, text | batch.spread(batch.images))
        seen = spread_positions(self.image_model(pixel_values=batch.images["pixel_values"]).last_hidden_state)
        attended = batch.spread({"encoder_hidden_states": self.image_projection(seen)})
        return first_states(self.visual_text_model, text | attended)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            # PyTorch's default scales with the width; transformers' 0.02 is too small for narrow heads.
            module.reset_parameters()

    def _check_parts(self) -> None:
        tokens = {"input_ids": torch.tensor([[5, 6, 7], [5, 6, 8]])}
        with torch.no_grad():
            if self.config.has_text:
                check_sees_all(self._read_text(_Batch.of(tokens, {}, None, None)), "text")
            if self.image_model is not None:
                width = cross_widths(self.config.image_config, self.config.visual_text_config)[1]
                image = {"encoder_hidden_states": torch.ones(2, 1, width)}
                check_sees_all(first_states(self.visual_text_model, tokens | image), "visual")
            if self.image_model is not None and self.config.mask_share:
                check_attends(self.image_model)


def soft_cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """(N,) cross-entropies of (N, 2) logits against (1 - y, y), for (N,) labels y in [0, 1]."""
    logs = functional.log_softmax(logits, dim=1)
    return -((1 - labels) * logs[:, 0] + labels * logs[:, 1])


def _project(width: int, wanted: int) -> nn.Module:
    return nn.Identity() if width == wanted else nn.Linear(width, wanted)


def _head(width: int, config: EntailmentConfig) -> nn.Sequential:
    """Two hidden ReLU layers and the output."""
    first, second = config.head_widths or (width, width)
    layers: list[nn.Module] = []
    for inside, outside in ((width, first), (first, second)):
        layers += [nn.Dropout(config.head_dropout), nn.Linear(inside, outside), nn.ReLU()]
    outputs = 2 if config.head == "softmax" else 1
    return nn.Sequential(*layers, nn.Dropout(config.head_dropout), nn.Linear(second, outputs))


def _drop_none(inputs: Mapping[str, torch.Tensor | None]) -> Tensors:
    return {name: tensor for name, tensor in inputs.items() if tensor is not None}


def _find_rows(head: nn.Module | None, is_read: torch.Tensor) -> torch.Tensor:
    """The rows that a branch reads, none without its head."""
    rows = is_read.nonzero()[:, 0]
    return rows[:0] if head is None else rows


def _two(values: torch.Tensor) -> torch.Tensor:
    """(N, 2) float32 logits; a sigmoid's single logit becomes (0, logit)."""
    return functional.pad(values.float(), (2 - values.shape[1], 0))


def _join(outputs: Mapping[str, tuple[torch.Tensor, torch.Tensor]], pairs: int) -> torch.Tensor:
    """(N, 2) logits: each pair's from the last head that has it."""
    parts = [logits for logits, _ in outputs.values()]
    joined = parts[0].new_zeros(pairs, 2)
    for logits, rows in outputs.values():
        joined = joined.index_copy(0, rows, logits)
    return joined


AutoConfig.register(EntailmentConfig.model_type, EntailmentConfig, exist_ok=True)
AutoModel.register(EntailmentConfig, EntailmentClassifier, exist_ok=True)
