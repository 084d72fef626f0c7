"""Mining weak positives: a retriever's best captions of every image, those kept that a classifier takes to be entailed.

Three steps: the retriever's top captions of other images, ranked exactly; their probabilities, scored in slices that
processes share and that outlive a kill; and the pairs from a threshold on, in a file that says how they came about.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import cxc_eccv
from cxc_eccv.encoding.processes import Processes, join_processes
from cxc_eccv.encoding.shards import (
    Notes,
    Shard,
    check_output,
    encode_side,
    fingerprint,
    image_identity,
    lock_output,
    parts_folder,
)
from cxc_eccv.entailment.labelled import LabelledPairs, find_images
from cxc_eccv.entailment.measures import choose_threshold
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.ranking.rank import top_k as rank_top
from cxc_eccv.ranking.scan import one_blas_thread
from cxc_eccv.ranking.scores import refuse_zero_vectors, similarity_of
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import MINED_FACTS, MINED_FORMAT, MINED_SCHEMA, KarpathySplit, MinedPairs
from cxc_eccv.types import Embeddings, IntArray, Judgments, check_whole, positions_of
from cxc_eccv.writing import replaced_file

if TYPE_CHECKING:
    from cxc_eccv.entailment.scoring import Classifier

__all__ = ["mine"]

SPLITS = ("train", "restval", "validation")

PAIRS_AT_ONCE = 2_048
"""Pairs of a slice, which is what a kill may cost."""


class Candidates(NamedTuple):
    """(P,) rows of images and of captions in the split, and ranks from 1 among the captions of other images."""

    images: IntArray
    captions: IntArray
    ranks: IntArray


def mine(
    run: Run,
    classifier: Classifier,
    library: Library,
    *,
    split: str = "train",
    images: str | Path | None = None,
    top_k: int = 30,
    threshold: float | None = None,
    precision: float | None = None,
    labelled: LabelledPairs | None = None,
    output: str | Path | None = None,
    similarity: str | None = None,
    device: str | None = None,
    batch_size: int = 64,
    progress: bool = True,
) -> MinedPairs:
    """Captions of other images that a classifier takes to be entailed, among a retriever's best for every image.

    The premise is an image's own captions, joined by a blank, and the image where the classifier looks at images. A
    retriever of texts alone ranks by the mean of the vectors of an image's own captions. Under torchrun the processes
    share the work; with an output, a call that was killed goes on where it was.

    Args:
        run: vectors, scores or lists of the split's images and captions.
        classifier: what :func:`cxc_eccv.entailment.scoring.load_classifier` gave.
        library: the raw sources.
        split: ``train``, ``restval`` or ``validation``.
        images: folder with the image files, at any depth; for a classifier that looks at images.
        top_k: captions per image to score.
        threshold: lowest probability to keep; None for the classifier's own.
        precision: in its place, the precision that the threshold shall reach on ``labelled`` pairs.
        labelled: what :func:`cxc_eccv.entailment.labelled.read_labelled` gave.
        output: ``.parquet`` file to write.
        similarity: of vectors: ``cosine`` or ``dot``; None for what the run says, else cosine.
        device: torch device to rank vectors on; None for the processor.
        batch_size: pairs at once.
        progress: show a bar.

    Returns:
        The pairs, by image and rank, with all facts; on every process.

    Raises:
        InvalidOption: the test split; a threshold and a precision, or one without ``labelled``; no ``images`` where
            they are needed; no pair that reaches the threshold.
        RunError: the run lacks images or captions of the split, or its lists are too short.
        DataError: a raw file or an image is missing or broken.
    """
    path = None if output is None else check_output(output, [".parquet"])
    _check_request(split, top_k, threshold, precision, labelled)
    content = library.karpathy(split)
    files = find_images(classifier, content.images["file_name"].to_pylist(), images)
    with join_processes() as processes, lock_output(path, processes):
        score = partial(_score, classifier, path, processes, batch_size, progress)
        scored_labels = None if labelled is None else score("labelled", *labelled.inputs(classifier, images))
        given = _with_image_vectors(run, content, similarity)
        found = _rank(given, content, top_k, processes, similarity=similarity, device=device, progress=progress)
        scores = score("pairs", *_inputs_of(content, files, found))
        least, chosen = threshold, {}
        if labelled is not None and scored_labels is not None:
            least = choose_threshold(scored_labels, labelled.labels, precision=precision)
            chosen = {"precision": precision, "labelled": labelled.name, "labelled_pairs": len(labelled.labels)}
        least = float(np.float32(classifier.threshold if least is None else least))
        rule = {"top_k": top_k, "threshold": least, **chosen, "scored": scores.size}
        facts = _facts(run, given, classifier, library, split, similarity_of_run(run, similarity), found, rule)
        mined = MinedPairs(_keep(content, found, scores, facts), facts)
        _write(path, mined, processes)
    return mined


def _check_request(
    split: str, top_k: int, threshold: float | None, precision: float | None, labelled: LabelledPairs | None
) -> None:
    if split not in SPLITS:
        raise InvalidOption(
            f"split {split!r}: weak positives are for training, mine {', '.join(SPLITS)}. A classifier judges what "
            "models retrieve from the test split with evaluate --unjudged"
        )
    check_whole("top_k", top_k)
    if threshold is not None and not 0 <= threshold <= 1:
        raise InvalidOption(f"threshold {threshold:g}: probabilities run from 0 to 1")
    if threshold is not None and precision is not None:
        raise InvalidOption("a threshold and a precision: give one of them")
    if (precision is None) != (labelled is None):
        raise InvalidOption("precision (--precision) is reached on labelled pairs (--labelled): give both or none")
    if labelled is not None and labelled.name.endswith("/test"):
        raise InvalidOption(
            f"labelled pairs {labelled.name}: a threshold chosen on test data would bring it into training. Choose it "
            f"on {labelled.name.replace('/test', '/val')}"
        )
