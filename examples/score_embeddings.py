"""Score CLIP-style embeddings: encode images and captions, save them in one file, evaluate it.

    python examples/score_embeddings.py                                      # the embedded sample: offline, seconds
    python examples/score_embeddings.py --data-dir mirror --images val2014   # your raw files and photographs

The encoder is a ridge regression, fitted on the sample's training scenes. Replace it by your model: the file needs one
vector per image id and one per caption id, in one space.
"""

import argparse
from pathlib import Path

import datasets
import numpy as np

import cxc_eccv as ce
from cxc_eccv.cli.demo import RidgeModel
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings

SCENES = mirror_folder("sample") / "coco" / "images"
SHOWN = ("recall_at_1", "map_at_r", "pmrp", "bootstrap_spearman")


def main() -> None:
    """Encode, save, evaluate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default="sample", help="folder with the raw files, or sample")
    parser.add_argument("--images", type=Path, default=SCENES, help="folder with the images")
    parser.add_argument("--output", type=Path, default=Path("embeddings.npz"), help="embeddings file to write")
    options = parser.parse_args()

    test = ce.load("captions", split="test", data_dir=options.data_dir, images=options.images)
    ce.save_embeddings(options.output, encoded(test, fitted_model()))

    report = ce.evaluate(ce.load_embeddings(options.output), data_dir=options.data_dir)
    for result in report.results:
        if result.metric in SHOWN:
            print(f"{result.key:32} {result.value:6.3f}  95% interval {result.low:.3f} to {result.high:.3f}")
    for key, reason in report.skipped.items():
        print(f"skipped {key}: {reason}")


def encoded(test: datasets.Dataset, model: RidgeModel) -> EmbeddingsRun:
    """One vector per image and per caption of the split, with their ids."""
    captions = [caption for row in test["captions"] for caption in row]
    images = model.encode_images(list(test["image"]))
    texts = model.encode_captions([caption["text"] for caption in captions])
    return EmbeddingsRun(
        Embeddings(np.array(test["image_id"]), images),
        Embeddings(np.array([caption["id"] for caption in captions]), texts),
    )


def fitted_model() -> RidgeModel:
    """Fit the ridge regression; replace it by your model."""
    train = ce.load("captions", split="train+restval", data_dir="sample", images=SCENES)
    return RidgeModel.fit(list(train["image"]), [[caption["text"] for caption in row] for row in train["captions"]])


if __name__ == "__main__":
    main()
