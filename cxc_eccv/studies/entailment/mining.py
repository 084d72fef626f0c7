"""Mining weak positives: a retriever's top captions of every image that are likely to be entailed.

Four steps: rank the top captions of other images exactly; score them with a classifier, in slices that processes share
and a killed run keeps; combine score and rank by a rule fitted on labelled pairs of such lists; and write the pairs
above a threshold to a file with their provenance.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv import version
from cxc_eccv.encoding.processes import Processes, join_processes
from cxc_eccv.encoding.shards import (
    Notes,
    Shard,
    encode_side,
    fingerprint,
    image_identity,
    lock_output,
    remove_parts,
)
from cxc_eccv.errors import InvalidOption
from cxc_eccv.parquet import write_parquet
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.scores import one_blas_thread, refuse_zero_vectors
from cxc_eccv.runs import Run
from cxc_eccv.runs.caption_means import average_captions
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.readers import FACTS_KEY, MINED_SCHEMA, MinedPairs
from cxc_eccv.studies.entailment.labelled import Asked, LabelledPairs, find_image_files, seen_by
from cxc_eccv.studies.entailment.mining_rule import (
    Candidates,
    FittedRule,
    check_rule,
    find_labelled_pairs,
    find_labelled_split,
    fit_rule,
    require_labelled_run,
    warn_of_gaps,
)
from cxc_eccv.studies.entailment.training_data import (
    count_named,
    evaluation_splits,
    premises_of,
    warn_of_truncation,
)
from cxc_eccv.types import Embeddings, IntArray, Judgments, check_whole, find_positions
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.strict_json import Json, JsonObject
from cxc_eccv.writing import check_output, replaced_file

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.scoring import Classifier

PAIRS_AT_ONCE = 2_048
"""Pairs of a slice: what a killed run loses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiningOptions:
    """The split to mine, the rule, the output, and how to score.

    Args:
        split: what :func:`~cxc_eccv.studies.entailment.mining_rule.open_split_to_mine` opened.
        images: folder with the images, for a classifier that looks at them.
        top_k: captions of other images to score for every image.
        threshold: lowest probability to keep.
        precision: precision to reach on the labelled pairs, instead of a threshold.
        labelled: labelled pairs of the retriever's lists, on which a rule is fitted.
        share: share of entailed pairs in the lists; None for that of the labelled pairs.
        output: file to write, with which a killed call resumes where it stopped.
        batch_size: pairs per batch.
        progress: show a bar.
    """

    split: Split
    images: str | Path | None = None
    top_k: int = 30
    threshold: float | None = None
    precision: float | None = None
    labelled: LabelledPairs | None = None
    share: float | None = None
    output: str | Path | None = None
    batch_size: int = 64
    progress: bool = True

    def check(self, classifier: Classifier) -> None:
        """Check the options before a retriever is encoded."""
        check_whole("top_k", self.top_k)
        check_rule(self.threshold, self.precision, self.share, labelled=self.labelled is not None)
        if self.labelled is not None:
            _refuse_test_pairs(self.labelled, self.split.library)
            _refuse_seen_pairs(classifier, self.labelled)
            find_labelled_split(self.labelled, self.split.library)
        find_image_files(classifier, [], self.images)
        if self.output is not None:
            check_output(self.output, [".parquet"])


