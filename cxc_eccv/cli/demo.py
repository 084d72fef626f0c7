"""The demo: the whole path on the embedded sample, with a ridge regression from pixels to bags of words."""

from __future__ import annotations

import itertools
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import csr_array

from cxc_eccv.cli.random_model import MODEL_FILES, TOKENIZER_FILES
from cxc_eccv.errors import InvalidOption
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun, load_embeddings, save_embeddings
from cxc_eccv.sources.download import sample_images
from cxc_eccv.sources.library import Library
from cxc_eccv.terminal import show_steps
from cxc_eccv.types import Embeddings, FloatArray

if TYPE_CHECKING:
    import datasets

WORD_PATTERN = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")


def words(text: str) -> list[str]:
    """Lower-case words and numbers of a caption.

    Example:
        >>> words("A man's red helmet. ")
        ['a', "man's", 'red', 'helmet']
    """
    return WORD_PATTERN.findall(text.lower())


@dataclass(frozen=True, slots=True, eq=False)
class TfIdf:
    """Term frequency times smoothed inverse document frequency (V,), ``ln((1 + N) / (1 + df)) + 1``."""

    vocabulary: dict[str, int]
    idf: FloatArray

    @classmethod
    def fit(cls, texts: Sequence[str]) -> TfIdf:
        """Learn vocabulary and weights; ``encode`` ignores words that are not in these texts."""
        if not texts:
            raise InvalidOption("TfIdf.fit needs at least one text")
        documents = [set(words(text)) for text in texts]
        vocabulary = {word: column for column, word in enumerate(sorted(set().union(*documents)))}
        frequency = np.zeros(len(vocabulary))
        for document in documents:
            frequency[[vocabulary[word] for word in document]] += 1
        return cls(vocabulary, np.log((1 + len(texts)) / (1 + frequency)) + 1)

    def encode(self, texts: Sequence[str]) -> csr_array:
        """(N, V) float32 unit rows; a text with only unknown words becomes a zero row."""
        columns = [self._find_columns(text) for text in texts]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in columns])])
        indices = np.array(list(itertools.chain.from_iterable(columns)), dtype=np.int64)
        counts = csr_array((self.idf[indices], indices, indptr), shape=(len(texts), len(self.vocabulary)))
        counts.sum_duplicates()
        norms = np.sqrt(counts.multiply(counts).sum(axis=1))
        norms[norms == 0] = 1
        counts.data /= np.repeat(norms, np.diff(counts.indptr))
        return counts.astype(np.float32)

    def _find_columns(self, text: str) -> list[int]:
        return [self.vocabulary[word] for word in words(text) if word in self.vocabulary]

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(N, D) unit rows; D counts only words of these texts, so the columns of two calls differ."""
        vectors = self.encode(texts)
        return np.asarray(vectors[:, np.unique(vectors.indices)].toarray())


PIXELS_PER_SIDE = 8
"""Images are averaged down to SIDE x SIDE pixels."""

PIXEL_WEIGHT = 0.1
"""Weight of positions against colours, which say more about so few images."""


def pixel_features(images: Sequence[Image.Image]) -> FloatArray:
    """(N, 3 SIDE^2 + 512) averaged pixels and colour histogram (8 bins per channel) of N images of any size."""
    features = []
    for image in images:
        coloured = image.convert("RGB")
        small = np.asarray(coloured.resize((PIXELS_PER_SIDE, PIXELS_PER_SIDE), Image.Resampling.BOX), dtype=np.float64)
        bins = (np.asarray(coloured) // 32).reshape(-1, 3).astype(np.int64) @ np.array([64, 8, 1])
        histogram = np.bincount(bins, minlength=512) / bins.size
        features.append(np.concatenate([PIXEL_WEIGHT * (small.ravel() / 255 - 0.5), np.sqrt(histogram)]))
    return np.stack(features)


def bag_of_words(texts: Sequence[str], vocabulary: dict[str, int]) -> FloatArray:
    """(N, V) counts of words and of neighbouring word pairs, rows scaled to length 1.

    Example:
        >>> bag_of_words(["red circle"], {"red": 0, "circle": 1, "red circle": 2}).round(2).tolist()
        [[0.58, 0.58, 0.58]]
    """
    counts = np.zeros((len(texts), len(vocabulary)))
    for row, text in enumerate(texts):
        for term in _terms(text):
            if term in vocabulary:
                counts[row, vocabulary[term]] += 1
    return np.asarray(counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-12))


def _terms(text: str) -> list[str]:
    single = words(text)
    return single + [f"{a} {b}" for a, b in itertools.pairwise(single)]


@dataclass(frozen=True, slots=True, eq=False)
class RidgeModel:
    """Embeds captions by their words, and images by a linear (F, V) map, ``(X^T X + penalty I)^-1 X^T Y``."""

    vocabulary: dict[str, int]
    centre: FloatArray
    image_centre: FloatArray
    weights: FloatArray

    @classmethod
    def fit(
        cls, images: Sequence[Image.Image], captions: Sequence[Sequence[str]], *, penalty: float = 0.1
    ) -> RidgeModel:
        """Fit the map from an image's pixels to the mean vector of its captions, with a penalty on its squared norm."""
        terms: set[str] = set()
        for text in itertools.chain.from_iterable(captions):
            terms.update(_terms(text))
        vocabulary = {term: column for column, term in enumerate(sorted(terms))}
        targets = np.stack([bag_of_words(texts, vocabulary).mean(axis=0) for texts in captions])
        features = pixel_features(images)
        image_centre = features.mean(axis=0)
        centre = targets.mean(axis=0)
        inputs = features - image_centre
        # The dual form solves an (N, N) system: there are fewer images than features.
        kernel = inputs @ inputs.T + penalty * np.eye(len(images))
        return cls(vocabulary, centre, image_centre, inputs.T @ np.linalg.solve(kernel, targets - centre))

    def encode_images(self, images: Sequence[Image.Image]) -> NDArray[np.float32]:
        """(N, V) image embeddings."""
        return ((pixel_features(images) - self.image_centre) @ self.weights).astype(np.float32)

    def encode_captions(self, captions: Sequence[str]) -> NDArray[np.float32]:
        """(N, V) caption embeddings."""
        return (bag_of_words(captions, self.vocabulary) - self.centre).astype(np.float32)


