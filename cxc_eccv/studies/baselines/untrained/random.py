"""Random vectors: the scores of a model that knows nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cxc_eccv.evaluation import evaluate
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.baselines.untrained import Baseline, Inputs
from cxc_eccv.types import Embeddings

WIDTH = 64
"""Wide enough that few items are close by chance."""


def draw_run(split: Split, seed: int = 0) -> EmbeddingsRun:
    """Independent Gaussian vectors for all images and captions of a split."""
    random = np.random.default_rng(seed)
    images, captions = (
        Embeddings(ids, random.standard_normal((ids.size, WIDTH), dtype=np.float32))
        for ids in (split.image_ids, split.caption_ids)
    )
    return EmbeddingsRun(images, captions, similarity="cosine")


def run(split: Split, inputs: Inputs) -> tuple[Report, EmbeddingsRun]:
    """Every task of the split."""
    seed = inputs.seed or 0
    drawn = draw_run(split, seed)
    report = evaluate(drawn, split=split.name, data_dir=split.library, per_query=True)
    return replace(report, provenance=replace(report.provenance, model=f"random vectors, seed {seed}")), drawn


BASELINE = Baseline(
    name="random", summary="random vectors for images and captions; every task", run=run, takes=("seed",)
)
