"""Mining weak positives: a retriever's best captions of every image, those kept that are likely to be entailed.

Four steps: the retriever's top captions of other images, ranked exactly; a classifier's probabilities of them, scored
in slices that processes share and that outlive a kill; what these and the ranks say together, by a rule that was fitted
on labelled pairs of such lists; and the pairs from a threshold on, in a file that says how they came about.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
    encode_side,
    fingerprint,
    image_identity,
    lock_output,
    remove_parts,
)
from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.parquet import write_parquet
from cxc_eccv.ranking.rank import top_k as rank_top
from cxc_eccv.ranking.scores import one_blas_thread, refuse_zero_vectors, similarity_of, to_unit_length
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import MINED_FACTS, MINED_FORMAT, MINED_SCHEMA, KarpathySplit, MinedPairs
from cxc_eccv.studies.entailment.labelled import LabelledPairs, Questions, find_images
from cxc_eccv.studies.entailment.rule import FittedRule, check_rule, fit_rule
from cxc_eccv.studies.entailment.seen import seen_by
from cxc_eccv.studies.entailment.training_data import count_named, evaluation_splits, premises_of
from cxc_eccv.tasks.task import COCO, FLICKR30K
from cxc_eccv.types import Embeddings, IntArray, Judgments, check_whole, positions_of
from cxc_eccv.writing import check_output, replaced_file

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.scoring import Announced, Classifier

SPLITS = ("train", "restval", "validation")

COLLECTIONS = {"coco": COCO, "flickr30k": FLICKR30K}

PAIRS_AT_ONCE = 2_048
"""Pairs of a slice, which is what a kill may cost."""


class Candidates(NamedTuple):
    """(P,) rows of images and of captions in the split, and ranks from 1 among the captions of other images."""

    images: IntArray
    captions: IntArray
    ranks: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class MiningOptions:
    """What is mined of which split and collection, and by which rule."""

    split: str = "train"
    collection: str = "coco"
    images: str | Path | None = None
    top_k: int = 30
    threshold: float | None = None
    precision: float | None = None
    labelled: LabelledPairs | None = None
    share: float | None = None
    output: str | Path | None = None

    def check(self, classifier: Classifier | Announced, library: Library) -> Path | None:
        """Raise what :func:`mine` would raise of them, before a retriever is encoded; gives the output's path."""
        if self.collection not in COLLECTIONS:
            raise UnknownName("collection", self.collection, COLLECTIONS)
        if self.split not in SPLITS:
            raise InvalidOption(
                f"split {self.split!r}: weak positives are for training, mine {', '.join(SPLITS)}. A classifier judges "
                "what models retrieve from the test split with evaluate --unjudged"
            )
        check_whole("top_k", self.top_k)
        check_rule(self.threshold, self.precision, self.share, labelled=self.labelled is not None)
        if self.labelled is not None:
            _refuse_test_pairs(self.labelled, library)
            _refuse_seen_pairs(classifier, self.labelled)
            labelled_part(self.labelled, library)
        find_images(classifier, [], self.images)
        return None if self.output is None else check_output(self.output, [".parquet"])


