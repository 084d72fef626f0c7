"""Mining weak positives: a retriever's top captions of every image that are likely to be entailed.

Five steps: rank the top captions of other images exactly; find what the classifier is asked about them; fit a rule on
labelled pairs of such lists; score all pairs, in slices that processes share and a killed run keeps; and write the
pairs above a threshold to a file with their provenance.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
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
    LISTS,
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
from cxc_eccv.types import Embeddings, Judgments, check_whole, find_positions
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
        """Check the options for a classifier, before a retriever is encoded."""
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

    The options are checked before, by :meth:`MiningOptions.check`. A retriever of texts only represents an image by the
    mean vector of its own captions. ``labelled_run`` has the retriever's results on the split of the labelled pairs, if
    that is another split. Under torchrun the processes share the work; with an output, a killed call resumes where it
    stopped.
    """
    split = options.split
    path = None if options.output is None else Path(options.output)
    with join_processes() as processes, lock_output(path, processes):
        rank = partial(_rank_captions, top_k=options.top_k, processes=processes, progress=options.progress)
        score = partial(_score, classifier=classifier, options=options, path=path, processes=processes)
        rule: dict[str, Json] = {"top_k": options.top_k, "threshold": options.threshold}
        # 1. Rank the captions of other images for every image.
        lists = rank(run, split)
        # 2. Find what the classifier is asked; a missing image ends the command here.
        questions = _ask(split, lists, classifier, options.images)
        # 3. Fit the rule on the labelled pairs in the lists of their split, if there are some.
        fitted = None
        if options.labelled is not None:
            labelled_split = find_labelled_split(options.labelled, split.library)
            labelled_lists = lists
            if labelled_split is not split:
                labelled_run = require_labelled_run(labelled_run, options.labelled, labelled_split)
                labelled_lists = rank(labelled_run, labelled_split)
            listed, labels = find_labelled_pairs(options.labelled, labelled_split, labelled_lists)
            labelled_scores, _ = score("labelled", _ask(labelled_split, listed, classifier, options.images))
            if options.share is None:
                warn_of_gaps(options.labelled, listed, labelled_lists)
            fitted = fit_rule(
                labelled_scores,
                listed["rank"],
                labels,
                labelled_split.image_ids[listed["image"]],
                threshold=options.threshold,
                precision=options.precision,
                share=options.share,
            )
            rule |= {**fitted.facts(), "labelled": options.labelled.name}
            rule |= {} if options.precision is None else {"precision": options.precision}
        # 4. Score every pair.
        scores, cut = score("pairs", questions)
        rule |= {"pairs_scored": scores.size, "pairs_cut": cut}
        # 5. Keep the pairs above the threshold, and write them.
        facts = _describe(split, classifier, _describe_retriever(run, lists), rule)
        mined = MinedPairs(_keep(split, lists, scores, fitted, facts), facts)
        _write(mined, path, processes)
    return mined


def _rank_captions(run: Run, split: Split, *, top_k: int, processes: Processes, progress: bool) -> pd.DataFrame:
    """The top captions of other images for every image; each process ranks a part of the images.

    A row has the ``image`` and the ``caption``, as rows of the split, and the ``rank`` among captions of other images.
    """
    run = with_image_vectors(run, split)
    owners = find_positions(split.caption_image_ids, split.image_ids)[0]
    part = np.array_split(np.arange(split.image_ids.size), processes.count)[processes.rank]
    depth = top_k + int(np.bincount(owners).max())
    lists = pd.DataFrame(columns=LISTS, dtype=np.int64)
    if part.size:
        linked = np.isin(owners, part)
        links = Judgments.from_pairs(
            split.image_ids[part], split.caption_ids, split.caption_image_ids[linked], split.caption_ids[linked]
        )
        with one_blas_thread():
            best = ranked(run, Options(progress=progress and not processes.rank)).find_top(links, "i2t", depth).ids
        captions = find_positions(best.ravel(), split.caption_ids)[0].reshape(best.shape)
        images = np.broadcast_to(part[:, None], best.shape)
        of_others = owners[captions] != images
        ranks = np.cumsum(of_others, axis=1)
        kept = of_others & (ranks <= top_k)
        lists = pd.DataFrame(dict(zip(LISTS, (images[kept], captions[kept], ranks[kept]), strict=True)))
    return pd.concat(processes.gather(lists), ignore_index=True)


