"""Finds the dataset configs: every module of ``builders/configs`` that defines ``CONFIG``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from functools import cache
from types import MappingProxyType, ModuleType

from cxc_eccv.builders.config import DatasetConfig
from cxc_eccv.errors import DataError, UnknownName

__all__ = ["DEFAULT_CONFIG", "dataset_configs", "select_configs"]

DEFAULT_CONFIG = "captions"
"""What ``load_dataset(folder)`` gives when no config is named."""


@cache
def dataset_configs() -> MappingProxyType[str, DatasetConfig]:
    """All declared configs by name, the default one first, then in alphabetical order.

    Raises:
        DataError: a module of ``builders/configs`` declares no config, or a contradictory one.

    Example:
        >>> next(iter(dataset_configs()))
        'captions'
    """
    package = importlib.import_module("cxc_eccv.builders.configs")
    names = [module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")]
    names.sort(key=lambda name: (name != DEFAULT_CONFIG, name))
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    return MappingProxyType({name: _declared(name, module) for name, module in modules.items()})


def select_configs(wanted: Iterable[str | DatasetConfig] | None) -> list[DatasetConfig]:
    """The configs of these names, each once; all of them for None.

    Args:
        wanted: names, or declarations of your own.

    Raises:
        UnknownName: no config has this name; the message suggests the nearest.

    Example:
        >>> [config.name for config in select_configs(["sts", "sts"])]
        ['sts']
    """
    if wanted is None:
        return list(dataset_configs().values())
    chosen = [item if isinstance(item, DatasetConfig) else _named(item) for item in wanted]
    return list({config.name: config for config in chosen}.values())


def _named(name: str) -> DatasetConfig:
    if name not in dataset_configs():
        raise UnknownName("config", name, dataset_configs())
    return dataset_configs()[name]


def _declared(name: str, module: ModuleType) -> DatasetConfig:
    config = getattr(module, "CONFIG", None)
    if not isinstance(config, DatasetConfig) or config.name != name:
        raise DataError(f"{module.__name__} must define CONFIG, a DatasetConfig with the name {name!r}")
    undescribed = set(config.features) ^ set(config.fields)
    if undescribed:
        raise DataError(
            f"config {name!r}: features and fields must name the same columns, not so {sorted(undescribed)}"
        )
    return config
