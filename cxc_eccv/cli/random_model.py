"""A small CLIP of random weights, written without PyTorch: something to name with ``--model`` where no model is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from cxc_eccv.types.strict_json import JsonObject

HIDDEN_SIZE = 32
PROJECTION_SIZE = 16
PATCH_SIZE = 8
IMAGE_SIZE = 32
MOST_TOKENS = 77

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,'"
START = "<|startoftext|>"
END = "<|endoftext|>"

MODEL_FILES = ("README.md", "config.json", "model.safetensors", "preprocessor_config.json", "tokenizer_config.json")
TOKENIZER_FILES = ("vocab.json", "merges.txt")
"""What :func:`write_random_model` writes."""

README = """# Random weights

A CLIP of one small layer that nobody has trained: its weights are drawn at random. It retrieves no better than chance,
and shows how a model is scored: `cxc-eccv evaluate --model FOLDER --images sample --data-dir sample`.
"""


def write_random_model(folder: Path, seed: int = 0) -> None:
    """Write a model of random weights, with its tokenizer and image processor, as transformers reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _list_tokens()
    files: dict[str, JsonObject] = {
        "config.json": _make_config(len(vocabulary)),
        "preprocessor_config.json": {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": IMAGE_SIZE},
            "crop_size": {"height": IMAGE_SIZE, "width": IMAGE_SIZE},
        },
        "tokenizer_config.json": {"tokenizer_class": "CLIPTokenizer", "model_max_length": MOST_TOKENS},
        "vocab.json": {token: place for place, token in enumerate(vocabulary)},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    (folder / "README.md").write_text(README, encoding="utf-8")
    save_file(_draw_weights(len(vocabulary), seed), folder / "model.safetensors", {"format": "pt"})


def _list_tokens() -> list[str]:
    """Letters within a word and at its end, then the two marks, the end last as transformers expects."""
    return [*LETTERS, *(f"{letter}</w>" for letter in LETTERS), START, END]


def _make_config(n_tokens: int) -> JsonObject:
    tower: JsonObject = {
        "hidden_size": HIDDEN_SIZE,
        "intermediate_size": 2 * HIDDEN_SIZE,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "projection_dim": PROJECTION_SIZE,
    }
    marks: JsonObject = {"bos_token_id": n_tokens - 2, "eos_token_id": n_tokens - 1, "pad_token_id": n_tokens - 1}
    return {
        "model_type": "clip",
        "architectures": ["CLIPModel"],
        "projection_dim": PROJECTION_SIZE,
        "text_config": {**tower, **marks, "vocab_size": n_tokens, "max_position_embeddings": MOST_TOKENS},
        "vision_config": {**tower, "image_size": IMAGE_SIZE, "patch_size": PATCH_SIZE},
    }


def _draw_weights(n_tokens: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Name to weights of a CLIPModel: normal matrices, neutral norms and biases."""
    random = np.random.default_rng(seed)
    n_patches = (IMAGE_SIZE // PATCH_SIZE) ** 2
    shapes: dict[str, tuple[int, ...]] = {
        "text_model.embeddings.token_embedding.weight": (n_tokens, HIDDEN_SIZE),
        "text_model.embeddings.position_embedding.weight": (MOST_TOKENS, HIDDEN_SIZE),
        "vision_model.embeddings.class_embedding": (HIDDEN_SIZE,),
        "vision_model.embeddings.patch_embedding.weight": (HIDDEN_SIZE, 3, PATCH_SIZE, PATCH_SIZE),
        "vision_model.embeddings.position_embedding.weight": (n_patches + 1, HIDDEN_SIZE),
        "text_projection.weight": (PROJECTION_SIZE, HIDDEN_SIZE),
        "visual_projection.weight": (PROJECTION_SIZE, HIDDEN_SIZE),
    }
    norms = ["text_model.final_layer_norm", "vision_model.pre_layrnorm", "vision_model.post_layernorm"]
    for tower in ("text_model", "vision_model"):
        layer = f"{tower}.encoder.layers.0"
        norms += [f"{layer}.layer_norm1", f"{layer}.layer_norm2"]
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            shapes[f"{layer}.self_attn.{name}.weight"] = (HIDDEN_SIZE, HIDDEN_SIZE)
        shapes[f"{layer}.mlp.fc1.weight"] = (2 * HIDDEN_SIZE, HIDDEN_SIZE)
        shapes[f"{layer}.mlp.fc2.weight"] = (HIDDEN_SIZE, 2 * HIDDEN_SIZE)
    weights = {name: random.normal(0, shape[-1] ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    for name, shape in shapes.items():
        if ".encoder." in name:
            weights[name.replace(".weight", ".bias")] = np.zeros(shape[0], dtype=np.float32)
    for name in norms:
        weights[f"{name}.weight"] = np.ones(HIDDEN_SIZE, dtype=np.float32)
        weights[f"{name}.bias"] = np.zeros(HIDDEN_SIZE, dtype=np.float32)
    weights["logit_scale"] = np.array(np.log(100), dtype=np.float32)
    return weights
