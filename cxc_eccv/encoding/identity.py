"""What makes the vectors of a model: the facts that a report names, and the key under which finished parts are kept."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig

from cxc_eccv.encoding.adapters import describe_adapters
from cxc_eccv.encoding.loading import UNUSED, LoadedModel, name_package
from cxc_eccv.encoding.open_clip import MEMORY_ADDRESS, Preprocessing
from cxc_eccv.encoding.shards import fingerprint
from cxc_eccv.encoding.text_input import NO_PROMPT
from cxc_eccv.runs.run import GALLERY, QUERY, ROLES, SYMMETRIC
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.model_options import Encoding
from cxc_eccv.types.provenance import EncodingFacts

NOT_IDENTITY = ("_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version")
"""Entries of a config that do not change what a model does."""

VERSIONED = ("torch", "transformers", "sentence_transformers", "open_clip", "timm", "cxc_eccv")
"""Packages whose code is identified by their version."""

IMAGE_LIBRARIES = {"pil": ("PIL", "numpy"), "torchvision": ("PIL", "torchvision")}
"""Backend of an image processor to the packages that compute its images."""


def describe_encoding(loaded: LoadedModel, sides: Collection[str], encoding: Encoding | None = None) -> EncodingFacts:
    """What makes the vectors of these sides; ``encoding`` is None for scores of pairs and for other models."""
    packages = {"torch", "cxc_eccv", *map(name_package, map(type, loaded.model.modules()))}.intersection(VERSIONED)
    image_processor = tokenizer = None
    if "captions" in sides:
        tokenizer = type(loaded.tokenizer).__name__
        packages.add("tokenizers")
    if "images" in sides:
        processor = loaded.processors.image_processor()
        backend = "torchvision" if isinstance(processor, Preprocessing) else getattr(processor, "backend", "")
        image_processor = f"{type(processor).__name__} ({backend})" if backend else type(processor).__name__
        packages |= {"PIL", *IMAGE_LIBRARIES.get(backend, ())}
    pools = encoding is not None and "captions" in sides and loaded.needs_pooling
    crops = None if encoding is None or encoding.ten_crops is None else asdict(encoding.ten_crops)
    return EncodingFacts(
        revision=loaded.revision,
        dtype=str(loaded.dtype).removeprefix("torch."),
        pooling=encoding.pooling if encoding is not None and pools else None,
        central_crop=None if encoding is None else encoding.central_crop,
        ten_crops=crops,
        lowercased="captions" in sides and loaded.lowercases,
        prompts=_describe_prompts(loaded, sides),
        prompts_from=loaded.prompts_from,
        tokenizer=tokenizer,
        image_processor=image_processor,
        versions={name: str(sys.modules[name].__version__) for name in sorted(packages.intersection(sys.modules))},
    )


def _describe_prompts(loaded: LoadedModel, sides: Collection[str]) -> dict[str, str]:
    """The prompts of sides that have one, each role by itself where roles differ."""
    prompts: dict[str, str] = {}
    for side in sides:
        inputs = loaded.choose_inputs(side)
        if inputs[QUERY] == inputs[GALLERY]:
            prompts |= {} if inputs[GALLERY].prompt == NO_PROMPT else {side: str(inputs[GALLERY].prompt)}
        else:
            names = {GALLERY: side, QUERY: ROLES[side][0], SYMMETRIC: ROLES[side][1]}
            prompts |= {name: str(inputs[role].prompt) for role, name in names.items()}
    return prompts


def model_key(loaded: LoadedModel, sides: Collection[str], *settings: str, facts: EncodingFacts | None = None) -> str:
    """The SHA-256 hex digest of weights, processors of these sides, and all else that changes vectors.

    ``facts`` are those of the encoding; None for those of the model alone.
    """
    facts = describe_encoding(loaded, sides) if facts is None else facts
    used = [loaded.processors.image_processor()] if "images" in sides else []
    states = [processor_state(each) for each in [*used, *([loaded.tokenizer] if "captions" in sides else [])]]
    digest = hashlib.sha256()
    for name, tensor in sorted(loaded.model.state_dict().items()):
        if not loaded.is_cross_encoder and any(part in name for part in UNUSED):
            continue  # if a checkpoint lacks them, they are random on every load
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return fingerprint(digest.hexdigest(), states, settings, to_json(facts), _describe_architecture(loaded.model))


def _describe_architecture(model: torch.nn.Module) -> list[Any]:
    """What a model computes from its weights: its modules, their configs, and the code of modules of no library."""
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    plain = [_plain_config(config) for config in configs.values() if isinstance(config, PreTrainedConfig)]
    kinds = sorted({type(module) for module in model.modules()}, key=lambda kind: (kind.__module__, kind.__qualname__))
    code = [_identify_code(kind) for kind in kinds if name_package(kind) not in VERSIONED]
    adapters = describe_adapters(model)
    return [MEMORY_ADDRESS.sub("", repr(model)), plain, code, *([adapters] if adapters else [])]


def _plain_config(config: PreTrainedConfig) -> Any:  # noqa: ANN401 - whatever the config holds
    """A config and those within it, without the entries :data:`NOT_IDENTITY`."""
    text = config.to_json_string(use_diff=False)
    return json.loads(text, object_hook=lambda part: {name: part[name] for name in part if name not in NOT_IDENTITY})


def _identify_code(kind: type) -> str:
    """The hash of the file of a class; for a class from a notebook or prompt its source, if known."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is not None:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def processor_state(processor: Any) -> str:  # noqa: ANN401 - a tokenizer or an image processor
    """The settings of a tokenizer or an image processor, as text."""
    backend = getattr(processor, "backend_tokenizer", None)
    if backend is not None:
        # Padding and truncation are those of the last call.
        content = json.loads(backend.to_str()) | {"truncation": None, "padding": None}
        around = [processor.padding_side, processor.model_max_length, processor.model_input_names]
        around += [processor.chat_template]
        return json.dumps([content, *around], sort_keys=True)
    if hasattr(processor, "get_vocab"):
        return json.dumps([type(processor).__name__, processor.get_vocab()], sort_keys=True)
    return str(processor.to_json_string())