def mine(
    run: Run,
    classifier: Classifier,
    library: Library,
    options: MiningOptions,
    *,
    labelled_run: Run | None = None,
    similarity: str | None = None,
    device: str | None = None,
    batch_size: int = 64,
    progress: bool = True,
) -> MinedPairs:
    """Captions of other images that are likely to be entailed, among a retriever's best for every image.

    A retriever of texts alone ranks by the mean of the vectors of an image's own captions. ``labelled_run`` has the
    retriever's results on the split of the labelled pairs, where that is another one. Under torchrun the processes
    share the work; with an output, a call that was killed goes on where it was.
    """
    path = options.check(classifier, library)
    part, labelled = (options.collection, options.split), options.labelled
    content = COLLECTIONS[options.collection].content(library, options.split)
    with join_processes() as processes, lock_output(path, processes):
        rank = partial(
            _rank,
            top_k=options.top_k,
            processes=processes,
            similarity=similarity,
            device=device,
            progress=progress and not processes.rank,
        )
        score = partial(_score, classifier, output=path, processes=processes, batch_size=batch_size, progress=progress)
        lists = rank(run, content)
        questions = _questions(classifier, content, lists, options.images)
        rule: dict[str, Any] = {"top_k": options.top_k, "threshold": options.threshold}
        fitted = None
        if labelled is not None:
            of_labelled = labelled_part(labelled, library)
            there, lists_there = content, lists
            if of_labelled != part:
                there = COLLECTIONS[of_labelled[0]].content(library, of_labelled[1])
                lists_there = rank(require_labelled_run(labelled_run, labelled, of_labelled), there)
            listed, labels = _find_labelled(labelled, of_labelled, there, lists_there)
            probabilities = score("labelled", _questions(classifier, there, listed, options.images))[0]
            if options.share is None:
                _warn_of_gaps(labelled, listed, lists_there)
            wanted = {name: getattr(options, name) for name in ("threshold", "precision", "share")}
            fitted = fit_rule(probabilities, listed.ranks, labels, there.image_ids[listed.images], **wanted)
            rule |= {**fitted.facts(), "labelled": labelled.name}
            rule |= {} if options.precision is None else {"precision": options.precision}
        scores, cut = score("pairs", questions)
        rule |= {"pairs_scored": scores.size, "pairs_cut": cut}
        retriever = _describe_retriever(run, lists, similarity)
        facts = _describe(options, classifier, retriever, rule, library, content)
        mined = MinedPairs(_keep(content, lists, scores, fitted, facts), facts)
        _write(mined, path, processes)
    return mined


def _refuse_test_pairs(labelled: LabelledPairs, library: Library) -> None:
    """A rule fitted on test data would bring it into training; a file may hold what its name does not say."""
    advice = "a rule fitted on test data would bring it into training. Fit it on"
    if labelled.name.endswith("/test"):
        raise InvalidOption(f"labelled pairs {labelled.name}: {advice} {labelled.name.replace('/test', '/val')}")
    held = count_named(labelled.table, evaluation_splits(library, ["test"])[0])
    if held:
        pairs = " and ".join(f"{count:,} hold an image or a caption of {name}" for name, count in held.items())
        raise InvalidOption(f"labelled pairs {labelled.name}: of {labelled.table.num_rows:,}, {pairs}; {advice} others")


def _refuse_seen_pairs(classifier: Classifier | Announced, labelled: LabelledPairs) -> None:
    """A classifier is surer of pairs that it was trained on: a rule fitted on them promises too much for others."""
    seen = seen_by(classifier)
    if seen is None or not seen.complete:
        warnings.warn(
            f"no file beside {classifier.name} says which pairs it was trained on. If {labelled.name} is among them, "
            "the rule promises a precision that mined pairs do not have",
            stacklevel=2,
        )
    if seen is None:
        return
    uses = seen.among(labelled.table)
    if uses["trained"].any():
        raise InvalidOption(
            f"labelled pairs {labelled.name}: {classifier.name} was trained on {int(uses['trained'].sum()):,} of "
            f"{labelled.table.num_rows:,}. A rule fitted on them promises a precision that mined pairs do not have. "
            "Name others, or train a classifier without them"
        )
    if uses["held_out"].any():
        warnings.warn(
            f"{int(uses['held_out'].sum()):,} of {labelled.table.num_rows:,} labelled pairs {labelled.name} chose the "
            f"checkpoint and the calibration of {classifier.name}: the rule may promise a little too much",
            stacklevel=2,
        )


def labelled_part(labelled: LabelledPairs, library: Library) -> tuple[str, str]:
    """The collection and the split that most images of labelled pairs are of, as ``("coco", "validation")``."""
    keys = {key for key in labelled.table["image_key"].to_pylist() if key is not None}
    counts = {}
    for name, collection in COLLECTIONS.items():
        ids = (key.partition("/")[2] for key in keys if key.startswith(f"{name}/"))
        numbers = np.array(sorted(int(number) for number in ids if number.isdecimal()), dtype=np.int64)
        for split in collection.splits(library) if numbers.size else ():
            if split in SPLITS:
                counts[name, split] = int(np.isin(numbers, collection.content(library, split).image_ids).sum())
    best = max(counts, key=lambda part: counts[part], default=None)
    if best is None or not counts[best]:
        raise InvalidOption(
            f"labelled pairs {labelled.name}: none has an image of a train, restval or val split at hand, of COCO or "
            "Flickr30k. Label pairs of the retriever's lists there (cxc-eccv entailment export --split val)"
        )
    return best


