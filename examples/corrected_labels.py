"""Train with corrected labels: weak positives are not negatives. In NumPy, on the embedded sample.

    python examples/corrected_labels.py

The usual contrastive loss treats every caption of a batch as a negative, except the image's own. The config ``pairs``
says which captions of other images describe an image too; here they share the target, with a weight. Replace the two
matrices by the two towers of your model.

The sample's validation split stands in for training data with weak positives. In the real data only validation and test
have any, and training on them spoils comparisons: mine weak positives of the training split. The sample is too small to
tell the two runs apart; the numbers show that the path works.
"""

import datasets
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import cxc_eccv as ce
from cxc_eccv.cli.demo import bag_of_words, pixel_features, words
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings

SCENES = mirror_folder("sample") / "coco" / "images"
Array = NDArray[np.float64]

STEPS, BATCH, WIDTH, RATE = 400, 130, 32, 3.0
SHOWN = ("eccv_caption/i2t/map_at_r", "eccv_caption/t2i/map_at_r", "cxc/i2t/recall_at_5", "cxc/sits/bootstrap_spearman")


def main() -> None:
    """Train with plain and with corrected targets, and score both on the test split."""
    parts = [ce.load("pairs", split=split, data_dir="sample", images=SCENES) for split in ("train", "validation")]
    pairs = datasets.concatenate_datasets(parts)
    known = sorted({word for text in pairs["caption"] for word in words(text)})
    vocabulary = {word: place for place, word in enumerate(known)}
    inputs = pixel_features(list(pairs["image"])), bag_of_words(pairs["caption"], vocabulary)
    for name, weight in (("plain", 0.0), ("corrected", 0.5)):
        with threadpool_limits(1):  # the products are too small to share between threads
            towers = trained(*inputs, targets(pairs, weight))
        report = ce.evaluate(encoded(towers, vocabulary), data_dir="sample", similarity="dot", confidence=None)
        print(name, *(f"{key} {report.scores[key]:.3f}" for key in SHOWN), sep="\n  ")


def targets(pairs: datasets.Dataset, weight: float) -> Array:
    """(P, P) target of caption j for image i: 1 for its own, ``weight`` for a weak positive."""
    images, captions = np.array(pairs["image_id"]), np.array(pairs["caption_id"])
    wanted = (images[:, None] == images).astype(float)
    for row, weak in enumerate(pairs["weak_positives"]):
        wanted[row, np.isin(captions, [one["caption_id"] for one in weak])] = weight
    return wanted


def trained(images: Array, captions: Array, wanted: Array, seed: int = 0) -> list[Array]:
    """Two linear towers, by gradient descent on the contrastive loss in both directions."""
    random = np.random.default_rng(seed)
    towers = [0.1 * random.standard_normal((inputs.shape[1], WIDTH)) for inputs in (images, captions)]
    for _ in range(STEPS):
        rows = random.choice(len(images), BATCH, replace=False)
        x, y, want = images[rows], captions[rows], wanted[np.ix_(rows, rows)]
        a, b = x @ towers[0], y @ towers[1]
        scores = a @ b.T
        # Cross-entropy of softmax(scores) against the targets, each row and each column a distribution.
        gradient = softmax(scores) - want / want.sum(axis=1, keepdims=True)
        gradient += (softmax(scores.T) - want.T / want.T.sum(axis=1, keepdims=True)).T
        towers[0] -= RATE / BATCH * (x.T @ (gradient @ b))
        towers[1] -= RATE / BATCH * (y.T @ (gradient.T @ a))
    return towers


def softmax(scores: Array) -> Array:
    """Rows that sum to 1."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def encoded(towers: list[Array], vocabulary: dict[str, int]) -> EmbeddingsRun:
    """Encode the test split."""
    test = ce.load("captions", split="test", data_dir="sample", images=SCENES)
    captions = [caption for row in test["captions"] for caption in row]
    images = pixel_features(list(test["image"])) @ towers[0]
    texts = bag_of_words([caption["text"] for caption in captions], vocabulary) @ towers[1]
    ids = np.array(test["image_id"]), np.array([caption["id"] for caption in captions])
    return EmbeddingsRun(Embeddings(ids[0], images), Embeddings(ids[1], texts))


if __name__ == "__main__":
    main()
