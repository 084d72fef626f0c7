r"""Text towers onto CLIP's vectors of 1,000 Flickr8k images: five folds by image, beside a ridge regression.

Run from the root of the repository, with MiniLM's folder::

    CXC_ECCV_DATA=mirror python tools/experiments/image_vectors.py MINILM --output folds

Each fold trains on four fifths of the images and ranks within the last, about 197 images and 985 captions. Other
options are those of ``cxc-eccv train dual-encoder``; with ``--gru`` they are those of ``train char-gru``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cxc_eccv.studies.baselines.models  # noqa: F401 - so that the trained models load
from cxc_eccv.encoding import text_encoder
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.caption_groups import CaptionGroup, caption_groups, held_out_recalls
from cxc_eccv.types import Embeddings

FOLDS = 5
PART = "flickr8k/all"
STRENGTH = 10.0
"""Of the ridge regression."""

RECIPE = shlex.split("""
--no-pretraining --mode i2t --extra-layers 0 --pooling mean --normalize --scale 20 --learned-scale
--loss softmax --learning-rate 4e-3 --schedule other --lr-scheduler-type cosine
--per-device-train-batch-size 64 --num-train-epochs 10 --max-grad-norm 1 --logging-steps 5 --eval-strategy no
--save-strategy no --no-load-best-model-at-end
""")

Vectors = NDArray[np.float32]
Encode = Callable[[list[str]], Vectors]


def read_vectors(mirror: Path) -> tuple[list[CaptionGroup], Vectors]:
    """The images whose caption names exactly one of Flickr8k, with their captions and CLIP's vectors."""
    folder = mirror / "flickr" / "clip_vit_b32"
    vectors = np.load(folder / "clip_embeddings.npy").astype(np.float32)
    by_text: dict[str, list[CaptionGroup]] = {}
    for group in caption_groups(Library(mirror), [PART]):
        for text in set(group.texts):
            by_text.setdefault(text.strip(), []).append(group)
    named = [by_text.get(text.strip(), []) for text in json.loads((folder / "captions.json").read_text("utf-8"))]
    rows = [row for row, groups in enumerate(named) if len(groups) == 1]
    return [named[row][0] for row in rows], vectors[rows]


def encode_with(model: Path) -> Encode:
    """The captions' vectors of a trained model."""
    encoder = text_encoder(str(model), batch_size=256)
    return lambda texts: np.asarray(encoder(texts), dtype=np.float32)


def fit_ridge(encode: Encode, texts: list[str], images: Vectors) -> Encode:
    """A ridge regression from vectors of captions to the centred vectors of their images."""
    vectors = encode(texts).astype(np.float64)
    centred = images - images.mean(0)
    weights = np.linalg.solve(vectors.T @ vectors + STRENGTH * np.eye(vectors.shape[1]), vectors.T @ centred)
    return lambda texts: np.asarray(encode(texts) @ weights, dtype=np.float32)


def score(encode: Encode, groups: Sequence[CaptionGroup], images: Vectors) -> dict[str, float]:
    """Recalls of captions and images among the held-out ones, by the cosine."""
    owners = np.repeat(np.arange(len(groups)), [len(group.texts) for group in groups])
    captions = Embeddings(np.arange(owners.size), encode([text for group in groups for text in group.texts]))
    run = EmbeddingsRun(Embeddings(np.arange(len(groups)), images), captions, similarity="cosine")
    return held_out_recalls(run, owners, ("t2i", "i2t"), depths=[1, 5, 10])


def main(arguments: argparse.Namespace, options: Sequence[str]) -> None:
    """Train and score each fold, and print the mean recalls."""
    groups, vectors = read_vectors(Path(os.environ["CXC_ECCV_DATA"]))
    fold_numbers = np.random.default_rng(arguments.seed).permutation(len(groups)) % FOLDS
    rows: dict[str, list[dict[str, float]]] = {}
    for fold in range(FOLDS) if arguments.fold is None else [arguments.fold]:
        held = fold_numbers == fold
        trained = [group for group, is_held in zip(groups, held, strict=True) if not is_held]
        tested = [group for group, is_held in zip(groups, held, strict=True) if is_held]
        folder, mean = arguments.output / f"fold-{fold}", vectors[~held].mean(0)
        folder.mkdir(parents=True, exist_ok=True)
        images = Embeddings(np.array([group.image_id for group in trained]), vectors[~held])
        save_embeddings(folder / "images.npz", EmbeddingsRun(images, None))
        train = ["char-gru"] if arguments.gru else ["dual-encoder", "--text-model", str(arguments.minilm), *RECIPE]
        if arguments.ridge:
            texts = [text for group in trained for text in group.texts]
            regress = fit_ridge(encode_with(arguments.minilm), texts, np.repeat(vectors[~held], 5, axis=0))
            rows.setdefault("ridge", []).append(score(regress, tested, vectors[held] - mean))
        train += ["--train-on", PART, "--image-features", str(folder / "images.npz"), "--output-dir", str(folder)]
        subprocess.run(["cxc-eccv", "train", *train, *options], check=True)
        encode = encode_with(folder / "ensemble" if arguments.gru else folder)
        rows.setdefault("trained", []).append(score(encode, tested, vectors[held]))
    for name, scores in rows.items():
        means = {key: round(100 * float(np.mean([one[key] for one in scores])), 1) for key in scores[0]}
        sys.stdout.write(f"{name}: {json.dumps(means)}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minilm", type=Path, help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--gru", action="store_true", help="train the character GRU in place of MiniLM")
    parser.add_argument("--ridge", action="store_true", help="fit the ridge regression too")
    parser.add_argument("--fold", type=int, help="only this fold, from 0")
    parser.add_argument("--seed", type=int, default=0, help="of the folds")
    main(*parser.parse_known_args())
