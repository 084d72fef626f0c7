"""Adapters of peft: finds and loads saved ones, and unwraps models that carry one."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import torch

from cxc_eccv.encoding.checkpoints import (
    NAMELESS,
    Origin,
    explain_damage,
    explain_part,
    find_file,
    load_part,
    open_checkpoint,
    read_hub,
)
from cxc_eccv.errors import CheckpointMismatch, ModelError

ADAPTER_CONFIG = "adapter_config.json"

NOWHERE = "no such folder"
"""A subfolder that no checkpoint has: transformers finds no adapter there, and loads the base alone."""

MERGE = "merge it first: PeftModel.from_pretrained(BASE, ADAPTER).merge_and_unload().save_pretrained(FOLDER)"

SETTING_TYPES = (bool, int, float, str)


def find_adapter(source: str, origin: Origin) -> dict[str, Any] | None:
    """The config of the adapter in a folder or repository; None if there is none.

    Raises:
        ModelError: it cannot be read, or is of another library.
    """
    path = find_file(source, ADAPTER_CONFIG, origin.revision)
    if path is None:
        return None
    with explain_damage(lambda reason: f"{source}: {ADAPTER_CONFIG} cannot be read ({reason})"):
        config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict) or not config.get("peft_type"):
        raise ModelError(
            f"{source}: {ADAPTER_CONFIG} is not of peft, the only library whose adapters are read. Load the model with "
            "its own library, and give its vectors as a file"
        )
    return config


def refuse_adapter(source: str, origin: Origin = NAMELESS) -> None:
    """Raise ModelError for a folder or repository with an adapter, where its base alone would be used."""
    if find_adapter(source, origin) is not None:
        raise ModelError(f"{source} holds an adapter of peft, which is not read here; {MERGE}, and name FOLDER")


def load_backbone(kind: Any, source: str) -> Any:  # noqa: ANN401 - as load_part
    """Load a class of models to train from a folder or Hub id; raises ModelError with the reason."""
    refuse_adapter(source)
    return load_part(kind, source)


def load_backbone_with_info(kind: Any, source: str) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401 - as load_part
    """As :func:`load_backbone`, with what transformers says of the weights: those that lack, and those left over."""
    refuse_adapter(source)
    with explain_part(kind, source):
        model, info = open_checkpoint(kind, source, output_loading_info=True)
    return model, info


def find_base(source: str, origin: Origin) -> tuple[str, Origin]:
    """The name and origin of the weights that an adapter changes; of a model without an adapter its own.

    Like transformers, it takes the weights beside the adapter in a folder with a config, else those that the adapter's
    config names. Code of another repository is not trusted.
    """
    config = find_adapter(source, origin)
    if config is None:
        return source, origin
    if importlib.util.find_spec("peft") is None:
        raise ModelError(
            f"{source} holds an adapter, and peft, which applies it, is not installed: pip install peft; or {MERGE}"
        )
    if (Path(source) / "config.json").is_file():
        return source, origin
    base = config.get("base_model_name_or_path")
    if not base:
        raise ModelError(
            f"{source}: {ADAPTER_CONFIG} names no base_model_name_or_path, the model that it was trained on; add it"
        )
    return str(base), Origin(config.get("revision"))


def apply_adapter(model: Any, source: str, origin: Origin) -> None:  # noqa: ANN401 - a PreTrainedModel
    """Put a saved adapter into its base.

    Raises:
        ModelError: peft is not installed, or the adapter cannot be loaded.
        CheckpointMismatch: it does not fit this class of model.
    """
    revision = {} if origin.revision is None else {"revision": origin.revision}
    with explain_damage(lambda reason: f"{source}: the adapter cannot be loaded ({reason}); {MERGE}"), read_hub(source):
        info = model.load_adapter(source, adapter_kwargs=revision)
    mismatched = [key for key, *_ in info.mismatched_keys]
    for fault, keys in {"lacks": info.missing_keys, "has other": [*info.unexpected_keys, *mismatched]}.items():
        if keys:
            raise CheckpointMismatch(
                f"{source}: the adapter does not fit {type(model).__name__}: it {fault} weights, the first: "
                f"{min(keys)}. It was trained on another model, or with another head"
            )


def unwrap(model: Any) -> Any:  # noqa: ANN401 - any object
    """The model inside the wrappers of torch.compile, of parallel training and of peft, whose adapters stay in it."""
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if "OptimizedModule" in kinds:
        return unwrap(model._orig_mod)
    if kinds & {"DistributedDataParallel", "DataParallel"}:
        return unwrap(model.module)
    if kinds & {"PeftModel", "PeftMixedModel"}:
        if getattr(model, "_is_prompt_learning", False):
            raise ModelError(
                f"{type(model).__name__} has learned prompts, which only its own forward adds; encode with it, and "
                "give the vectors as a file"
            )
        return unwrap(model.base_model.model)
    return model


def describe_adapters(model: torch.nn.Module) -> list[Any]:
    """What the layers of adapters compute beside their weights: which are active or merged, and how they are scaled."""
    return [
        [name, _plain_settings(module)] for name, module in model.named_modules() if hasattr(module, "_active_adapter")
    ]


def _plain_settings(module: torch.nn.Module) -> dict[str, str]:
    """The attributes of a layer that are numbers, texts, or lists or dicts of them."""
    settings = {}
    for name, value in vars(module).items():
        if isinstance(value, dict):
            parts = list(value.values())
        elif isinstance(value, list | tuple):
            parts = list(value)
        else:
            parts = [value]
        if name != "training" and all(isinstance(part, SETTING_TYPES) for part in parts):
            settings[name] = str(value)
    return settings
