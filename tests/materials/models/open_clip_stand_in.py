"""A module with the calls of open_clip that encoding uses, for where that package, or its torchvision, has no build."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

WORDS = {"<pad>": 0, "<start>": 1, "<end>": 2, "a": 3, "dog": 4, "cat": 5, "street": 6, "red": 7, "on": 8}
TAGS = ("openai", "laion", "laion2b_s34b_b79k")


class SimpleTokenizer:
    """Words of a fixed list between two marks, padded to the context."""

    encoder = WORDS
    context_length = 7

    def encode(self, text):
        return [WORDS.get(word, 3) for word in text.lower().split()]

    def __call__(self, texts):
        rows = torch.zeros(len(texts), self.context_length, dtype=torch.long)
        for row, text in zip(rows, texts, strict=True):
            tokens = [1, *self.encode(text), 2][: self.context_length]
            row[: len(tokens)] = torch.tensor(tokens)
        return rows


class Model(torch.nn.Module):
    """Sums of embedded tokens, and a projection of pixels; with a bias as of SigLIP if it has a first value."""

    def __init__(self, init_logit_bias=None):
        super().__init__()
        self.logit_bias = None if init_logit_bias is None else torch.nn.Parameter(torch.tensor(init_logit_bias))
        self.words = torch.nn.Embedding(len(WORDS), 8)
        self.pixels = torch.nn.Linear(48, 8)

    def encode_image(self, images, normalize=True):
        features = self.pixels(images.flatten(1))
        return torch.nn.functional.normalize(features, dim=-1) if normalize else features

    def encode_text(self, tokens, normalize=True):
        features = self.words(tokens).sum(1)
        return torch.nn.functional.normalize(features, dim=-1) if normalize else features


def preprocess(image):
    return torch.from_numpy(np.asarray(image.resize((4, 4)), dtype=np.float32)).flatten() / 255


def create_model_from_pretrained(name, pretrained=None, **options):
    if name.startswith("local-dir:"):
        json.loads((Path(name.removeprefix("local-dir:")) / "open_clip_config.json").read_text())
        pretrained = Path(name.removeprefix("local-dir:")) / "open_clip_model.safetensors"
    elif pretrained in TAGS:
        torch.manual_seed(len(pretrained))
        return Model(), preprocess
    model = Model(**options)
    model.load_state_dict(weights_of(pretrained, model.logit_bias))
    return model, preprocess


def weights_of(file, bias):
    """As open_clip 3.3 reads a file: weights, or a checkpoint of training, maybe of several processes."""
    if Path(file).suffix == ".safetensors":
        weights = load_file(file)
    else:
        checkpoint = torch.load(file, weights_only=True)
        weights = checkpoint.get("state_dict", checkpoint)
    if next(iter(weights)).startswith("module"):
        weights = {name[len("module.") :]: values for name, values in weights.items()}
    return weights if bias is None else {"logit_bias": torch.zeros(()), **weights}


def save_checkpoint(model, file, prefix=""):
    """As open_clip's training saves one."""
    weights = {f"{prefix}{name}": values for name, values in model.state_dict().items()}
    optimizer = torch.optim.AdamW(model.parameters())
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"epoch": 1, "name": "run", "state_dict": weights, "optimizer": optimizer.state_dict()}, file)


def get_tokenizer(name):
    return SimpleTokenizer()
