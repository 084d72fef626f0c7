"""Several character GRUs as one model: the mean of their unit vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.char_gru.model import CharGruConfig, CharGruModel

__all__ = ["CharGruEnsemble", "CharGruEnsembleConfig"]


class CharGruEnsembleConfig(PreTrainedConfig):
    """The number of members, and the configuration that they share, as a dictionary."""

    model_type = "cxc_eccv_char_gru_ensemble"

    def __init__(self, members: int = 2, member: dict[str, Any] | None = None, **kwargs: Any) -> None:  # noqa: ANN401
        self.members, self.member = members, member or {}
        super().__init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        """Characters that every member embeds."""
        return int(CharGruConfig.from_dict(self.member).vocab_size)


class CharGruEnsemble(PreTrainedModel):
    """Members of one configuration; a vector is the mean of their unit vectors, at unit length again.

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
        """An ensemble of copies of trained models, which must be of one configuration."""
        shapes = [{name: tensor.shape for name, tensor in model.state_dict().items()} for model in models]
        if not models or any(shape != shapes[0] for shape in shapes):
            raise InvalidOption("an ensemble needs at least one model, and models of one configuration")
        ensemble = cls(CharGruEnsembleConfig(len(models), models[0].config.to_dict()))
        for member, model in zip(ensemble.members, models, strict=True):
            member.load_state_dict(model.state_dict())
        ensemble.train(mode=False)
        return ensemble

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> BaseModelOutputWithPooling:
        """As of a member."""
        return self._mean("get_text_features", input_ids, attention_mask)

    def get_image_features(self, image_features: Tensor) -> BaseModelOutputWithPooling:
        """As of a member."""
        return self._mean("get_image_features", image_features)

    def _mean(self, method: str, *inputs: Tensor | None) -> BaseModelOutputWithPooling:
        vectors = torch.stack([getattr(member, method)(*inputs).pooler_output for member in self.members])
        return BaseModelOutputWithPooling(pooler_output=normalize(vectors.mean(dim=0), dim=-1))

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Members initialise themselves."""


AutoConfig.register(CharGruEnsembleConfig.model_type, CharGruEnsembleConfig, exist_ok=True)
AutoModel.register(CharGruEnsembleConfig, CharGruEnsemble, exist_ok=True)
