"""Machine annotators at hand: light models that are fitted to labels in seconds, and scorers that read captions alone.

Who reads captions alone places an image where its captions are, at the mean of their vectors: a caption is as near to
an image as to what people wrote of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import norm as sparse_norm

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.cli.demo import RidgeModel, TfIdf
from cxc_eccv.errors import MissingIds, SourceMissing
from cxc_eccv.ranking.scores import to_unit_length
from cxc_eccv.runs import EmbeddingsRun, Run, ScoresRun
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.types import Embeddings, FloatArray, IntArray, find_positions

__all__ = ["SCORERS", "fit_anew", "place_images"]

ROWS_AT_ONCE = 256
NOISE = 0.9
NOISE_WIDTH = 16


def fit_anew(library: Library, split: str, images: str | Path) -> Callable[[pa.Table, int], dict[str, Run]]:
    """A function that fits three models to labels, as a loop of annotation does round after round.

    All three know the links of ``train`` and of the split that is annotated, and what the labels call positive, as
    captions of their image; they see no other split. ``ridge`` is the ridge regression from pixels to words,
    ``ridge_bag`` the same from images drawn with replacement, ``tfidf`` reads captions alone.
    """
    parts = [library.split(name) for name in ("train", split)]
    content = parts[1]
    pictures = _read_pictures(parts, images)
    told, texts = (part.captions["text"].to_pylist() for part in parts)
    described = _texts_of(_is_own(parts[0]), told)
    vectors = TfIdf.fit([*told, *texts]).encode(texts)
    links = _is_own(content)
    shape = (content.image_ids.size, content.caption_ids.size)

    def fit(labels: pa.Table, seed: int) -> dict[str, Run]:
        random = np.random.default_rng(seed)
        classes = np.asarray(labels["positive"])
        rows = find_positions(np.asarray(labels["image_id"]), content.image_ids)[0]
        columns = find_positions(np.asarray(labels["caption_id"]), content.caption_ids)[0]
        added = csr_array((np.ones(int(classes.sum()), np.float32), (rows[classes], columns[classes])), shape=shape)
        known = (links + added).sign()
        ridges = _fit_ridges(pictures, [*described, *_texts_of(known, texts)], random)
        seen = {
            name: (model.encode_images(pictures[-shape[0] :]), model.encode_captions(texts))
            for name, model in ridges.items()
        }
        sides = {**seen, "tfidf": ((_mean_of(known) @ vectors).toarray(), vectors.toarray())}
        return {name: _run_of(content, *both) for name, both in sides.items()}

    return fit


def _fit_ridges(
    pictures: Sequence[Image.Image], captions: Sequence[list[str]], random: np.random.Generator
) -> dict[str, RidgeModel]:
    drawn = random.integers(len(pictures), size=len(pictures))
    return {
        "ridge": RidgeModel.fit(pictures, captions),
        "ridge_bag": RidgeModel.fit([pictures[row] for row in drawn], [captions[row] for row in drawn]),
    }


def _run_of(content: Split, images: NDArray[np.float32], captions: NDArray[np.float32]) -> EmbeddingsRun:
    sides = Embeddings(content.image_ids, images), Embeddings(content.caption_ids, captions)
    return EmbeddingsRun(*sides, similarity="cosine")


def _texts_of(known: csr_array, texts: Sequence[str]) -> list[list[str]]:
    """The captions that each image is known by."""
    return [[texts[column] for column in known.indices[start:end]] for start, end in pairwise(known.indptr)]


def _read_pictures(parts: Sequence[Split], images: str | Path) -> list[Image.Image]:
    files = ImageFolder(images)
    pictures = []
    for name in (name for content in parts for name in content.images["file_name"].to_pylist()):
        found = files.read(name)
        if found is None:
            raise SourceMissing(f"{files.folder}: there is no {name}; name the folder that holds it")
        pictures.append(Image.open(BytesIO(found["bytes"])).convert("RGB"))
    return pictures


def _cosines(left: NDArray[np.float32], right: NDArray[np.float32]) -> FloatArray:
    return np.asarray(to_unit_length(left) @ to_unit_length(right).T, dtype=np.float64)


def score_tfidf(content: Split) -> ScoresRun:
    """Cosine of TF-IDF bags of words; document frequencies are those of the split's own captions."""
    texts = content.captions["text"].to_pylist()
    return _score_bags(content, TfIdf.fit(texts).encode(texts), "TF-IDF of the captions")


