"""The character GRU, its snapshots and their ensemble, which embed captions and precomputed image features."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModel, PreTrainedModel, TrainerCallback
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils.generic import ModelOutput

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.char_gru.data import SELECTION
from cxc_eccv.studies.baselines.char_gru.loss import hinge_loss_of_views
from cxc_eccv.studies.trainers.backbones import encode_by_length
from cxc_eccv.studies.trainers.portable import PortableConfig
from cxc_eccv.studies.trainers.tokens import AnyTokenizer
from cxc_eccv.writing import replaced_file

UNITS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}
ROWS = 128
"""Captions per batch of encoding."""

SNAPSHOTS = "snapshots"
SCORES = "snapshots.json"
"""The folder of the snapshots within that of a run, and the file of their scores in it."""


class CharGruConfig(PortableConfig):
    """Sizes of the model, by default the paper's; ``image_feature_size`` 0 makes a model of captions only."""

    model_type = "cxc_eccv_char_gru"
    auto_classes: ClassVar[dict[str, str]] = {"AutoModel": f"{__name__}.CharGruModel"}
    has_images = False
    """It reads vectors of images, no images."""

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
        self.vocab_size = vocab_size
        self.character_size = character_size
        self.recurrent_unit = recurrent_unit
        self.hidden_size = hidden_size
        self.pooling = pooling
        self.attention_size = attention_size
        self.image_feature_size = image_feature_size
        self.margin = margin
        self.pad_token_id = pad_token_id
        super().__init__(**kwargs)

    @property
    def embedding_size(self) -> int:
        """Width of a caption's or an image's embedding."""
        return 2 * self.hidden_size


@dataclass
class CharGruOutput(ModelOutput):
    """(N, V, D) unit vectors of V captions of N images, (N, D) of the images or None, and the hinge loss or None."""

    loss: Tensor | None = None
    text_embeds: Tensor | None = None
    image_embeds: Tensor | None = None

    @property
    def views(self) -> list[Tensor]:
        """(N, D) unit vectors of every caption of an image, and of the image if given."""
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
        self.post_init()  # type: ignore[no-untyped-call] # transformers' own

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, image_features: Tensor | None = None
    ) -> CharGruOutput:
        """Embeddings of (N, V, T) or (N, T) captions and (N, F) features; the loss if N and the views are above 1."""
        captions = input_ids if input_ids.dim() == 3 else input_ids[:, None]
        ids = captions.flatten(0, 1)
        mask = torch.ones_like(ids) if attention_mask is None else attention_mask.reshape(ids.shape)
        texts = encode_by_length(self._text_vectors, ids, mask, ROWS).reshape(*captions.shape[:2], -1)
        images = None if image_features is None else self.get_image_features(image_features).pooler_output
        output = CharGruOutput(text_embeds=texts, image_embeds=images)
        if len(output.views) > 1 and len(captions) > 1:
            output.loss = hinge_loss_of_views(output.views, self.config.margin)
        return output

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """Unit vectors of captions, (N, T) int64 padded on the right: ``pooler_output`` (N, D) float32."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return BaseModelOutputWithPooling(pooler_output=self._text_vectors(input_ids, mask))

    def _text_vectors(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        present = attention_mask.bool()
        if not present[:, 0].all():
            raise InvalidOption("a caption has no character, or is padded on the left; pad on the right")
        states = self.recurrent(self.characters(input_ids), present.sum(dim=1))
        return normalize(self.pooling(states, present).float(), dim=-1)

    def get_image_features(self, image_features: Tensor) -> BaseModelOutputWithPooling:
        """Unit vectors of precomputed (N, F) features: ``pooler_output`` (N, D)."""
        width = self.config.image_feature_size
        if self.image_projection is None:
            raise InvalidOption("this character GRU has no image side (image_feature_size is 0)")
        if image_features.shape[-1] != width:
            raise InvalidOption(f"image features have width {image_features.shape[-1]}; the model needs {width}")
        return BaseModelOutputWithPooling(
            pooler_output=normalize(self.image_projection(image_features).float(), dim=-1)
        )

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Embedding, nn.Linear, nn.GRU, nn.LSTM)):
            module.reset_parameters()


class BidirectionalLayer(nn.Module):
    """A bidirectional recurrent layer; the backward pass starts at the end of each sequence, as if packed."""

    def __init__(self, unit: str, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.left_to_right = UNITS[unit](input_size, hidden_size, batch_first=True)
        self.right_to_left = UNITS[unit](input_size, hidden_size, batch_first=True)

    def forward(self, steps: Tensor, lengths: Tensor) -> Tensor:
        """(N, T, 2 x hidden size) states of (N, T, input size) steps; those past a length are undefined."""
        onward = self.left_to_right(steps)[0]
        back = self.right_to_left(_reverse_within(steps, lengths))[0]
        return torch.cat([onward, _reverse_within(back, lengths)], dim=-1)


def _reverse_within(states: Tensor, lengths: Tensor) -> Tensor:
    """(N, T, D) states with every sequence reversed within its length; padding stays in place."""
    places = torch.arange(states.shape[1], device=states.device).expand(states.shape[:2])
    last = lengths[:, None] - 1
    source = torch.where(places <= last, last - places, places)
    return states.gather(1, source[:, :, None].expand_as(states))


class AttentionPooling(nn.Module):
    """Vectorial self-attention: every feature has its own weights over the steps.

    ``a_t = softmax_t(V tanh(W h_t + b_w) + b_v)`` and ``Att(h) = sum_t a_t * h_t``, element by element.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.1.2.
    """

    def __init__(self, state_size: int, attention_size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(state_size, attention_size)
        self.weights = nn.Linear(attention_size, state_size)

    def forward(self, states: Tensor, present: Tensor) -> Tensor:
        """(N, D) vectors of (N, T, D) states with an (N, T) mask."""
        weights = self.weights(torch.tanh(self.hidden(states))).float()
        attention = weights.masked_fill(~present[:, :, None], -torch.inf).softmax(dim=1)
        pooled: Tensor = (attention * states).sum(dim=1)
        return pooled


class MaxPooling(nn.Module):
    """The largest value of every feature over the steps."""

    def forward(self, states: Tensor, present: Tensor) -> Tensor:
        """(N, D) vectors of (N, T, D) states with an (N, T) mask."""
        return states.masked_fill(~present[:, :, None], -torch.inf).amax(dim=1)


class CharGruEnsembleConfig(PortableConfig):
    """The number of members, their common configuration, and whether they read COCO's captions as tokens."""

    model_type = "cxc_eccv_char_gru_ensemble"
    auto_classes: ClassVar[dict[str, str]] = {"AutoModel": f"{__name__}.CharGruEnsemble"}
    has_images = False

    def __init__(
        self,
        members: int = 2,
        member: dict[str, Any] | None = None,
        coco_tokens: bool = False,
        **kwargs: Any,  # noqa: ANN401 - handed on
    ) -> None:
        self.members = members
        self.member = member or {}
        self.coco_tokens = coco_tokens
        super().__init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        """Characters that every member embeds."""
        return int(CharGruConfig.from_dict(self.member).vocab_size)


