"""Random vectors: the scores of a model that knows nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.untrained import Baseline, Inputs
from cxc_eccv.types import Embeddings, Report

WIDTH = 64
"""Wide enough that few items are close by chance."""


def random_run(library: Library, split: str, seed: int = 0) -> EmbeddingsRun:
    """Independent Gaussian vectors for all images and captions of a split."""
    random, content = np.random.default_rng(seed), library.split(split)
    images, captions = (
        Embeddings(ids, random.standard_normal((ids.size, WIDTH), dtype=np.float32))
        for ids in (content.image_ids, content.caption_ids)
    )
    return EmbeddingsRun(images, captions, similarity="cosine")


def run(library: Library, split: str, inputs: Inputs) -> tuple[Report, EmbeddingsRun]:
    """Every task of the split."""
    seed = inputs.seed or 0
    drawn = random_run(library, split, seed)
    report = evaluate(drawn, split=split, data_dir=library, per_query=True)
    return replace(report, provenance=replace(report.provenance, model=f"random vectors, seed {seed}")), drawn


BASELINE = Baseline(
    name="random", summary="random vectors for images and captions; every task", run=run, takes=("seed",)
)
