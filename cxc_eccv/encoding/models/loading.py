"""A model by name or as it is, on its device, with its processors."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from cxc_eccv.encoding.models.checkpoints import Processors, from_checkpoint
from cxc_eccv.encoding.models.text_input import in_lower_case, never_saw_capitals
from cxc_eccv.encoding.processes import local_rank
from cxc_eccv.encoding.work import fingerprint, processor_state, weights_fingerprint
from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.ranking.scores import torch_on
from cxc_eccv.runs.embeddings import SIMILARITIES

__all__ = ["model_key"]

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

__all__ = ["CROSS_ENCODERS", "LoadedModel", "load_model"]

CROSS_ENCODERS = (
    "ViltForImageAndTextRetrieval",
    "BlipForImageTextRetrieval",
    "BridgeTowerForImageAndTextRetrieval",
)
"""Classes that score an image together with a caption."""

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to encode.

    Attributes:
        model: in evaluation mode, on its device.
        processors: its tokenizer and image processor.
        name: what messages call it.
        lowercase: put texts in lower case; None where the model was trained on such and its tokenizer does not do it.
    """

    model: PreTrainedModel | SentenceTransformer
    processors: Processors
    name: str
    lowercase: bool | None = None

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Its tokenizer, with the case that it is to have.

        Raises:
            ModelError: there is none, or it cannot be used.
            InvalidOption: it cannot be told to lower-case.
        """
        kept = self.processors.tokenizer()
        return in_lower_case(kept) if self.lowercases else kept

    @cached_property
    def lowercases(self) -> bool:
        """Whether texts are put in lower case before the tokenizer's own rules."""
        if self.lowercase is not None or not isinstance(self.model, PreTrainedModel):
            return bool(self.lowercase)
        return never_saw_capitals(self.processors.tokenizer(), self.model)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.model.device

    @cached_property
    def dtype(self) -> torch.dtype:
        """Type of its weights."""
        return next(self.model.parameters()).dtype

    @property
    def is_cross_encoder(self) -> bool:
        """Whether it scores pairs and has no embeddings."""
        return any(kind.__name__ in CROSS_ENCODERS for kind in type(self.model).__mro__)

    @property
    def similarity(self) -> str:
        """What its vectors are compared by: cosine, but for a model that says dot product.

        A sentence-transformers model says it as ``similarity_fn_name``, a dual encoder that compares its raw vectors
        has ``normalize`` false in its config.

        Raises:
            ModelError: it is meant for a distance, which nothing here computes.
        """
        if isinstance(self.model, PreTrainedModel):
            return "cosine" if getattr(self.model.config, "normalize", True) else "dot"
        name = str(self.model.similarity_fn_name)
        if name not in SIMILARITIES:
            raise ModelError(
                f"{self.name} compares its vectors by {name!r}; set its similarity_fn_name to one of "
                f"{', '.join(SIMILARITIES)} if these suit it"
            )
        return name

    @property
    def sides(self) -> tuple[str, ...]:
        """Which of ``images`` and ``captions`` it encodes."""
        if not isinstance(self.model, PreTrainedModel):
            return ("captions",)
        if self.is_cross_encoder:
            return ()
        towers = {"images": "get_image_features", "captions": "get_text_features"}
        found = tuple(side for side, method in towers.items() if hasattr(self.model, method))
        if found:
            return found
        return ("images",) if self.model.main_input_name == "pixel_values" else ("captions",)


def load_model(
    model: Any,  # noqa: ANN401 - a name or one of several classes
    *,
    processor: Any = None,  # noqa: ANN401 - see Processors
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    lowercase: bool | None = None,
) -> LoadedModel:
    """A model ready to encode.

    Args:
        model: Hub id or folder, a loaded ``PreTrainedModel`` or ``SentenceTransformer``, or what this function gave.
        processor: a processor, a tokenizer, an image processor, a tuple of the last two, or their folder or Hub id; by
            default what was saved with the model.
        device: torch's name of it; None for a GPU where there is one (under torchrun that of the process), and for
            where a loaded model is.
        dtype: ``float32``, ``bfloat16``, ``float16``; None for float32, and for what a loaded model has.
        lowercase: put texts in lower case first, or leave their capitals; None for what the model was trained on, as
            far as its files tell (SigLIP 2 of fixed resolution has it done, any other is left to its tokenizer).

    Raises:
        ModelError: it cannot be loaded, or its checkpoint does not fit its config.
        InvalidOption: no such device or dtype; ``lowercase`` for a sentence-transformers model.
    """
    if isinstance(model, LoadedModel):
        return model
    source = str(model) if isinstance(model, str | Path) else ""
    if source:
        place, kind = torch_device(device), torch_dtype(dtype) or torch.float32
        loaded = from_checkpoint(source, kind, CROSS_ENCODERS).to(place)
    else:
        loaded = _as_given(model, device, dtype)
        source = str(getattr(getattr(model, "config", None), "_name_or_path", ""))
    if not isinstance(loaded, PreTrainedModel) and processor is None:
        processor = loaded.tokenizer
    if lowercase is not None and not isinstance(loaded, PreTrainedModel):
        raise InvalidOption("lowercase: a sentence-transformers model has rules of its own for texts; leave it out")
    return LoadedModel(loaded.eval(), Processors(processor, source), source or type(model).__name__, lowercase)


def torch_device(device: str | torch.device | None) -> torch.device:
    """The device of that name; by default the GPU of this process, else the processor.

    Raises:
        InvalidOption: it is not there.

    Example:
        >>> torch_device("cpu")
        device(type='cpu')
    """
    if device is None:
        return torch.device("cuda", local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    torch_on(str(device))
    return torch.zeros(0, device=device).device


def torch_dtype(dtype: str | torch.dtype | None) -> torch.dtype | None:
    """The floating type of that name; None stays None.

    Raises:
        InvalidOption: another one than those of :data:`DTYPES`.

    Example:
        >>> torch_dtype("bf16")
        torch.bfloat16
    """
    found = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if dtype is not None and found not in DTYPES.values():
        raise InvalidOption(f"dtype {dtype!r}: choose float32, bfloat16 or float16")
    return found


def _as_given(model: Any, device: str | torch.device | None, dtype: str | torch.dtype | None) -> Any:  # noqa: ANN401
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if not kinds & {"PreTrainedModel", "SentenceTransformer"}:
        raise ModelError(
            f"model is a {type(model).__name__}; give a Hub id, a folder, a transformers PreTrainedModel or a "
            "SentenceTransformer"
        )
    kind = torch_dtype(dtype)
    model = model if device is None else model.to(torch_device(device))
    return model if kind is None else model.to(kind)


def model_key(loaded: LoadedModel, sides: Collection[str], *settings: str) -> str:
    """Hex sha256 over weights, their type, the processors used, and settings.

    Args:
        loaded: the model.
        sides: ``images`` for its image processor, ``captions`` for its tokenizer.
        *settings: whatever else changes the result.
    """
    used = [loaded.processors.image_processor()] if "images" in sides else []
    states = [processor_state(one) for one in [*used, *([loaded.tokenizer] if "captions" in sides else [])]]
    return fingerprint(weights_fingerprint(loaded.model), str(loaded.dtype), states, settings)
