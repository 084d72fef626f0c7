"""The whole path on the embedded sample: raw files, dataset folder, model, embeddings, report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import datasets
import numpy as np

from cxc_eccv.builders.output import replaceable_files
from cxc_eccv.builders.writing import build_folder
from cxc_eccv.demo.ridge import RidgeModel
from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun, load_embeddings, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, Report
from cxc_eccv.writing import finish_interrupted

DATASET, EMBEDDINGS = "dataset", "ridge.npz"
"""What the demo writes into its folder, besides the report."""


def earlier_files(folder: Path) -> list[str]:
    """Files of an earlier demo in ``folder``, as paths below it."""
    finish_interrupted(folder)
    return [*(f"{DATASET}/{name}" for name in replaceable_files(folder / DATASET)), EMBEDDINGS]


def run_demo(folder: Path, say: Callable[[str], None] | None = None) -> Report:
    """Build the sample's dataset in ``folder``, train the ridge baseline on it, and score its test embeddings.

    Args:
        folder: takes the dataset and the embeddings.
        say: prints each step.
    """
    say = say or (lambda _step: None)
    say("1. Building the embedded sample's dataset")
    build_folder(folder / DATASET, data_dir="sample", images=sample_images(), progress=False)
    path = folder / EMBEDDINGS
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        say("2. Training ridge regression from pixels to words on its train split")
        splits = _load_quietly(folder / DATASET, cache)
        train = datasets.concatenate_datasets([splits["train"], splits["restval"]])
        captions = [[caption["text"] for caption in row] for row in train["captions"]]
        model = RidgeModel.fit(list(train["image"]), captions)
        say("3. Encoding the test split")
        save_embeddings(path, _encode(model, splits["test"]))
    say(f"4. Scoring {path.name}\n")
    return evaluate(load_embeddings(path), data_dir=Library("sample"), per_query=True)


def sample_images() -> Path:
    """Folder with the embedded sample's images."""
    raw = mirror_folder("sample")
    assert raw is not None  # noqa: S101 - the sample is part of the package
    return raw / "coco" / "images"


def _load_quietly(folder: Path, cache: str) -> datasets.DatasetDict:
    """Load the captions as any training code would, without progress bars."""
    were_off = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(str(folder), "captions", cache_dir=cache)
    finally:
        if not were_off:
            datasets.enable_progress_bars()


def _encode(model: RidgeModel, test: datasets.Dataset) -> EmbeddingsRun:
    captions = [caption for row in test["captions"] for caption in row]
    images = Embeddings(np.array(test["image_id"]), model.encode_images(list(test["image"])))
    texts = model.encode_captions([caption["text"] for caption in captions])
    return EmbeddingsRun(
        images, Embeddings(np.array([caption["id"] for caption in captions]), texts), similarity="cosine"
    )
