"""Train a classifier's text branch on Flickr8k's votes, each half of the images for the pairs of the other.

    CXC_ECCV_DATA=mirror python tools/experiments/train_on_votes.py text-branch minilm_flickr8k.npz judge.parquet

Writes probabilities of a majority of yes for ``prediction_powered.py --judge``: a logistic regression on the branch's
logit, the largest cosine of the caption with the image's others, and their squares. No pair is judged by what was
trained or fitted on a pair of its image.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from prediction_powered import fit_by_folds, read_flickr8k
from torch.nn.functional import binary_cross_entropy_with_logits
from tqdm import tqdm
from transformers import get_linear_schedule_with_warmup, set_seed

from cxc_eccv.judgments.flickr8k import read_votes
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.entailment_classifier.data import LengthSampler
from cxc_eccv.studies.entailment.measures import area_under_curve
from cxc_eccv.studies.entailment.scoring import Classifier, load_classifier
from cxc_eccv.studies.entailment.training_data import premises_of
from cxc_eccv.types import FloatArray, IntArray, find_positions

EPOCHS, RATE, BATCH = 3, 5e-5, 32


def main() -> None:
    """Train twice, and write the probabilities."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("classifier", help="folder or Hub id of a classifier with a text branch")
    parser.add_argument("vectors", type=Path, help="caption vectors of Flickr8k's test split")
    parser.add_argument("output", type=Path, help="file of probabilities")
    arguments = parser.parse_args()
    library = Library()
    votes, content = read_votes(library.split("test", "flickr8k")), library.split("test", "flickr8k")
    yes, no = votes.yes[~votes.linked], votes.no[~votes.linked]
    pairs = read_flickr8k(library, arguments.vectors)
    texts = content.captions["text"].take(pa.array(find_positions(pairs.captions, content.caption_ids)[0])).to_pylist()
    premises, cosines = premises_of(content, pairs.images), pairs.cosines
    leads, probabilities = np.zeros((2, yes.size))
    half = np.unique(pairs.images, return_inverse=True)[1] % 2
    for judged in (0, 1):
        set_seed(judged)
        classifier = load_classifier(arguments.classifier)
        train(classifier, premises, texts, yes / (yes + no), np.flatnonzero(half != judged))
        rows = np.flatnonzero(half == judged)
        scores = classifier.score([premises[row] for row in rows], None, [texts[row] for row in rows])
        leads[rows] = np.log(scores / (1 - scores))
        features = np.stack([leads, leads**2, cosines, cosines**2], axis=1)
        probabilities[rows] = fit_by_folds(pairs.images[rows], features[rows], pairs.labels[rows])
        for name, guesses in (("the branch", leads), ("both", probabilities)):
            print(f"{name}: area under the ROC curve {area_under_curve(pairs.labels[rows], guesses[rows]):.3f}")
    table = {"image_id": pairs.images, "caption_id": pairs.captions, "probability": probabilities}
    pq.write_table(pa.table(table), arguments.output)


def train(classifier: Classifier, premises: list[str], texts: list[str], targets: FloatArray, rows: IntArray) -> None:
    """Train on the pairs in ``rows``; the target of a pair is its share of yes.

    An epoch has all pairs with a yes, and its part of those without, which are nine in ten.
    """
    model, parameters = classifier.model.train(), [*classifier.model.parameters()]
    order = choose_pairs(premises, texts, targets, rows)
    batches = [order[start : start + BATCH] for start in range(0, order.size, BATCH)]
    optimizer = torch.optim.AdamW(parameters, lr=RATE)
    schedule = get_linear_schedule_with_warmup(optimizer, len(batches) // 16, len(batches))
    for batch in tqdm(batches, desc="training", unit=" batches"):
        inputs = classifier.processor([premises[row] for row in batch], None, [texts[row] for row in batch])
        with torch.autocast(model.device.type, torch.bfloat16):
            logits = model(**inputs.to(model.device)).logits.float()
        loss = binary_cross_entropy_with_logits(logits[:, 1] - logits[:, 0], torch.tensor(targets[batch]).to(logits))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()


def choose_pairs(premises: list[str], texts: list[str], targets: FloatArray, rows: IntArray) -> IntArray:
    """The pairs of all epochs, in batches of similar length."""
    without = np.random.default_rng(0).permutation(rows[targets[rows] == 0])
    epochs = []
    for part in np.array_split(without, EPOCHS):
        chosen = np.append(rows[targets[rows] > 0], part)
        lengths = [len(premises[row]) + len(texts[row]) for row in chosen]
        epochs.append(chosen[list(LengthSampler(lengths, BATCH))])
    return np.concatenate(epochs)


if __name__ == "__main__":
    main()
