"""The mining rule: a probability from the classifier's probability and the rank in the retriever's list.

Its weights are fitted on labelled pairs of such lists. There few captions of other images are entailed (6% on the
sample), while most labelled pairs of the corpora are: the classifier's calibration does not carry over to the lists.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.runs import Run
from cxc_eccv.sources.collections.collection import collections
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.studies.entailment.labelled import LabelledPairs
from cxc_eccv.studies.entailment.measures import (
    average_precision,
    check_threshold,
    choose_threshold,
    fit_logistic,
    log_odds,
    precision_of_best,
)
from cxc_eccv.tables import Table
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.strict_json import Json

MINED_SPLITS = ("train", "restval", "validation")

COLLECTIONS = {name: collection for name, collection in collections().items() if collection.mined}


LISTS = ("image", "caption", "rank")
"""Columns of a retriever's lists: rows of the image and the caption in the split, and the caption's rank from 1."""


def open_split_to_mine(library: Library, name: str, collection: str) -> Split:
    """A split for training, of a collection that weak positives are mined from."""
    if collection not in COLLECTIONS:
        raise UnknownName("collection", collection, COLLECTIONS)
    if name not in MINED_SPLITS:
        raise InvalidOption(
            f"split {name!r}: weak positives are for training; mine {', '.join(MINED_SPLITS)}. To judge what models "
            "retrieve from the test split, use evaluate --judge"
        )
    return library.split(name, collection)


def find_labelled_split(labelled: LabelledPairs, library: Library) -> Split:
    """The split for training that has most images of labelled pairs; InvalidOption if none has any."""
    keys = {key for key in labelled.table["image_key"].to_pylist() if key is not None}
    counts: dict[Split, int] = {}
    for name, collection in COLLECTIONS.items():
        ids = [key.partition("/")[2] for key in keys if key.startswith(f"{name}/")]
        numbers = np.array([int(number) for number in ids if number.isdecimal()], dtype=np.int64)
        if not numbers.size:
            continue
        for split_name in library.read_splits(collection):
            if split_name in MINED_SPLITS:
                split = library.split(split_name, collection)
                counts[split] = int(np.isin(numbers, split.image_ids).sum())
    best = max(counts, key=lambda split: counts[split], default=None)
    if best is None or not counts[best]:
        raise InvalidOption(
            f"none of the labelled pairs {labelled.name} has an image of an available train, restval or val split of "
            "COCO or Flickr30k. Label pairs of the retriever's lists there (cxc-eccv entailment export --split val)"
        )
    return best


def require_labelled_run(run: Run | None, labelled: LabelledPairs, split: Split) -> Run:
    """The retriever's run of the split of the labelled pairs; InvalidOption if it is missing."""
    if run is None:
        raise InvalidOption(
            f"labelled pairs {labelled.name} are of {split.collection.name}/{split.name}: give the same retriever's "
            "file for that split too (--labelled-retriever)"
        )
    return run


def find_labelled_pairs(labelled: LabelledPairs, split: Split, lists: pd.DataFrame) -> tuple[pd.DataFrame, IntArray]:
    """The distinct labelled pairs that are in the lists, and their labels."""
    prefix = split.collection.name
    images = _index_keys(prefix, split.image_ids)
    captions = _index_keys(prefix, split.caption_ids)
    by_words = {text.strip(): index for index, text in enumerate(split.captions["text"].to_pylist())}
    rows = []
    for row in labelled.table.select(["image_key", "caption_key", "hypothesis", "label"]).to_pylist():
        image = images.get(row["image_key"])
        key = row["caption_key"]
        caption = by_words.get(row["hypothesis"].strip()) if key is None else captions.get(key)
        if image is not None and caption is not None:
            rows.append((image, caption, row["label"]))
    known = pd.DataFrame(rows, columns=["image", "caption", "label"], dtype=np.int64)
    known = known.drop_duplicates(["image", "caption"])
    labels = lists.merge(known, how="left", on=["image", "caption"], validate="many_to_one")["label"].to_numpy()
    has_label = ~np.isnan(labels)
    if not has_label.any():
        raise InvalidOption(
            f"none of {labelled.table.num_rows:,} labelled pairs {labelled.name} is in the retriever's lists of "
            f"{prefix}/{split.name}. Label pairs of its lists (cxc-eccv entailment export), or raise --top-k"
        )
    return lists[has_label], labels[has_label].astype(np.int64)