def _ask(split: Split, lists: pd.DataFrame, classifier: Classifier, images: str | Path | None) -> Asked:
    """The premise, the image's file and the hypothesis of every pair; images of others need not be there."""
    rows = lists["image"].tolist()
    listed = set(rows)
    names = [name if row in listed else None for row, name in enumerate(split.images["file_name"].to_pylist())]
    files = find_image_files(classifier, names, images)
    premises = premises_of(split, split.image_ids)
    texts = split.captions["text"].to_pylist()
    return (
        [premises[row] for row in rows],
        None if files is None else [files[row] for row in rows],
        [texts[row] for row in lists["caption"].tolist()],
    )


def _score(
    name: str,
    questions: Asked,
    *,
    classifier: Classifier,
    options: MiningOptions,
    path: Path | None,
    processes: Processes,
) -> tuple[NDArray[np.float32], int]:
    """(P,) probabilities, and the number of truncated pairs, of which a warning tells."""
    side = _PairSide(name, questions, classifier, options.batch_size)
    scored, notes = encode_side(
        side,
        path,
        processes,
        key=fingerprint("mine", classifier.fingerprint),
        progress=options.progress,
        verb="scoring",
        everywhere=True,
    )
    if not processes.rank:
        warn_of_truncation(notes.truncated, side.ids.size, classifier.name)
    return scored.vectors[:, 0], notes.truncated


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


def _describe_retriever(run: Run, lists: pd.DataFrame) -> JsonObject:
    """Facts of the retriever; its fingerprint is that of its lists."""
    digest = hashlib.sha256()
    for name in LISTS:
        digest.update(np.ascontiguousarray(lists[name], dtype=np.int64).tobytes())
    name = run.model or (run.path.name if run.path else "a run")
    facts: dict[str, Json] = {"name": name, "fingerprint": digest.hexdigest(), "run": to_json(run.facts())}
    if (vectors := run.as_embeddings()) is not None:
        facts["similarity"] = vectors.choose_similarity()
        facts |= {} if vectors.images is not None else {"image_vectors": "mean of the image's own captions"}
    return facts


def _keep(
    split: Split,
    lists: pd.DataFrame,
    scores: NDArray[np.float32],
    fitted: FittedRule | None,
    facts: dict[str, Any],
) -> pa.Table:
    """The pairs that reach the threshold, by image and rank."""
    threshold = facts["rule"]["threshold"]
    what = "p"
    if fitted is not None:
        scores = fitted.rule.probabilities(scores, lists["rank"]).astype(np.float32)
        what = "p(classifier, rank)"
    reaches = scores >= np.float32(threshold)  # the threshold may be one of the float32 scores
    if not reaches.any():
        raise InvalidOption(
            f"none of {scores.size:,} pairs reaches the threshold {threshold:g}; the highest probability is "
            f"{scores.max():.3f}. Choose a lower threshold; with the same output, the scores are reused."
        )
    kept = lists[reaches]
    columns = {
        "image_id": split.image_ids[kept["image"]],
        "caption_id": split.caption_ids[kept["caption"]],
        "score": scores[reaches],
        "rank": kept["rank"].to_numpy(np.int32),
        "classifier": _repeat(facts["classifier"]["name"], len(kept)),
        "retriever": _repeat(facts["retriever"]["name"], len(kept)),
        "rule": _repeat(f"top {facts['rule']['top_k']}, {what} >= {threshold:g}", len(kept)),
    }
    metadata = {FACTS_KEY: json.dumps(facts, ensure_ascii=False)}
    return pa.table(columns, schema=MINED_SCHEMA.with_metadata(metadata))


def _repeat(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array([text]))


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
