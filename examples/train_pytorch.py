"""Train with several positives per image in plain PyTorch: a collator, a loss and a loop.

    python examples/train_pytorch.py         # the embedded sample: offline, seconds

The config ``pairs`` says which captions match which images. Replace the two linear towers by your model, and
``Processor`` by its processor: one of ``transformers`` is called in the same way.

The sample's validation split stands in for training data with judged positives. In the real data only validation and
test have any, and training on them spoils comparisons: mine weak positives of the training split.
"""

from collections.abc import Sequence

import datasets
import numpy as np
import torch
from PIL import Image
from torch.nn.functional import normalize
from torch.utils.data import DataLoader

import cxc_eccv as ce
from cxc_eccv.demo import bag_of_words, pixel_features, words
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings

SCENES = mirror_folder("sample") / "coco" / "images"
EPOCHS, BATCH, N_PIXELS, WIDTH, TEMPERATURE = 6, 64, 704, 64, 0.07
SHOWN = ("eccv_caption/i2t/map_at_r", "eccv_caption/t2i/map_at_r", "cxc/i2t/recall_at_5")


def main() -> None:
    """Train, and score the towers on the test split."""
    torch.manual_seed(0)
    pairs = load_pairs()
    processor = Processor(pairs["caption"])
    towers = Towers(len(processor.vocabulary))
    collator = ce.MultiPositiveCollator(processor, ce.collect_positives(pairs))
    batches = DataLoader(pairs, batch_size=BATCH, shuffle=True, collate_fn=collator)
    optimizer = torch.optim.AdamW(towers.parameters(), lr=3e-3)
    for epoch in range(EPOCHS):
        losses = []
        for batch in batches:
            positives = batch.pop("positives")
            loss = ce.multi_positive_loss(towers(**batch), positives, temperature=TEMPERATURE)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}")

    report = ce.evaluate(encode(towers, processor), data_dir="sample", confidence=None)
    print(*(f"{key} {report.scores[key]:.3f}" for key in SHOWN), sep="\n")


def load_pairs() -> datasets.Dataset:
    """A row per caption, with its image."""
    parts = [ce.load("pairs", split=split, data_dir="sample", images=SCENES) for split in ("train", "validation")]
    return datasets.concatenate_datasets(parts)


class Processor:
    """Make inputs of the colours of an image and the words of a caption."""

    def __init__(self, captions: Sequence[str]) -> None:
        known = sorted({word for caption in captions for word in words(caption)})
        self.vocabulary = {word: place for place, word in enumerate(known)}

    def __call__(self, text: Sequence[str], images: Sequence[Image.Image], **_: object) -> dict[str, torch.Tensor]:
        """A row of numbers per image and per caption."""
        pixels, counts = pixel_features(images), bag_of_words(text, self.vocabulary)
        return {"pixels": torch.from_numpy(pixels).float(), "counts": torch.from_numpy(counts).float()}


class Towers(torch.nn.Module):
    """A linear map on either side; replace it by your model."""

    def __init__(self, n_words: int) -> None:
        super().__init__()
        self.image, self.text = torch.nn.Linear(N_PIXELS, WIDTH), torch.nn.Linear(n_words, WIDTH)

    def forward(self, pixels: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Cosine similarities of every image to every caption."""
        return normalize(self.image(pixels)) @ normalize(self.text(counts)).T


@torch.no_grad()
def encode(towers: Towers, processor: Processor) -> EmbeddingsRun:
    """One vector per image and per caption of the test split, with their ids."""
    test = ce.load("captions", split="test", data_dir="sample", images=SCENES)
    captions = [caption for row in test["captions"] for caption in row]
    inputs = processor([caption["text"] for caption in captions], list(test["image"]))
    return EmbeddingsRun(
        Embeddings(np.array(test["image_id"]), towers.image(inputs["pixels"]).numpy()),
        Embeddings(np.array([caption["id"] for caption in captions]), towers.text(inputs["counts"]).numpy()),
    )


if __name__ == "__main__":
    main()