def _index_keys(prefix: str, ids: IntArray) -> dict[str, int]:
    """Key of each id, such as ``coco/391895``, to its row."""
    return {f"{prefix}/{number}": row for row, number in enumerate(ids.tolist())}


def warn_of_gaps(labelled: LabelledPairs, listed: pd.DataFrame, lists: pd.DataFrame) -> None:
    """Warn if labels cover only a part of the lists: labelled pairs may be entailed more often than the others."""
    whole = int(lists["image"].isin(listed["image"]).sum())
    if len(listed) < whole:
        warnings.warn(
            f"labelled pairs {labelled.name} cover {len(listed):,} of {whole:,} pairs in the lists of their "
            "images. Unless these were drawn at random, give the share of entailed pairs in the lists (--share)",
            stacklevel=3,
        )


FOLDS = 5


@dataclass(frozen=True, slots=True)
class MiningRule:
    """``p = 1 / (1 + exp(-(logit x logit(classifier's p) - log_rank x log(rank) + offset)))``."""

    logit: float
    log_rank: float
    offset: float

    def probabilities(self, scores: ArrayLike, ranks: ArrayLike) -> FloatArray:
        """(N,) probabilities from the classifier's probabilities and the ranks."""
        logits, log_ranks = _features(scores, ranks)
        return np.asarray(1 / (1 + np.exp(-(self.logit * logits + self.log_rank * log_ranks + self.offset))))


@dataclass(frozen=True, slots=True)
class FittedRule:
    """A rule fitted on all labelled pairs; its precision is cross-validated over images."""

    rule: MiningRule
    threshold: float
    pairs: int
    positives: int
    share: float
    kept: int
    average_precision: Mapping[str, float]
    kept_precision: Mapping[str, float]

    def facts(self) -> dict[str, Json]:
        """Plain values, for JSON."""
        facts = asdict(self)
        return {"weights": facts.pop("rule"), **facts}


def fit_rule(
    scores: ArrayLike,
    ranks: ArrayLike,
    labels: ArrayLike,
    images: ArrayLike,
    *,
    threshold: float | None = None,
    precision: float | None = None,
    share: float | None = None,
) -> FittedRule:
    """Weigh the classifier against the rank by a logistic regression on labelled pairs of a retriever's lists.

    All arrays are (N,): the classifier's probabilities, ranks from 1, labels 0 or 1, and images. The threshold is the
    given one, or one that reaches ``precision`` here, or 0.5; ``share`` is the share of entailed pairs in the lists.
    """
    truth = np.asarray(labels, dtype=np.int64)
    names = np.asarray(images)
    features = _features(scores, ranks)
    whole = _fit(features, truth, share)
    if whole.logit + whole.log_rank == 0:
        raise DataError(
            "no rule can be fitted: entailed pairs have neither higher probabilities nor better ranks than others. "
            "Label more pairs of the lists, or use another classifier"
        )
    probabilities = np.empty(truth.size)
    for others, fold in _folds(truth, names):
        probabilities[fold] = _fit([values[others] for values in features], truth[others], share).probabilities(
            np.asarray(scores)[fold], np.asarray(ranks)[fold]
        )
    if precision is not None:
        threshold = choose_threshold(probabilities, truth, precision=precision, share=share)
    threshold = 0.5 if threshold is None else threshold
    kept = int((probabilities >= threshold).sum())
    by = {"classifier": features[0], "rank": features[1], "both": probabilities}
    kept_precision = {}
    if kept:
        kept_precision = {name: precision_of_best(truth, values, kept, share=share) for name, values in by.items()}
    return FittedRule(
        rule=whole,
        threshold=threshold,
        pairs=truth.size,
        positives=int(truth.sum()),
        share=float(truth.mean()) if share is None else share,
        kept=kept,
        average_precision={name: average_precision(truth, values, share=share) for name, values in by.items()},
        kept_precision=kept_precision,
    )


