"""Mining weak positives: a retriever's best captions of every image, those kept that a classifier takes to be entailed.

Three steps: the retriever's top captions of other images, ranked exactly; their probabilities, scored in slices that
processes share and that outlive a kill; and the pairs from a threshold on, in a file that says how they came about.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import cxc_eccv
from cxc_eccv.encoding.distributed.processes import Processes, join_processes
from cxc_eccv.encoding.distributed.shards import (
    Notes,
    Shard,
    check_output,
    encode_side,
    fingerprint,
    image_identity,
    lock_output,
    remove_parts,
)
from cxc_eccv.entailment.labelled import LabelledPairs, Questions, find_images
from cxc_eccv.entailment.measures import check_threshold, choose_threshold
from cxc_eccv.entailment.training_data import count_named, evaluation_splits
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.parquet import write_parquet
from cxc_eccv.ranking.rank import top_k as rank_top
from cxc_eccv.ranking.scan import one_blas_thread
from cxc_eccv.ranking.scores import refuse_zero_vectors, similarity_of, to_unit_length
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import MINED_FACTS, MINED_FORMAT, MINED_SCHEMA, KarpathySplit, MinedPairs
from cxc_eccv.types import Embeddings, IntArray, Judgments, check_whole, positions_of
from cxc_eccv.writing import replaced_file

if TYPE_CHECKING:
    from cxc_eccv.entailment.scoring import Announced, Classifier

__all__ = ["check_mining", "mine"]

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
    path = check_mining(
        classifier,
        library,
        split=split,
        top_k=top_k,
        threshold=threshold,
        precision=precision,
        labelled=labelled,
        output=output,
        images=images,
    )
    content = library.karpathy(split)
    files = find_images(classifier, content.images["file_name"].to_pylist(), images)
    known = None if labelled is None else labelled.ask(classifier, images)
    rule: dict[str, Any] = {
        "top_k": top_k,
        "threshold": float(classifier.model.config.threshold) if threshold is None else threshold,
    }
    with join_processes() as processes, lock_output(path, processes):
        score = partial(_score, classifier, output=path, processes=processes, batch_size=batch_size, progress=progress)
        if labelled is not None and known is not None:
            chosen = choose_threshold(score("labelled", known)[0], labelled.labels, precision=precision)
            rule |= {"threshold": chosen, "precision": precision, "labelled": labelled.name}
        ranking = _with_image_vectors(run, content, similarity)
        options = {"similarity": similarity, "device": device, "progress": progress and processes.rank == 0}
        found = _rank(ranking, content, top_k, processes, **options)
        scores, cut = score("pairs", _questions(content, files, found))
        facts = {
            "schema": MINED_FORMAT,
            "collection": "coco",
            "split": split,
            "classifier": _describe_classifier(classifier),
            "retriever": _describe_retriever(run, ranking, found, similarity),
            "rule": {**rule, "pairs_scored": scores.size, "pairs_cut": cut},
            "data": _describe_data(library, content),
            "package": cxc_eccv.__version__,
        }
        mined = MinedPairs(_keep(content, found, scores, facts), facts)
        _write(mined, path, processes)
    return mined


def check_mining(
    classifier: Classifier | Announced,
    library: Library,
    *,
    split: str,
    top_k: int,
    threshold: float | None,
    precision: float | None,
    labelled: LabelledPairs | None = None,
    output: str | Path | None = None,
    images: str | Path | None = None,
) -> Path | None:
    """Raise what :func:`mine` would raise of its options, before a retriever is encoded; gives the output's path."""
    if split not in SPLITS:
        raise InvalidOption(
            f"split {split!r}: weak positives are for training, mine {', '.join(SPLITS)}. A classifier judges what "
            "models retrieve from the test split with evaluate --unjudged"
        )
    check_whole("top_k", top_k)
    if threshold is not None:
        check_threshold(threshold)
    if threshold is not None and precision is not None:
        raise InvalidOption("a threshold and a precision: give one of them")
    if (precision is None) != (labelled is None):
        raise InvalidOption("precision (--precision) is reached on labelled pairs (--labelled): give both or none")
    if labelled is not None:
        _refuse_test_pairs(labelled, library)
    find_images(classifier, [], images)
    return None if output is None else check_output(output, [".parquet"])