def score_overlap(content: Split) -> ScoresRun:
    """Cosine of sets of words, all of which weigh the same."""
    texts = content.captions["text"].to_pylist()
    bags = TfIdf.fit(texts).encode(texts)
    sizes = np.diff(bags.indptr)
    bags.data[:] = np.repeat(1 / np.sqrt(np.maximum(sizes, 1)), sizes)
    return _score_bags(content, bags, "word overlap of the captions")


def score_noise(content: Split, seed: int = 0) -> EmbeddingsRun:
    """Drawn vectors of images with captions near their own: it knows the links, and nothing else."""
    random = np.random.default_rng(seed)
    images = random.standard_normal((content.image_ids.size, NOISE_WIDTH))
    captions = images[_owners(content)] + NOISE * random.standard_normal((content.caption_ids.size, NOISE_WIDTH))
    left, right = (own.astype(np.float32) for own in (images, captions))
    sides = Embeddings(content.image_ids, left), Embeddings(content.caption_ids, right)
    return EmbeddingsRun(*sides, model=f"noise about the links, seed {seed}")


SCORERS: Mapping[str, Callable[[Split], Run]] = {
    "tfidf": score_tfidf,
    "overlap": score_overlap,
    "noise": score_noise,
    "noise_1": partial(score_noise, seed=1),
}
"""Names to what makes a run of a split out of its links and the words of its captions."""


def place_images(run: EmbeddingsRun, content: Split) -> EmbeddingsRun:
    """A run of captions alone with every image at the mean of its captions' vectors, each of length 1."""
    captions = cast("Embeddings", run.captions)
    rows, there = find_positions(content.caption_ids, captions.ids)
    if not there.all():
        raise MissingIds(
            f"{run.path or 'run'}: lacks {int((~there).sum()):,} captions of the split, among them "
            f"{content.caption_ids[~there][0]}; encode all of them"
        )
    vectors = to_unit_length(captions.vectors[rows])
    images = Embeddings(content.image_ids, np.asarray(_mean_of(_is_own(content)) @ vectors))
    return replace(run, images=images, captions=Embeddings(content.caption_ids, vectors), similarity="cosine")


def _score_bags(content: Split, bags: csr_array, model: str) -> ScoresRun:
    images = _mean_of(_is_own(content)) @ bags
    images = images.multiply(1 / sparse_norm(images, axis=1)[:, None]).tocsr()
    turned = bags.T.tocsr()
    scores = np.empty((content.image_ids.size, content.caption_ids.size), dtype=np.float32)
    for start in range(0, len(scores), ROWS_AT_ONCE):
        scores[start : start + ROWS_AT_ONCE] = (images[start : start + ROWS_AT_ONCE] @ turned).toarray()
    return ScoresRun(content.image_ids, content.caption_ids, scores, model=model)


def _owners(content: Split) -> IntArray:
    return find_positions(content.caption_image_ids, content.image_ids)[0]


def _is_own(content: Split) -> csr_array:
    """(N, M) whether each caption was written of each image."""
    shape = content.image_ids.size, content.caption_ids.size
    return csr_array((np.ones(shape[1], dtype=np.float32), (_owners(content), np.arange(shape[1]))), shape=shape)


def _mean_of(is_known: csr_array) -> csr_array:
    """(N, M) weights that give the mean over the captions that each image is known by."""
    return diags_array(1 / is_known.sum(axis=1)).tocsr().astype(np.float32) @ is_known