def _features(scores: ArrayLike, ranks: ArrayLike) -> list[FloatArray]:
    """(N,) logits, and (N,) negative logarithms of the ranks: both rise with the chance of entailment."""
    return [log_odds(scores), -np.log(np.asarray(ranks, dtype=np.float64))]


def _fit(features: Sequence[FloatArray], truth: IntArray, share: float | None) -> MiningRule:
    """The fitted weights; ``share`` moves the offset by the ratio of its odds to those of these pairs."""
    for what, values in zip(("probability of the classifier", "rank"), features, strict=True):
        if values.min() == values.max():
            raise DataError(
                f"no rule can be fitted: the {what} is the same for all {truth.size} labelled pairs of the lists. "
                "Label more pairs of the lists"
            )
    (logit, log_rank), offset = fit_logistic(features, truth, rising=True)
    if share is not None:
        positives = int(truth.sum())
        offset += float(np.log(share / (1 - share)) - np.log(positives / (truth.size - positives)))
    return MiningRule(logit, log_rank, offset)


def _folds(truth: IntArray, images: NDArray[Any]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Masks of the training and the test pairs of each fold; images with entailed pairs are spread evenly."""
    names, places = np.unique(images, return_inverse=True)
    has_any = np.bincount(places, weights=truth) > 0
    if has_any.sum() < 2:
        raise DataError(
            f"{int(has_any.sum())} of {names.size} labelled images have an entailed pair in the lists; a rule needs at "
            "least two. Label more pairs of the lists"
        )
    folds = np.empty(names.size, dtype=np.int64)
    folds[np.argsort(~has_any, kind="stable")] = np.arange(names.size) % min(FOLDS, names.size)
    for fold in range(min(FOLDS, names.size)):
        inside = folds[places] == fold
        yield ~inside, inside


def check_rule(threshold: float | None, precision: float | None, share: float | None, *, labelled: bool) -> None:
    """Refuse options of a rule that are out of range or do not go together; ``labelled``: there are pairs to fit on."""
    if threshold is not None:
        check_threshold(threshold)
    if share is not None and not 0 < share < 1:
        raise InvalidOption(f"share {share:g}: give a fraction above 0 and below 1")
    if threshold is not None and precision is not None:
        raise InvalidOption("give a threshold or a precision, not both")
    if labelled:
        return
    if precision is not None or share is not None:
        raise InvalidOption("precision (--precision) and share (--share) need labelled pairs (--labelled)")
    if threshold is None:
        raise InvalidOption(
            "neither labelled pairs nor a threshold is given. Give labelled pairs of the retriever's lists "
            "(--labelled), to fit a rule on the classifier's score and the rank, or a threshold (--threshold) on the "
            "classifier's score alone"
        )


RULE_TITLES = {"classifier": "Classifier alone", "rank": "Rank alone", "both": "Classifier and rank"}


def table_of_rule(rule: Mapping[str, Any]) -> Table:
    """A console table of a fitted rule: its precision beside that of the rank alone, in percent."""
    weights = rule["weights"]
    kept = rule["kept"]
    rows = [
        (
            title,
            f"{100 * rule['average_precision'][name]:.1f}",
            f"{100 * rule['kept_precision'][name]:.1f}" if kept else "none",
        )
        for name, title in RULE_TITLES.items()
    ]
    ratio = f"{weights['logit']:.2f} x logit(classifier) - {weights['log_rank']:.2f} x log(rank)"
    return Table(
        [("Pairs chosen by",), ("Average precision",), (f"Precision of the best {kept:,}",)],
        rows,
        f"Rule fitted on {rule['labelled']}",
        f"{rule['pairs']:,} labelled pairs of the lists, {rule['positives']:,} entailed; share in the lists "
        f"{100 * rule['share']:.1f}",
        notes=[
            f"Logit of the probability: {ratio} {weights['offset']:+.2f}.",
            f"{kept:,} of the labelled pairs reach the threshold {rule['threshold']:g}; a rule fitted on other images "
            "judges each of them.",
        ],
    )