def _refuse_test_pairs(labelled: LabelledPairs, library: Library) -> None:
    """A threshold chosen on test data would bring it into training; a file may hold what its name does not say."""
    advice = "a threshold chosen on test data would bring it into training. Choose it on"
    if labelled.name.endswith("/test"):
        raise InvalidOption(f"labelled pairs {labelled.name}: {advice} {labelled.name.replace('/test', '/val')}")
    held = count_named(labelled.table, evaluation_splits(library, ["test"])[0])
    if held:
        told = " and ".join(f"{pairs:,} hold an image or a caption of {name}" for name, pairs in held.items())
        raise InvalidOption(f"labelled pairs {labelled.name}: of {labelled.table.num_rows:,}, {told}; {advice} others")


def _with_image_vectors(run: Run, content: KarpathySplit, similarity: str | None) -> Run:
    """The run; one of texts alone with the mean of the vectors of an image's own captions as the image's vector."""
    if not isinstance(run, EmbeddingsRun) or run.captions is None or run.images is not None:
        return run
    places, known = positions_of(content.caption_ids, run.captions.ids)
    if not known.all():
        return run  # ranking tells what is missing
    vectors = run.captions.vectors[places]
    if similarity_of(run, similarity) == "cosine":
        refuse_zero_vectors(content.caption_ids[~vectors.any(axis=1)], len(vectors), "captions", run.path or "run")
        vectors = to_unit_length(vectors)
    owners = positions_of(content.caption_image_ids, content.image_ids)[0]
    sums = np.zeros((content.image_ids.size, vectors.shape[1]))
    np.add.at(sums, owners, vectors)
    means = sums / np.bincount(owners, minlength=len(sums))[:, None]
    return replace(run, images=Embeddings(content.image_ids, means.astype(np.float32)))


def _rank(
    run: Run,
    content: KarpathySplit,
    top_k: int,
    processes: Processes,
    **options: Any,  # noqa: ANN401 - of the ranking
) -> Candidates:
    """The captions of other images that stand first for every image; each process ranks for a part of the images."""
    owners = positions_of(content.caption_image_ids, content.image_ids)[0]
    own = np.array_split(np.arange(content.image_ids.size), processes.count)[processes.rank]
    depth = top_k + int(np.bincount(owners).max())
    parts: list[tuple[IntArray, IntArray, IntArray]] = []
    if own.size:
        linked = np.isin(owners, own)
        links = Judgments.from_pairs(
            content.image_ids[own],
            content.caption_ids,
            content.caption_image_ids[linked],
            content.caption_ids[linked],
        )
        with one_blas_thread():
            best = rank_top(run, links, "i2t", depth, **options).ids
        captions = positions_of(best.ravel(), content.caption_ids)[0].reshape(best.shape)
        others = owners[captions] != own[:, None]
        ranks = np.cumsum(others, axis=1)
        kept = others & (ranks <= top_k)
        parts.append((np.broadcast_to(own[:, None], best.shape)[kept], captions[kept], ranks[kept]))
    gathered = [part for found in processes.gather(parts) for part in found]
    return Candidates(*(np.concatenate([part[place] for part in gathered]) for place in range(3)))


def _questions(content: KarpathySplit, files: Sequence[Path | None] | None, found: Candidates) -> Questions:
    texts = content.captions["text"].to_pylist()
    premises: list[list[str]] = [[] for _ in range(content.image_ids.size)]
    for owner, text in zip(positions_of(content.caption_image_ids, content.image_ids)[0].tolist(), texts, strict=True):
        premises[owner].append(text.strip())
    return Questions([" ".join(own) for own in premises], files, texts, found.images, found.captions)


class _PairSide:
    """Pairs in slices, whose probabilities stand for vectors."""

    shard_size = PAIRS_AT_ONCE

    def __init__(self, name: str, classifier: Classifier, questions: Questions, batch_size: int) -> None:
        self.name, self._classifier, self._questions, self._batch_size = name, classifier, questions, batch_size
        self.ids = np.arange(questions.rows.size)

    def identity(self, part: slice) -> list[Any]:
        """The texts, and name, size and time of the image files."""
        premises, files, hypotheses = self._questions.part(part)
        known = {file: image_identity(file) for file in dict.fromkeys(files or []) if file is not None}
        return [premises, [None if file is None else known[file] for file in files or []], hypotheses]

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """Score slices of the pairs; (N, 1) probabilities stand for vectors."""
        for part in parts:
            premises, files, hypotheses = self._questions.part(part)
            options: dict[str, Any] = {"batch_size": self._batch_size, "progress": False}
            scores, cut = self._classifier.score_and_count(premises, files, hypotheses, **options)
            if scores.shape != (len(premises),) or not ((scores >= 0) & (scores <= 1)).all():
                raise DataError(
                    f"{self._classifier.name} gave no probabilities between 0 and 1 for {len(premises)} pairs"
                )
            yield Shard(self.ids[part], scores[:, None].astype(np.float32), Notes(truncated=cut))