def mine(run: Run, classifier: Classifier, options: MiningOptions, *, labelled_run: Run | None = None) -> MinedPairs:
    """Find captions of other images that are likely to be entailed, among a retriever's top captions of every image.

    A retriever of texts only represents an image by the mean vector of its own captions. ``labelled_run`` has the
    retriever's results on the split of the labelled pairs, if that is another split. Under torchrun the processes share
    the work; with an output, a killed call resumes where it stopped.
    """
    options.check(classifier)
    path = None if options.output is None else Path(options.output)
    with join_processes() as processes, lock_output(path, processes):
        miner = _Miner(classifier, options, path, processes)
        lists = miner.rank(run, options.split)
        questions = miner.ask(options.split, lists)
        rule: dict[str, Json] = {"top_k": options.top_k, "threshold": options.threshold}
        fitted = None
        if options.labelled is not None:
            fitted = miner.fit(options.labelled, lists, labelled_run)
            rule |= {**fitted.facts(), "labelled": options.labelled.name}
            rule |= {} if options.precision is None else {"precision": options.precision}
        scores, cut = miner.score("pairs", questions)
        rule |= {"pairs_scored": scores.size, "pairs_cut": cut}
        facts = _describe(options.split, classifier, _describe_retriever(run, lists), rule)
        mined = MinedPairs(_keep(options.split, lists, scores, fitted, facts), facts)
        _write(mined, path, processes)
    return mined


@dataclass(frozen=True, slots=True)
class _Miner:
    """The steps of mining, which processes share."""

    classifier: Classifier
    options: MiningOptions
    path: Path | None
    processes: Processes

    def rank(self, run: Run, split: Split) -> Candidates:
        """Rank the top captions of other images for every image; each process ranks a part of the images."""
        top_k = self.options.top_k
        processes = self.processes
        run = with_image_vectors(run, split)
        owners = find_positions(split.caption_image_ids, split.image_ids)[0]
        part = np.array_split(np.arange(split.image_ids.size), processes.count)[processes.rank]
        depth = top_k + int(np.bincount(owners).max())
        parts: list[tuple[IntArray, IntArray, IntArray]] = []
        if part.size:
            linked = np.isin(owners, part)
            links = Judgments.from_pairs(
                split.image_ids[part], split.caption_ids, split.caption_image_ids[linked], split.caption_ids[linked]
            )
            with one_blas_thread():
                shown = Options(progress=self.options.progress and not processes.rank)
                best = ranked(run, shown).find_top(links, "i2t", depth).ids
            captions = find_positions(best.ravel(), split.caption_ids)[0].reshape(best.shape)
            others = owners[captions] != part[:, None]
            ranks = np.cumsum(others, axis=1)
            kept = others & (ranks <= top_k)
            parts.append((np.broadcast_to(part[:, None], best.shape)[kept], captions[kept], ranks[kept]))
        gathered = [piece for pieces in processes.gather(parts) for piece in pieces]
        return Candidates(*(np.concatenate(column) for column in zip(*gathered, strict=True)))

    def ask(self, split: Split, candidates: Candidates) -> Asked:
        """The premise, the image's file and the hypothesis of every candidate; images of others need not be there."""
        rows = candidates.images.tolist()
        listed = set(candidates.images.tolist())
        names = [name if row in listed else None for row, name in enumerate(split.images["file_name"].to_pylist())]
        files = find_image_files(self.classifier, names, self.options.images)
        premises = premises_of(split, split.image_ids)
        texts = split.captions["text"].to_pylist()
        return (
            [premises[row] for row in rows],
            None if files is None else [files[row] for row in rows],
            [texts[row] for row in candidates.captions.tolist()],
        )

    def score(self, name: str, questions: Asked) -> tuple[NDArray[np.float32], int]:
        """(P,) probabilities, and the number of truncated pairs, which a warning tells."""
        side = _PairSide(name, questions, self.classifier, self.options.batch_size)
        key = fingerprint("mine", self.classifier.fingerprint)
        scored, notes = encode_side(
            side,
            self.path,
            self.processes,
            key=key,
            progress=self.options.progress,
            verb="scoring",
            everywhere=True,
        )
        if not self.processes.rank:
            warn_of_truncation(notes.truncated, side.ids.size, self.classifier.name)
        return scored.vectors[:, 0], notes.truncated

    def fit(self, labelled: LabelledPairs, lists: Candidates, labelled_run: Run | None) -> FittedRule:
        """The rule fitted on the labelled pairs in the lists of their split."""
        options = self.options
        split = find_labelled_split(labelled, self.options.split.library)
        if split is not options.split:
            lists = self.rank(require_labelled_run(labelled_run, labelled, split), split)
        listed, labels = find_labelled_pairs(labelled, split, lists)
        probabilities = self.score("labelled", self.ask(split, listed))[0]
        if options.share is None:
            warn_of_gaps(labelled, listed, lists)
        return fit_rule(
            probabilities,
            listed.ranks,
            labels,
            split.image_ids[listed.images],
            threshold=options.threshold,
            precision=options.precision,
            share=options.share,
        )


