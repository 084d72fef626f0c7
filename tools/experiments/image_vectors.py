r"""Text towers onto CLIP's vectors of 1,000 Flickr8k images: five folds by image, beside a ridge regression.

Run from the root of the repository, with MiniLM's folder::

    CXC_ECCV_DATA=mirror python tools/experiments/image_vectors.py MINILM --output folds --use-cpu

Each fold trains on four fifths of the images and ranks within the last, 197 images and 985 captions. Other options are
those of ``cxc-eccv train dual-encoder``; with ``--gru`` they are those of ``train char-gru``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel, BertModel
from transformers.modeling_outputs import BaseModelOutput

from cxc_eccv.encoding import text_encoder
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.char_gru.script import train as train_gru
from cxc_eccv.studies.baselines.dual_encoder.script import train as train_dual_encoder
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup, caption_groups, held_out_recalls
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.types import Embeddings

FOLDS = 5
PART = "flickr8k/all"
STRENGTH = 10.0
"""Of the ridge regression."""

RECIPE = shlex.split("""
--no-pretraining --mode i2t --extra-layers 0 --pooling mean --normalize --scale 20 --learned-scale
--loss softmax --learning-rate 4e-3 --schedule other --lr-scheduler-type cosine
--per-device-train-batch-size 512 --num-train-epochs 40 --max-grad-norm 1 --logging-steps 5 --eval-strategy no
--save-strategy no --no-load-best-model-at-end
""")
GRU_RECIPE = shlex.split("""
--hidden-size 128 --images 16 --captions 5 --highest-rate 2e-3 --epochs 4 --cycle-epochs 2 --held-out 79
""")

Vectors = NDArray[np.float32]
Scores = dict[str, float]


def read_vectors(mirror: Path) -> tuple[list[CaptionGroup], Vectors]:
    """The images whose caption, in any case, is of one image of Flickr8k, with their captions and CLIP's vectors."""
    folder = mirror / "flickr" / "clip_vit_b32"
    vectors = np.load(folder / "clip_embeddings.npy").astype(np.float32)
    by_text: dict[str, list[CaptionGroup]] = {}
    for group in caption_groups(Library(mirror), [PART]):
        for text in {text.strip().lower() for text in group.texts}:
            by_text.setdefault(text, []).append(group)
    captions = json.loads((folder / "captions.json").read_text("utf-8"))
    named = [by_text.get(text.strip().lower(), []) for text in captions]
    rows = [row for row, groups in enumerate(named) if len(groups) == 1]
    return [named[row][0] for row in rows], vectors[rows]


def encode(model: Path, groups: Sequence[CaptionGroup]) -> Vectors:
    """The vectors of the images' captions, by a model."""
    encoder = text_encoder(str(model), batch_size=256)
    return np.asarray(encoder([text for group in groups for text in group.texts]), dtype=np.float32)


def remember_tokens(forward: Callable[..., Any]) -> Callable[..., BaseModelOutput]:
    """``BertModel.forward`` of a frozen model that encodes every caption once, in all epochs and folds."""
    states: dict[tuple[int, ...], torch.Tensor] = {}

    @wraps(forward)
    def recall(model: BertModel, input_ids: torch.Tensor, attention_mask: torch.Tensor, **_: Any) -> BaseModelOutput:  # noqa: ANN401 - token types, all 0
        rows = [tuple(row[present].tolist()) for row, present in zip(input_ids, attention_mask.bool(), strict=True)]
        new = [place for place, row in enumerate(rows) if row not in states]
        if new:
            outputs = forward(model, input_ids=input_ids[new], attention_mask=attention_mask[new])
            for place, tokens in zip(new, outputs.last_hidden_state.detach(), strict=True):
                states[rows[place]] = tokens[: len(rows[place])].clone()
        return BaseModelOutput(last_hidden_state=pad_sequence([states[row] for row in rows], batch_first=True))

    return recall


