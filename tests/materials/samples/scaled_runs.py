"""A run with altered queries, and the same run with its vectors times powers of two."""

from dataclasses import replace

import numpy as np

from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings


def with_altered_queries(run):
    """The run with altered queries, each beside its original; five of them are their originals."""
    captions = run.captions
    random = np.random.default_rng(1)
    turned = (captions.vectors[:80] + random.standard_normal((80, 16))).astype(np.float32)
    turned[:5] = captions.vectors[:5]
    return replace(run, further={"adversarial_size_ids": captions.ids[:80], "adversarial_size_embeddings": turned})


def sides(run):
    return run.images, run.captions


def scale(run, exponents):
    """The run with its vectors times these powers of two; an altered query is as long as its original."""
    images, captions = (
        np.ldexp(side.vectors, powers[:, None]) for side, powers in zip(sides(run), exponents, strict=True)
    )
    further = dict(run.further)
    further["adversarial_size_embeddings"] = np.ldexp(further["adversarial_size_embeddings"], exponents[1][:80, None])
    return EmbeddingsRun(Embeddings(run.images.ids, images), Embeddings(run.captions.ids, captions), further=further)


def scale_each(run):
    """The run with every vector times a power of two of its own."""
    random = np.random.default_rng(0)
    return scale(run, [random.integers(-80, 100, side.ids.size) for side in sides(run)])