def _refuse_test_pairs(labelled: LabelledPairs, library: Library) -> None:
    """Raise InvalidOption if labelled pairs hold test data, whatever their file is called."""
    advice = "a rule fitted on test data would leak it into training. Fit it on"
    if labelled.name.endswith("/test"):
        raise InvalidOption(f"labelled pairs {labelled.name}: {advice} {labelled.name.replace('/test', '/val')}")
    held = count_named(labelled.table, evaluation_splits(library, ["test"])[0])
    if held:
        pairs = " and ".join(f"{count:,} with an image or a caption of {name}" for name, count in held.items())
        raise InvalidOption(
            f"{labelled.table.num_rows:,} labelled pairs {labelled.name} include {pairs}; {advice} others"
        )


def _refuse_seen_pairs(classifier: Classifier, labelled: LabelledPairs) -> None:
    """Raise InvalidOption if the classifier was trained on the labelled pairs: their rule would be optimistic."""
    seen = seen_by(classifier)
    if seen is None or not seen.complete:
        warnings.warn(
            f"{classifier.name} has no record of the pairs it was trained on. If {labelled.name} is among them, mined "
            "pairs will be less precise than the rule estimates",
            stacklevel=2,
        )
    if seen is None:
        return
    uses = seen.among(labelled.table)
    if uses["trained"].any():
        raise InvalidOption(
            f"{classifier.name} was trained on {int(uses['trained'].sum()):,} of {labelled.table.num_rows:,} labelled "
            f"pairs {labelled.name}, so a rule fitted on them would overestimate its precision. Give other pairs, or "
            "train a classifier without them"
        )
    if uses["held_out"].any():
        warnings.warn(
            f"the checkpoint and the calibration of {classifier.name} were chosen on "
            f"{int(uses['held_out'].sum()):,} of {labelled.table.num_rows:,} labelled pairs {labelled.name}: the rule "
            "may overestimate its precision slightly",
            stacklevel=2,
        )


class _PairSide:
    """Pairs in slices, for ``encode_side``; their probabilities take the place of vectors."""

    shard_size = PAIRS_AT_ONCE

    def __init__(self, name: str, questions: Asked, classifier: Classifier, batch_size: int) -> None:
        self.name = name
        self.questions = questions
        self.classifier = classifier
        self.batch_size = batch_size
        self.ids = np.arange(len(questions[0]))

    def _part(self, part: slice) -> Asked:
        premises, files, hypotheses = self.questions
        return premises[part], None if files is None else files[part], hypotheses[part]

    def identity(self, part: slice) -> list[Any]:
        """The texts, and the identity of the image files."""
        premises, files, hypotheses = self._part(part)
        known = {file: image_identity(file) for file in dict.fromkeys(files or []) if file is not None}
        return [premises, [None if file is None else known[file] for file in files or []], hypotheses]

    def shards(self, parts: Sequence[slice]) -> Iterator[Shard]:
        """Score slices of the pairs, as (N, 1) probabilities."""
        for part in parts:
            premises, files, hypotheses = self._part(part)
            scores, cut = self.classifier.score_and_count(
                premises, files, hypotheses, batch_size=self.batch_size, progress=False
            )
            yield Shard(self.ids[part], scores[:, None].astype(np.float32), Notes(truncated=cut))


