"""The fingerprint of a model with its processors and settings."""

from __future__ import annotations

from collections.abc import Collection

from cxc_eccv.encoding.fingerprints import fingerprint, processor_state, weights_fingerprint
from cxc_eccv.encoding.loading import LoadedModel

__all__ = ["model_key"]


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