def _score(
    classifier: Classifier,
    name: str,
    questions: Questions,
    *,
    output: Path | None,
    processes: Processes,
    batch_size: int,
    progress: bool,
) -> tuple[NDArray[np.float32], int]:
    """Probabilities, and how many pairs were cut at the end of the context."""
    side, key = _PairSide(name, classifier, questions, batch_size), fingerprint("mine", classifier.fingerprint)
    found, notes = encode_side(side, output, processes, key=key, progress=progress, verb="scoring")
    if notes.truncated and not processes.rank:
        warnings.warn(
            f"{notes.truncated:,} of {side.ids.size:,} pairs are longer than the context of {classifier.name}; the "
            "ends of their premises were cut",
            stacklevel=3,
        )
    return np.asarray(found.vectors[:, 0]), notes.truncated


def _describe_classifier(classifier: Classifier) -> dict[str, Any]:
    config = classifier.model.config
    reads = "image and captions" if config.has_visual else "captions"
    facts = {"name": classifier.name, "fingerprint": classifier.fingerprint, "premise": reads}
    return facts | {"training_data": getattr(config, "training_data", None)}


def _describe_retriever(run: Run, ranking: Run, found: Candidates, similarity: str | None) -> dict[str, Any]:
    """Its fingerprint is that of the lists: what it retrieved, from whatever file."""
    lists = hashlib.sha256(b"".join(np.ascontiguousarray(column, dtype=np.int64).tobytes() for column in found))
    name = run.model or (run.path.name if run.path else "a run")
    facts: dict[str, Any] = {"name": name, "fingerprint": lists.hexdigest(), "run": run.facts()}
    if isinstance(run, EmbeddingsRun):
        facts["similarity"] = similarity_of(run, similarity)
    return facts | ({} if ranking is run else {"image_vectors": "mean of the image's own captions"})


def _describe_data(library: Library, content: KarpathySplit) -> dict[str, Any]:
    return {
        "edition": library.edition,
        "version": library.catalog.version,
        "content": content.fingerprint,
        "images": content.image_ids.size,
        "captions": content.caption_ids.size,
        "files": library.files_used(),
    }


def _keep(content: KarpathySplit, found: Candidates, scores: NDArray[np.float32], facts: dict[str, Any]) -> pa.Table:
    """The pairs from the threshold on, by image and rank."""
    threshold = facts["rule"]["threshold"]
    kept = scores >= np.float32(threshold)  # scores are float32, and a threshold chosen among them is one of them
    if not kept.any():
        raise InvalidOption(
            f"none of {scores.size:,} pairs reaches the threshold {threshold:g}, the highest probability is "
            f"{scores.max():.3f}. Choose a lower one; with the same output, what is scored is not scored again."
        )
    rule = f"top {facts['rule']['top_k']}, p >= {threshold:g}"
    names = {"classifier": facts["classifier"]["name"], "retriever": facts["retriever"]["name"], "rule": rule}
    rows = int(kept.sum())
    constants = {
        name: pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array([text]))
        for name, text in names.items()
    }
    columns = {
        "image_id": content.image_ids[found.images[kept]],
        "caption_id": content.caption_ids[found.captions[kept]],
        "score": scores[kept],
        "rank": found.ranks[kept].astype(np.int32),
        **constants,
    }
    metadata = {MINED_FACTS: json.dumps(facts, ensure_ascii=False)}
    return pa.table(columns, schema=MINED_SCHEMA.with_metadata(metadata))


def _write(mined: MinedPairs, path: Path | None, processes: Processes) -> None:
    """On the first process, write the file and remove what it was made of."""
    processes.wait()
    if path is not None and processes.rank == 0:
        with replaced_file(path) as part:
            write_parquet(mined.table, part)
        remove_parts(path)
    processes.wait()