def regress(captions: Vectors, images: Vectors, held: NDArray[np.bool_]) -> tuple[Vectors, Vectors]:
    """Held-out captions by a ridge regression onto centred images, learned from the others; held-out images.

    ``captions`` are (N, 5, W), ``images`` (N, D).
    """
    known = captions[~held].reshape(-1, captions.shape[-1]).astype(np.float64)
    targets = images - images[~held].mean(0)
    moments = known.T @ known + STRENGTH * np.eye(known.shape[1])
    weights = np.linalg.solve(moments, known.T @ np.repeat(targets[~held], captions.shape[1], axis=0))
    return (captions[held] @ weights).reshape(-1, images.shape[1]).astype(np.float32), targets[held]


def score(captions: Vectors, images: Vectors) -> Scores:
    """Recalls of images and of five captions each, by the cosine."""
    owners = np.repeat(np.arange(len(images)), len(captions) // len(images))
    items = Embeddings(np.arange(len(images)), images), Embeddings(np.arange(owners.size), captions)
    return held_out_recalls(EmbeddingsRun(*items, similarity="cosine"), owners, ("t2i", "i2t"), depths=[1, 5, 10])


def main(command: Sequence[str]) -> dict[str, Scores]:
    """Train and score each fold; print the recalls in percent, and return their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minilm", type=Path, help="folder of all-MiniLM-L6-v2, which stays frozen")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--gru", action="store_true", help="train the character GRU in place of MiniLM")
    parser.add_argument("--ridge", action="store_true", help="fit the ridge regression too")
    parser.add_argument("--fold", type=int, help="only this fold, from 0")
    arguments, options = parser.parse_known_args(command)
    with patch.object(BertModel, "forward", remember_tokens(BertModel.forward)):
        rows = run_folds(arguments, options)
    means = {}
    for name, folds in rows.items():
        means[name] = {key: round(100 * float(np.mean([scores[key] for scores in folds])), 1) for key in folds[0]}
        sys.stdout.write(f"{name}: {json.dumps(means[name])}\n")
        sys.stdout.writelines(f"  {json.dumps({key: round(100 * row[key], 1) for key in row})}\n" for row in folds)
    return means


def run_folds(arguments: argparse.Namespace, options: Sequence[str]) -> dict[str, list[Scores]]:
    """Model to the scores of each fold."""
    groups, vectors = read_vectors(Path(os.environ["CXC_ECCV_DATA"]))
    image_ids = np.array([group.image_id for group in groups])
    folds = np.random.default_rng(0).permutation(len(groups)) % FOLDS
    captions = encode(arguments.minilm, groups).reshape(len(groups), 5, -1) if arguments.ridge else None
    rows: dict[str, list[Scores]] = {}
    for fold in range(FOLDS) if arguments.fold is None else [arguments.fold]:
        held = folds == fold
        if captions is not None:
            rows.setdefault("ridge", []).append(score(*regress(captions, vectors, held)))
        folder = arguments.output / f"fold-{fold}"
        folder.mkdir(parents=True, exist_ok=True)
        save_embeddings(folder / "images.npz", EmbeddingsRun(Embeddings(image_ids[~held], vectors[~held]), None))
        shared = ["--train-on", PART, "--image-features", str(folder / "images.npz"), "--output-dir", str(folder)]
        images = vectors[held]
        if arguments.gru:
            model = train_gru([*GRU_RECIPE, *shared, *options]).model
            features = ImageFeatures(Embeddings(image_ids, vectors))
            images = features.encode(AutoModel.from_pretrained(model), image_ids[held])
        else:
            model = train_dual_encoder(["--text-model", str(arguments.minilm), *RECIPE, *shared, *options]).model
        tested = [group for group, is_held in zip(groups, held, strict=True) if is_held]
        rows.setdefault("GRU" if arguments.gru else "MiniLM", []).append(score(encode(model, tested), images))
    return rows


if __name__ == "__main__":
    main(sys.argv[1:])