DATASET_FOLDER = "dataset"
EMBEDDINGS_FILE = "ridge.npz"
RANDOM_MODEL = "random-weights"
"""What the demo writes into its folder, besides the report."""


def earlier_files(folder: Path) -> list[str]:
    """Files of an earlier demo in ``folder``, as paths below it."""
    from cxc_eccv.builders.output import replaceable_files

    files = [f"{DATASET_FOLDER}/{name}" for name in replaceable_files(folder / DATASET_FOLDER)]
    model_files = [f"{RANDOM_MODEL}/{name}" for name in (*MODEL_FILES, *TOKENIZER_FILES)]
    files += [name for name in model_files if (folder / name).is_file()]
    return [*files, EMBEDDINGS_FILE]


def run_demo(folder: Path) -> Report:
    """Build the sample's dataset in ``folder``, train the ridge baseline on it, and score its test embeddings.

    Args:
        folder: takes the dataset and the embeddings.
    """
    with show_steps(4) as begin:
        begin("loading packages")
        from cxc_eccv.builders.folder_writing import build_folder
        from cxc_eccv.evaluation import evaluate

        begin("building the dataset")
        build_folder(folder / DATASET_FOLDER, data_dir="sample", images=sample_images(), progress=False)
        begin("training the model")
        path = folder / EMBEDDINGS_FILE
        _train(folder, path)
        begin("scoring")
        return evaluate(load_embeddings(path), data_dir=Library("sample"), per_query=True)


def _train(folder: Path, path: Path) -> None:
    """Train the ridge baseline on the dataset in ``folder``, and write its test embeddings."""
    import datasets

    with tempfile.TemporaryDirectory(dir=folder) as cache:
        datasets.disable_progress_bars()
        splits = datasets.load_dataset(str(folder / DATASET_FOLDER), "captions", cache_dir=cache)
        train = datasets.concatenate_datasets([splits["train"], splits["restval"]])
        captions = [_read_texts(row) for row in train["captions"]]
        model = RidgeModel.fit(list(train["image"]), captions)
        save_embeddings(path, _encode(model, splits["test"]))


def _encode(model: RidgeModel, test: datasets.Dataset) -> EmbeddingsRun:
    captions = list(itertools.chain.from_iterable(test["captions"]))
    caption_ids = np.array([caption["id"] for caption in captions])
    texts = Embeddings(caption_ids, model.encode_captions(_read_texts(captions)))
    images = Embeddings(np.array(test["image_id"]), model.encode_images(list(test["image"])))
    return EmbeddingsRun(images, texts, similarity="cosine")


def _read_texts(captions: Sequence[Mapping[str, str]]) -> list[str]:
    return [caption["text"] for caption in captions]