def require_labelled_run(run: Run | None, labelled: LabelledPairs, part: tuple[str, str]) -> Run:
    """The retriever's run of the split that the labelled pairs are of, or an error that asks for it."""
    if run is None:
        raise InvalidOption(
            f"labelled pairs {labelled.name} are of {'/'.join(part)}: their ranks are those of the same retriever's "
            "lists there. Name its file for that split too (--labelled-retriever)"
        )
    return run


def _find_labelled(
    labelled: LabelledPairs, part: tuple[str, str], content: KarpathySplit, lists: Candidates
) -> tuple[Candidates, IntArray]:
    """The labelled pairs that are in the lists, each once, and their labels."""
    size = content.caption_ids.size
    captions = {f"{part[0]}/{number}": place for place, number in enumerate(content.caption_ids.tolist())}
    by_words = {text.strip(): place for place, text in enumerate(content.captions["text"].to_pylist())}
    images = {f"{part[0]}/{number}": place for place, number in enumerate(content.image_ids.tolist())}
    table = labelled.table.select(["image_key", "caption_key", "hypothesis", "label"]).to_pylist()
    known: dict[int, int] = {}
    for row in table:
        image, key = images.get(row["image_key"]), row["caption_key"]
        caption = by_words.get(row["hypothesis"].strip()) if key is None else captions.get(key)
        if image is not None and caption is not None:
            known.setdefault(image * size + caption, row["label"])
    numbers = lists.images * size + lists.captions
    has_label = np.isin(numbers, np.array(list(known), dtype=np.int64))
    listed = Candidates(*(column[has_label] for column in lists))
    if not listed.ranks.size:
        raise InvalidOption(
            f"labelled pairs {labelled.name}: none of {labelled.table.num_rows:,} is in the retriever's lists of "
            f"{'/'.join(part)}. Label pairs of its lists (cxc-eccv entailment export), or raise --top-k"
        )
    return listed, np.array([known[number] for number in numbers[has_label].tolist()], dtype=np.int64)


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
    *,
    top_k: int,
    processes: Processes,
    similarity: str | None,
    **options: Any,  # noqa: ANN401 - of the ranking
) -> Candidates:
    """The captions of other images that stand first for every image; each process ranks for a part of the images."""
    run = _with_image_vectors(run, content, similarity)
    owners = positions_of(content.caption_image_ids, content.image_ids)[0]
    part = np.array_split(np.arange(content.image_ids.size), processes.count)[processes.rank]
    depth = top_k + int(np.bincount(owners).max())
    parts: list[tuple[IntArray, IntArray, IntArray]] = []
    if part.size:
        linked = np.isin(owners, part)
        links = Judgments.from_pairs(
            content.image_ids[part],
            content.caption_ids,
            content.caption_image_ids[linked],
            content.caption_ids[linked],
        )
        with one_blas_thread():
            best = rank_top(run, links, "i2t", depth, similarity=similarity, **options).ids
        captions = positions_of(best.ravel(), content.caption_ids)[0].reshape(best.shape)
        others = owners[captions] != part[:, None]
        ranks = np.cumsum(others, axis=1)
        kept = others & (ranks <= top_k)
        parts.append((np.broadcast_to(part[:, None], best.shape)[kept], captions[kept], ranks[kept]))
    gathered = [piece for found in processes.gather(parts) for piece in found]
    return Candidates(*(np.concatenate(column) for column in zip(*gathered, strict=True)))


