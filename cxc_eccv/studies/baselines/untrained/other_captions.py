"""An image stands for its captions: a text model alone scores a caption by the other captions of the image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, MalformedRun, UnknownName
from cxc_eccv.evaluation import evaluate
from cxc_eccv.ranking.scores import Product, refuse_zero_vectors
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun, ScoresRun, load_embeddings
from cxc_eccv.runs.run import SYMMETRIC
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.baselines.untrained import Baseline, Inputs
from cxc_eccv.types import IntArray, find_positions

IMAGES_AT_ONCE = 64

Vectors = NDArray[np.float32]


def run(split: Split, inputs: Inputs) -> tuple[Report, ScoresRun]:
    """Every task between the images and captions of a collection."""
    if (inputs.features is None) == (inputs.model is None):
        raise InvalidOption(
            "the baseline other_captions needs either --model ID_OR_PATH of a text model, or --features FILE with "
            "caption_ids and caption_embeddings"
        )
    captions = load_embeddings(inputs.features) if inputs.features else _encode(split, inputs)
    scores = score_by_other_captions(captions, split, inputs.pool or "max")
    report = evaluate(scores, split=split.name, data_dir=split.library, per_query=True)
    model = f"other captions of {inputs.model or inputs.features.name}"  # type: ignore[union-attr] # one is given
    return replace(report, provenance=replace(report.provenance, model=model)), scores


def score_by_other_captions(run: EmbeddingsRun, content: Split, pool: str = "max") -> ScoresRun:
    """The largest or mean cosine of every caption with the captions of every image, itself left out.

    ``harmonic`` is RefCLIPScore (Hessel et al., EMNLP 2021): the harmonic mean of CLIPScore, ``2.5 max(cos(image,
    caption), 0)``, and of the largest cosine with the captions, or 0 if that is negative.

    Args:
        run: vectors of all captions of the split, for ``harmonic`` of its images too.
        content: its images and captions.
        pool: ``max``, ``mean`` or ``harmonic``.

    Returns:
        Scores of I images with P captions, float32.

    Raises:
        MalformedRun: the run lacks captions, or images for ``harmonic``, or has a vector of zeros.
        InvalidOption: another way to pool; an image with a single caption, of which nothing is left for itself.

    Example:
        >>> from cxc_eccv.types import Embeddings
        >>> from cxc_eccv.sources.library import Library
        >>> content = Library("sample").split("test")
        >>> vectors = np.random.default_rng(0).standard_normal((content.caption_ids.size, 4)).astype(np.float32)
        >>> score_by_other_captions(EmbeddingsRun(None, Embeddings(content.caption_ids, vectors)), content).scores.shape
        (60, 300)
    """
    if pool not in ("max", "mean", "harmonic"):
        raise UnknownName("way to pool", pool, ("max", "mean", "harmonic"))
    vectors = _unit_vectors(run, "caption", content.caption_ids)
    owners = find_positions(content.caption_image_ids, content.image_ids)[0]
    order = np.argsort(owners, kind="stable")
    starts = np.searchsorted(owners[order], np.arange(content.image_ids.size + 1))
    if (alone := np.flatnonzero(np.diff(starts) < 2)).size:
        raise InvalidOption(
            f"image {content.image_ids[alone[0]]} has fewer than two captions: no other caption can score one"
        )
    scores = np.empty((content.image_ids.size, len(vectors)), dtype=np.float32)
    product = _tied_product(vectors[order], vectors, self_columns=order)
    room = product.room(IMAGES_AT_ONCE * int(np.diff(starts).max()))
    for first in range(0, len(scores), IMAGES_AT_ONCE):
        last = min(first + IMAGES_AT_ONCE, len(scores))
        mine = order[starts[first] : starts[last]]
        products = product.fill(int(starts[first]), int(starts[last]), room)
        offsets = starts[first:last] - starts[first]
        if pool == "mean":
            products[np.arange(mine.size), mine] = 0
            counts = np.repeat(np.diff(starts[first : last + 1])[:, None], len(vectors), axis=1)
            counts[owners[mine] - first, mine] -= 1
            scores[first:last] = np.add.reduceat(products, offsets, axis=0) / counts
        else:
            scores[first:last] = np.maximum.reduceat(products, offsets, axis=0)
    if pool == "harmonic":
        by_captions = np.maximum(scores, 0)
        looks = _tied_product(_unit_vectors(run, "image", content.image_ids), vectors)
        by_image = 2.5 * np.maximum(looks.fill(0, looks.height, looks.room(looks.height)), 0)
        total = by_image + by_captions
        scores = np.divide(2 * by_image * by_captions, total, out=np.zeros_like(total), where=total > 0)
    return ScoresRun(content.image_ids, content.caption_ids, scores)


def _tied_product(rows: Vectors, columns: Vectors, self_columns: IntArray | None = None) -> Product:
    """Their cosines, which are equal for equal vectors."""
    return Product(rows, columns, np.empty(0, np.int64), self_columns=self_columns, tie_rows=True)


def _unit_vectors(run: EmbeddingsRun, kind: str, ids: IntArray) -> Vectors:
    """(N, D) vectors of length 1 of these captions or images."""
    name = run.path or "run"
    embeddings = run.find_vectors(f"{kind}s", SYMMETRIC)
    if embeddings is None:
        raise MalformedRun(f"{name} holds no {kind}_ids and {kind}_embeddings")
    places, known = find_positions(ids, embeddings.ids)
    if not known.all():
        raise MalformedRun(f"{name} lacks {np.sum(~known)} {kind}s of the split, the first: {ids[~known][0]}")
    single = np.asarray(embeddings.vectors[places], dtype=np.float32)
    lengths = np.linalg.norm(single, axis=1, keepdims=True)
    refuse_zero_vectors(np.flatnonzero(lengths[:, 0] == 0), len(single), f"{kind}s", name)
    return np.asarray(single / lengths)


def _encode(content: Split, inputs: Inputs) -> EmbeddingsRun:
    from cxc_eccv.encoding import encode  # only here: a file of vectors needs no torch

    captions = zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True)
    return encode(inputs.model, captions=captions)


BASELINE = Baseline(
    name="other_captions",
    summary="a text model scores a caption by the other captions of an image; every image-text task",
    run=run,
    takes=("model", "features", "collection", "pool"),
)
