"""Saves a text model without extra layers in sentence-transformers' form as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cxc_eccv.encoding.checkpoints import MODULES_FILE
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderModel

PARTS = ("0_Transformer", "1_Pooling", "2_Normalize")
"""Folders of the modules, named after their classes; the last one is empty."""


def has_sentence_form(model: Any) -> bool:  # noqa: ANN401 - a dual encoder, ours or not
    """Whether the features are a backbone's pooled tokens, which is what sentence-transformers' modules compute."""
    return isinstance(model, DualEncoderModel) and not model.config.projects_text and model.text_layers is None


def save_sentence_form(model: DualEncoderModel, tokenizer: Any, folder: Path) -> None:  # noqa: ANN401 - any tokenizer
    """Write what ``SentenceTransformer(folder)`` reads, with the backbone once more in ``0_Transformer``."""
    config = model.config
    pooling = {"word_embedding_dimension": config.width, "pooling_mode_cls_token": config.pooling == "first_token"}
    pooling["pooling_mode_mean_tokens"] = config.pooling == "mean"
    parts = PARTS if config.normalize else PARTS[:2]
    names = [part.partition("_")[2] for part in parts]
    modules = [
        {"idx": index, "name": str(index), "path": part, "type": f"sentence_transformers.models.{name}"}
        for index, (part, name) in enumerate(zip(parts, names, strict=True))
    ]
    model.text_model.save_pretrained(folder / PARTS[0])
    tokenizer.save_pretrained(folder / PARTS[0])
    _write(folder / PARTS[1] / "config.json", pooling)
    similarity = "cosine" if config.normalize else "dot"
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": similarity})
    _write(folder / MODULES_FILE, modules)


def _write(path: Path, content: Any) -> None:  # noqa: ANN401 - what JSON holds
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