def _questions(
    classifier: Classifier, content: KarpathySplit, found: Candidates, images: str | Path | None
) -> Questions:
    """What a classifier is asked of candidates; only their images have to be in the folder."""
    asked, names = set(found.images.tolist()), content.images["file_name"].to_pylist()
    files = find_images(classifier, [name if row in asked else None for row, name in enumerate(names)], images)
    texts = content.captions["text"].to_pylist()
    return Questions(premises_of(content, content.image_ids), files, texts, found.images, found.captions)


def _warn_of_gaps(labelled: LabelledPairs, listed: Candidates, lists: Candidates) -> None:
    """Pairs that were labelled because they look alike are true more often than the others of their lists."""
    whole = int(np.isin(lists.images, listed.images).sum())
    if listed.ranks.size < whole:
        warnings.warn(
            f"labelled pairs {labelled.name}: {listed.ranks.size:,} of {whole:,} pairs in the lists of their images "
            "have a label. Unless these were drawn at random, give the share of entailed pairs in the lists (--share)",
            stacklevel=3,
        )


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
    side, key = _PairSide(name, classifier, questions, batch_size), fingerprint("mine", classifier.fingerprint)
    found, notes = encode_side(side, output, processes, key=key, progress=progress, verb="scoring")
    if notes.truncated and not processes.rank:
        warnings.warn(
            f"{notes.truncated:,} of {side.ids.size:,} pairs are longer than the context of {classifier.name}; the "
            "ends of their premises were cut",
            stacklevel=3,
        )
    return np.asarray(found.vectors[:, 0]), notes.truncated


def _describe(
    options: MiningOptions,
    classifier: Classifier,
    retriever: dict[str, Any],
    rule: dict[str, Any],
    library: Library,
    content: KarpathySplit,
) -> dict[str, Any]:
    config = classifier.model.config
    return {
        "schema": MINED_FORMAT,
        "collection": options.collection,
        "split": options.split,
        "classifier": {
            "name": classifier.name,
            "fingerprint": classifier.fingerprint,
            "premise": "image and captions" if config.has_visual else "captions",
            "training_data": getattr(config, "training_data", None),
        },
        "retriever": retriever,
        "rule": rule,
        "data": {
            "edition": library.edition,
            "version": library.catalog.version,
            "content": content.fingerprint,
            "images": content.image_ids.size,
            "captions": content.caption_ids.size,
            "files": library.files_used(),
        },
        "package": cxc_eccv.__version__,
    }


def _describe_retriever(run: Run, found: Candidates, similarity: str | None) -> dict[str, Any]:
    """Its fingerprint is that of the lists: what it retrieved, from whatever file."""
    lists = hashlib.sha256(b"".join(np.ascontiguousarray(column, dtype=np.int64).tobytes() for column in found))
    name = run.model or (run.path.name if run.path else "a run")
    facts: dict[str, Any] = {"name": name, "fingerprint": lists.hexdigest(), "run": run.facts()}
    if isinstance(run, EmbeddingsRun):
        facts["similarity"] = similarity_of(run, similarity)
        facts |= {} if run.images is not None else {"image_vectors": "mean of the image's own captions"}
    return facts


def _keep(
    content: KarpathySplit,
    found: Candidates,
    scores: NDArray[np.float32],
    fitted: FittedRule | None,
    facts: dict[str, Any],
) -> pa.Table:
    """The pairs from the threshold on, by image and rank."""
    threshold, what = facts["rule"]["threshold"], "p"
    if fitted is not None:
        scores, what = fitted.rule.probabilities(scores, found.ranks).astype(np.float32), "p(classifier, rank)"
    kept = scores >= np.float32(threshold)  # scores are float32, and a threshold chosen among them is one of them
    if not kept.any():
        raise InvalidOption(
            f"none of {scores.size:,} pairs reaches the threshold {threshold:g}, the highest probability is "
            f"{scores.max():.3f}. Choose a lower one; with the same output, what is scored is not scored again."
        )
    rule = f"top {facts['rule']['top_k']}, {what} >= {threshold:g}"
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
    processes.wait()
    if path is not None and processes.rank == 0:
        with replaced_file(path) as part:
            write_parquet(mined.table, part)
        remove_parts(path)
    processes.wait()
