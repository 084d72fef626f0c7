"""Fingerprints: whether a finished shard is of this model, these settings and these items."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from PIL import Image

__all__ = ["fingerprint", "image_identity", "processor_state", "weights_fingerprint"]


def fingerprint(*parts: Any) -> str:  # noqa: ANN401 - anything JSON can hold
    """Hex sha256 of values in JSON.

    Example:
        >>> fingerprint("model", {"pooling": "cls"}, [1, 2])[:8]
        'e338b0f4'
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def weights_fingerprint(model: torch.nn.Module) -> str:
    """Hex sha256 over names, types, shapes and bytes of all weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def image_identity(source: Path | Image.Image) -> list[Any]:
    """Name, size and time of a file, without reading it; the bytes of an image in memory."""
    if isinstance(source, Image.Image):
        return [source.mode, source.size, hashlib.sha256(source.tobytes()).hexdigest()]
    try:
        state = source.stat()
    except OSError:
        return [source.name, "missing"]
    return [source.name, state.st_size, state.st_mtime_ns]


def processor_state(processor: Any) -> str:  # noqa: ANN401 - a tokenizer or an image processor
    """What a tokenizer or an image processor is set to, as text."""
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        # How the last call padded and cut is part of its state, and says nothing of the next one.
        content = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
        around = [processor.padding_side, processor.model_max_length, processor.model_input_names]
        return json.dumps([content, *around], sort_keys=True)
    if hasattr(processor, "get_vocab"):
        return json.dumps([type(processor).__name__, processor.get_vocab()], sort_keys=True)
    return str(processor.to_json_string())
