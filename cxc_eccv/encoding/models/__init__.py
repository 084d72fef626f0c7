"""A checkpoint, loaded with what belongs to it."""

from cxc_eccv.encoding.models.checkpoints import from_checkpoint, reason_of
from cxc_eccv.encoding.models.loading import CROSS_ENCODERS, LoadedModel, load_model, model_key
from cxc_eccv.encoding.models.text_input import (
    TextInput,
    context_length,
    in_lower_case,
    never_saw_capitals,
    padded_length,
)

__all__ = [
    "CROSS_ENCODERS",
    "LoadedModel",
    "TextInput",
    "context_length",
    "from_checkpoint",
    "in_lower_case",
    "load_model",
    "model_key",
    "never_saw_capitals",
    "padded_length",
    "reason_of",
]
