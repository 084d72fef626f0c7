"""The models of our own baselines, made known to transformers, so that a saved one loads by its folder's name."""

from __future__ import annotations

import importlib

__all__ = ["register_models"]

HOMES = ("cxc_eccv.baselines.dual_encoder.modelling", "cxc_eccv.baselines.char_gru.ensemble")
"""Modules that register models when they are imported; the last one takes its member model along."""


def register_models() -> None:
    """Import them.

    Example:
        >>> register_models()
        >>> from transformers import AutoConfig
        >>> AutoConfig.for_model("cxc_eccv_dual_encoder").model_type
        'cxc_eccv_dual_encoder'
    """
    for home in HOMES:
        importlib.import_module(home)