def _describe(split: Split, classifier: Classifier, retriever: JsonObject, rule: JsonObject) -> dict[str, Any]:
    library = split.library
    return {
        "schema": 1,
        "collection": split.collection.name,
        "split": split.name,
        "classifier": {
            "name": classifier.name,
            "fingerprint": classifier.fingerprint,
            "premise": "image and captions" if classifier.has_visual else "captions",
            "training_data": classifier.training_data,
        },
        "retriever": retriever,
        "rule": rule,
        "data": {
            "edition": library.edition,
            "version": library.catalog.version,
            "content": split.fingerprint,
            "images": split.image_ids.size,
            "captions": split.caption_ids.size,
            "files": library.files_used(),
        },
        "package": version.__version__,
    }


def _describe_retriever(run: Run, candidates: Candidates) -> JsonObject:
    """Facts of the retriever; its fingerprint is that of its lists."""
    lists = hashlib.sha256(b"".join(np.ascontiguousarray(column, dtype=np.int64).tobytes() for column in candidates))
    name = run.model or (run.path.name if run.path else "a run")
    facts: dict[str, Json] = {"name": name, "fingerprint": lists.hexdigest(), "run": to_json(run.facts())}
    if (vectors := run.as_embeddings()) is not None:
        facts["similarity"] = vectors.choose_similarity()
        facts |= {} if vectors.images is not None else {"image_vectors": "mean of the image's own captions"}
    return facts


def _keep(
    content: Split,
    candidates: Candidates,
    scores: NDArray[np.float32],
    fitted: FittedRule | None,
    facts: dict[str, Any],
) -> pa.Table:
    """The pairs that reach the threshold, by image and rank."""
    threshold = facts["rule"]["threshold"]
    what = "p"
    if fitted is not None:
        scores = fitted.rule.probabilities(scores, candidates.ranks).astype(np.float32)
        what = "p(classifier, rank)"
    kept = scores >= np.float32(threshold)  # the threshold may be one of the float32 scores
    if not kept.any():
        raise InvalidOption(
            f"none of {scores.size:,} pairs reaches the threshold {threshold:g}; the highest probability is "
            f"{scores.max():.3f}. Choose a lower threshold; with the same output, the scores are reused."
        )
    rule = f"top {facts['rule']['top_k']}, {what} >= {threshold:g}"
    names = {"classifier": facts["classifier"]["name"], "retriever": facts["retriever"]["name"], "rule": rule}
    rows = int(kept.sum())
    constants = {
        name: pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array([text]))
        for name, text in names.items()
    }
    columns = {
        "image_id": content.image_ids[candidates.images[kept]],
        "caption_id": content.caption_ids[candidates.captions[kept]],
        "score": scores[kept],
        "rank": candidates.ranks[kept].astype(np.int32),
        **constants,
    }
    metadata = {FACTS_KEY: json.dumps(facts, ensure_ascii=False)}
    return pa.table(columns, schema=MINED_SCHEMA.with_metadata(metadata))


def _write(mined: MinedPairs, path: Path | None, processes: Processes) -> None:
    processes.wait()
    if path is not None and processes.rank == 0:
        with replaced_file(path) as part:
            write_parquet(mined.table, part)
        remove_parts(path)
    processes.wait()


def with_image_vectors(run: Run, content: Split) -> Run:
    """The run; one of texts only gets the mean vector of an image's own captions, of unit vectors under the cosine."""
    texts = run.as_embeddings()
    if texts is None or texts.captions is None or texts.images is not None:
        return run
    rows, present = find_positions(content.caption_ids, texts.captions.ids)
    if not present.all():
        return run  # ranking reports the missing ids
    texts = texts.without_roles()
    vectors = cast("Embeddings", texts.captions).vectors[rows]
    is_cosine = texts.choose_similarity() == "cosine"
    if is_cosine:
        refuse_zero_vectors(content.caption_ids[~vectors.any(axis=1)], len(vectors), "captions", run.path or "run")
    return replace(texts, images=average_captions(vectors, content, normalize=is_cosine))