class CharGruEnsemble(PreTrainedModel):
    """An ensemble of models of one configuration; a vector is the normalised mean of their unit vectors.

    References:
        Merkx and Frank 2019, arXiv:1903.11393, section 3.3; after Huang et al., Snapshot ensembles, ICLR 2017.
    """

    config_class = CharGruEnsembleConfig
    main_input_name = "input_ids"

    def __init__(self, config: CharGruEnsembleConfig) -> None:
        super().__init__(config)
        member = CharGruConfig.from_dict(config.member)
        self.members = nn.ModuleList([CharGruModel(member) for _ in range(config.members)])
        self.post_init()  # type: ignore[no-untyped-call] # transformers' own

    @classmethod
    def of(cls, models: Sequence[CharGruModel]) -> CharGruEnsemble:
        """An ensemble of copies of trained models of one configuration."""
        ensemble = cls(CharGruEnsembleConfig(len(models), models[0].config.to_dict()))
        for member, model in zip(ensemble.members, models, strict=True):
            member.load_state_dict(model.state_dict())
        ensemble.train(mode=False)
        return ensemble

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """Unit vectors of captions, as :class:`CharGruModel` gives them."""
        return self._mean("get_text_features", input_ids, attention_mask)

    def get_image_features(self, image_features: Tensor) -> BaseModelOutputWithPooling:
        """Unit vectors of image features, as :class:`CharGruModel` gives them."""
        return self._mean("get_image_features", image_features)

    def _mean(self, method: str, *inputs: Tensor | None) -> BaseModelOutputWithPooling:
        vectors = torch.stack([getattr(member, method)(*inputs).pooler_output for member in self.members])
        return BaseModelOutputWithPooling(pooler_output=normalize(vectors.mean(dim=0), dim=-1))

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Do nothing: members initialise themselves."""


class CycleCallback(TrainerCallback):
    """Saves the model and its score after the evaluation at the end of every cycle, in ``snapshots``."""

    def __init__(self, folder: Path, cycle: int, tokenizer: AnyTokenizer) -> None:
        self.folder = folder / SNAPSHOTS
        self.cycle = cycle
        self.tokenizer = tokenizer

    def on_evaluate(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ANN401 - Trainer's
        """Save on the first process if a cycle ends; ``cycle`` is in steps."""
        if state.global_step % self.cycle or not state.is_world_process_zero:
            return
        name = f"step-{state.global_step:06d}"
        others["model"].save_pretrained(self.folder / name)
        self.tokenizer.save_pretrained(self.folder / name)
        scores = read_scores(self.folder) | {name: others["metrics"][f"eval_{SELECTION}"]}
        with replaced_file(self.folder / SCORES) as part:
            part.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")


def read_scores(folder: Path) -> dict[str, float]:
    """The name of every snapshot to the mean R@10 that it is chosen by."""
    path = folder / SCORES
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def best_snapshots(folder: Path, count: int = 2) -> list[Path]:
    """Folders of the snapshots with the highest scores, the best first; of equal ones the latest."""
    scores = read_scores(folder)
    ranked = sorted(scores, key=lambda name: (scores[name], name), reverse=True)
    return [folder / name for name in ranked[:count]]


LOADING = """\
from transformers import AutoModel, AutoTokenizer

model = AutoModel.from_pretrained("FOLDER", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("FOLDER", trust_remote_code=True)
inputs = tokenizer(["A dog runs."], return_tensors="pt")
vectors = model.get_text_features(inputs["input_ids"], inputs["attention_mask"]).pooler_output
"""
LOADING_FEATURES = """\
import numpy
import torch

features = torch.from_numpy(numpy.load("image_features.npz")["image_embeddings"])
vectors = model.get_image_features(features).pooler_output
"""
"""Code that uses an ensemble without this package."""


AutoConfig.register(CharGruConfig.model_type, CharGruConfig, exist_ok=True)
AutoModel.register(CharGruConfig, CharGruModel, exist_ok=True)
AutoConfig.register(CharGruEnsembleConfig.model_type, CharGruEnsembleConfig, exist_ok=True)
AutoModel.register(CharGruEnsembleConfig, CharGruEnsemble, exist_ok=True)
