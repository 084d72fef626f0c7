"""Query-corpus ranking: a caption searches for its image, where images are represented by their other captions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import cast

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, MissingIds
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.presentation import ShownResult
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.ranking.scores import refuse_zero_vectors
from cxc_eccv.registry import metric_labelled
from cxc_eccv.runs import EmbeddingsRun, RankingsRun
from cxc_eccv.runs.caption_means import average_groups
from cxc_eccv.runs.rankings import RankedLists, narrow_ids
from cxc_eccv.sources.catalog import ALL_SPLITS, describe_data
from cxc_eccv.sources.collections.collection import collections, find_collection
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import ClusterBootstrap, Draws, Estimate, bootstrap_mean, interval
from cxc_eccv.tables import Cell, Table, interval_cell
from cxc_eccv.types import Embeddings, FloatArray, IntArray, Judgments, PositiveRanks, TopK, find_positions
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.wording import metric_name

METRICS = ("recall_at_1", "recall_at_5", "recall_at_10", "mrr_at_5", "mrr_at_10", "mrr", "median_rank")
"""Labels of the paper's metrics; its fails are 1 - R@1."""

METRIC_TITLES = {label: metric_name(label) for label in METRICS} | {"fails": "fails"}

SEED = 0
CONFIDENCE = 0.95
"""Of the bootstrap over images."""

WITHOUT_IMAGE = 2258277193
"""A photo of Flickr8k whose file is called ``.jpg.1`` and is in no split; 8,091 others remain."""

DEPTH = 50
"""Items kept of every ranking for ``explain``, which reads the first eleven and the rank of the right one."""


def score_ranks(ranks: PositiveRanks) -> dict[str, FloatArray]:
    """The per-query values of each of ``METRICS``."""
    measured = ((label, *metric_labelled(label)) for label in METRICS)
    return {label: spec.function(ranks, **parameters) for label, spec, parameters in measured}


def collect_captions(library: Library, collection: str, split: str | None = None) -> pa.Table:
    """A table of ``caption_id``, ``image_id`` and ``text``; an image's captions are in the order of their positions.

    The default split is COCO's test split, the 8,091 images of Flickr8k with a file, and all splits of the others.
    """
    declared = find_collection(collection)
    if split is not None or declared.is_default:
        return library.split(split or "test", declared).captions
    if declared.all_captions is None:
        return library.split(ALL_SPLITS, declared).captions
    captions = library.read(*declared.all_captions)
    return captions.filter(np.asarray(captions["image_id"]) != WITHOUT_IMAGE)


@dataclass(frozen=True, slots=True, eq=False)
class Pairing:
    """The caption of every image that is the query, and the others that represent the image.

    ``queries`` and ``others`` are rows of the table of captions; those of ``image_ids[n]`` begin at ``starts[n]`` of
    ``others``. ``left_out`` counts the images without a caption at this position, or without another one.
    """

    position: int
    image_ids: IntArray
    queries: IntArray
    others: IntArray
    starts: IntArray
    left_out: int

    @property
    def rows_of_others(self) -> list[list[int]]:
        """The rows of each image's other captions."""
        return [rows.tolist() for rows in np.split(self.others, self.starts[1:-1])]


def pair_up(owners: IntArray, position: int) -> Pairing:
    """Use the caption at one position of every image as its query, and the others for the image.

    Images without a caption at this position, or without another one, are left out altogether.
    """
    images, first = np.unique(owners, return_index=True)
    images = images[np.argsort(first)]  # in the order of the captions
    places = find_positions(owners, images)[0]
    rows = np.argsort(places, kind="stable")
    sizes = np.bincount(places)
    begins = np.cumsum(sizes) - sizes
    taking = sizes > max(position, 1)
    if not taking.any():
        raise InvalidOption(
            f"no image has a caption at position {position} and another one; positions are 0 to {sizes.max() - 1}"
        )
    queries = begins[taking] + position
    other = np.repeat(taking, sizes)
    other[queries] = False
    starts = np.append(0, np.cumsum(sizes[taking] - 1))
    return Pairing(
        position=position,
        image_ids=images[taking],
        queries=rows[queries],
        others=rows[other],
        starts=starts,
        left_out=int((~taking).sum()),
    )


Corpus = Callable[[Pairing], Embeddings]
"""A function from a pairing to one vector per image, made of its captions other than the query."""


def mean_corpus(vectors: NDArray[np.float32], *, normalize: bool = False) -> Corpus:
    """Represent images by the mean vector of their other captions; ``normalize`` scales these to length 1 first.

    The paper (section 3.2) averages the model's vectors; for a model of unit vectors the two are the same.
    """
    return partial(_average, take=vectors.__getitem__, normalize=normalize)


def _average(pairing: Pairing, *, take: Callable[[IntArray], NDArray[np.float32]], normalize: bool) -> Embeddings:
    """The mean vector of every image's other texts; ``take`` maps rows of texts to their vectors."""
    means = average_groups(take, pairing.others, pairing.starts, normalize=normalize)
    nowhere = pairing.image_ids[~means.any(axis=1)]
    if nowhere.size:
        raise MalformedRun(
            f"the captions of {nowhere.size} images average to the zero vector, which has no cosine, the first: "
            f"{nowhere[0]}. Check the model's output on them."
        )
    return Embeddings(pairing.image_ids, means)


def describe(pairing: Pairing, descriptions: pa.Table) -> Pairing:
    """The pairing with the rows of an image's descriptions as its others."""
    places, known = find_positions(np.asarray(descriptions["image_id"]), pairing.image_ids)
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(places[rows], kind="stable")]
    counts = np.bincount(places[rows], minlength=pairing.image_ids.size)
    return replace(pairing, others=rows, starts=np.append(0, np.cumsum(counts)))


def average_descriptions(
    pairing: Pairing, descriptions: pa.Table, encode: Callable[[pa.Table], Embeddings], *, normalize: bool = False
) -> Embeddings:
    """One vector per image: the mean vector of its descriptions, which are encoded a few at a time."""

    def take(rows: IntArray) -> NDArray[np.float32]:
        return encode(descriptions.take(rows)).vectors

    return _average(describe(pairing, descriptions), take=take, normalize=normalize)


def given_corpus(images: Embeddings, where: object) -> Corpus:
    """Represent images by given vectors."""
    return lambda pairing: Embeddings(pairing.image_ids, take_rows(images, pairing.image_ids, where, "images"))


def summary_corpus(
    summaries: Mapping[tuple[int, int], str], encode: Callable[[list[tuple[int, str]]], Embeddings]
) -> Corpus:
    """Represent images by the vector of a summary of their other captions, by image id and position of the query."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(summaries.values()))}
    vectors = encode([(number, text) for text, number in numbers.items()]).vectors

    def look_up(pairing: Pairing) -> Embeddings:
        keys = [(number, pairing.position) for number in pairing.image_ids.tolist()]
        lacking = [number for number, position in keys if (number, position) not in summaries]
        if lacking:
            raise MissingIds(
                f"{len(lacking)} of {len(keys)} images have no summary for the query at position {pairing.position}, "
                f"the first: {lacking[0]}. Add their summaries"
            )
        return Embeddings(pairing.image_ids, vectors[[numbers[summaries[key]] for key in keys]])

    return look_up


def key_summaries(table: pa.Table, positions: Sequence[int], where: object) -> dict[tuple[int, int], str]:
    """Summaries of a table by image and position of the query, for :func:`summary_corpus`."""
    of_row = [positions[0]] * table.num_rows
    if "query_position" in table.column_names:
        of_row = table["query_position"].to_pylist()
    elif len(positions) > 1:
        raise DataError(f"{where} has no column query_position, which {len(positions)} positions need")
    summaries: dict[tuple[int, int], str] = {}
    rows = zip(table["image_id"].to_pylist(), of_row, table["summary"].to_pylist(), strict=True)
    for place, (image_id, position, summary) in enumerate(rows):
        if not isinstance(summary, str) or not summary.strip():
            raise DataError(f"{where}, row {place}: the summary of image {image_id} is {summary!r}; give a text")
        if (image_id, position) in summaries:
            raise DataError(
                f"{where}, row {place}: a second summary of image {image_id} for the query at position {position}"
            )
        summaries[image_id, position] = summary
    return summaries


def take_rows(embeddings: Embeddings, ids: IntArray, where: object, side: str = "captions") -> NDArray[np.float32]:
    """(C, D) vectors of captions or images in the order of ``ids``; raises if one is missing or zero."""
    places, known = find_positions(ids, embeddings.ids)
    if not known.all():
        raise MissingIds(
            f"{where} lacks {(~known).sum()} of {ids.size} {side}, the first: {ids[~known][0]}. Encode all {side}, or "
            "give the collection and split of the file."
        )
    vectors = embeddings.vectors[places]
    refuse_zero_vectors(ids[~vectors.any(axis=1)], ids.size, side, str(where), by_dot=False)
    return vectors


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the queries at one position, or at all; the report's notes define the counts."""

    position: str
    queries: int
    left_out: int
    same_words: int
    ties: int
    metrics: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class QueryCorpusReport(ShownResult):
    """Query-corpus ranking of one model; ``rankings`` are for ``explain``."""

    collection: str
    corpus: str
    rows: tuple[Scores, ...]
    rankings: RankingsRun
    provenance: Provenance

    @property
    def scores(self) -> dict[str, float]:
        """Key, such as ``flickr8k/query_0/recall_at_1``, to value."""
        scores = {}
        for row in self.rows:
            for label, estimate in row.metrics.items():
                scores[f"{self.collection}/query_{row.position}/{label}"] = estimate.value
        return scores

    @property
    def title(self) -> str:
        """The collection and the model."""
        return f"{self.collection}: {self.provenance.model or 'a model'}"

    def record(self) -> dict[str, object]:
        """The content of ``query_corpus.json``."""
        rows = [asdict(row) for row in self.rows]
        return {"schema": 1, "scores": self.scores, "rows": rows, "provenance": to_json(self.provenance)}

    def tables(self) -> list[Table]:
        """One, with a row per metric and a column per position; a single column shows its intervals."""
        alone = len(self.rows) == 1
        lines: list[list[str | Cell]] = []
        for label, title in METRIC_TITLES.items():
            lines.append([title, *(_cell(label, row.metrics[label], alone) for row in self.rows)])
        for name in ("queries", "left_out", "same_words", "ties"):
            counts = [f"{getattr(row, name):,}" for row in self.rows]
            lines.append([name.replace("_", " "), *counts])
        data = describe_data(self.provenance.data, self.provenance.split, collections()[self.collection].title)
        header = [("",), *((f"query {row.position}",) for row in self.rows)]
        subtitle = f"images as {self.corpus}; percent, and ranks"
        return [Table(header, lines, self.title, subtitle, notes=list(self._notes(alone)), data=data)]

    def _notes(self, alone: bool) -> Iterator[str]:
        if alone:
            yield f"Brackets: {100 * CONFIDENCE:g}% intervals from a bootstrap over images."
        yield "fails: 1 - R@1."
        if any(row.left_out for row in self.rows):
            yield "left out: images without a caption at this position, or without another one."
        if any(row.same_words for row in self.rows):
            yield "same words: queries with the same words as another caption of their image."
        if any(row.ties for row in self.rows):
            yield "ties: queries in which another image ties with the right one, and counts as ranked above it."
        for name, file in self.provenance.data.modified.items():
            yield f"Modified data: {name} has sha256 {file.found}, expected {file.expected}."


def _cell(label: str, estimate: Estimate, with_interval: bool) -> Cell:
    is_rank = label == "median_rank"
    form = "{:g}" if is_rank else "{:.1f}"
    cell = interval_cell(estimate.value, estimate.low, estimate.high, form, scale=1 if is_rank else 100)
    return cell if with_interval else Cell(cell.text)


def evaluate_query_corpus(
    captions: pa.Table,
    vectors: NDArray[np.float32],
    library: Library,
    *,
    collection: str,
    query_position: int | str = 0,
    corpus: Corpus | None = None,
    corpus_name: str = "a summary of their other captions",
    normalize: bool = False,
    facts: Provenance | None = None,
) -> QueryCorpusReport:
    """Rank all images for a caption of each, and score the ranks of the captions' images.

    A query is compared by cosine with one vector per image, made of the image's other captions: by ``corpus``, which
    ``corpus_name`` names, or as the mean of their vectors. ``captions`` are those of :func:`collect_captions`, and
    ``vectors`` their (C, D) vectors. See Lymperaiou et al., COLING 2022, sections 3.2, 3.3 and 6.1. ``facts`` are those
    about the model.
    """
    owners = np.asarray(captions["image_id"], dtype=np.int64)
    ids = np.asarray(captions["caption_id"], dtype=np.int64)
    words = [" ".join(text.lower().split()) for text in captions["text"].to_pylist()]
    draws = Draws(SEED)
    scored = list[tuple[Pairing, PositiveRanks]]()
    tops = []
    if corpus is None:
        corpus = mean_corpus(vectors, normalize=normalize)
        corpus_name = "the mean of their other captions" + (", each of length 1" if normalize else "")
    for position in choose_positions(query_position, owners):
        pairing = pair_up(owners, position)
        items = corpus(pairing)
        queries = Embeddings(ids[pairing.queries], vectors[pairing.queries])
        judgments = Judgments.from_pairs(queries.ids, items.ids, queries.ids, pairing.image_ids)
        run = EmbeddingsRun(items, queries)
        reader = TopRows(judgments, DEPTH)
        ranks = ranked(run, Options("cosine")).rank_all({"": ("t2i", judgments)}, {"t2i": [reader]})[""]
        scored.append((pairing, ranks))
        tops.append(reader.result)
    groups = [(str(pairing.position), [(pairing, ranks)]) for pairing, ranks in scored]
    if query_position == ALL_SPLITS:
        groups.append((ALL_SPLITS, scored))
    rows = [_score(position, group, words, draws) for position, group in groups]
    facts = facts or Provenance()
    others = {"collection": collection, "query_position": query_position, "corpus": corpus_name, **facts.others}
    rankings = RankingsRun({"t2i": _join_tops(tops)}, facts.model, corpus_name)
    facts = replace(facts, confidence=CONFIDENCE, seed=SEED, others=others)
    provenance = make_provenance(library, facts.split, facts)
    return QueryCorpusReport(collection, corpus_name, tuple(rows), rankings, provenance)


def _score(position: str, group: Sequence[tuple[Pairing, PositiveRanks]], words: Sequence[str], draws: Draws) -> Scores:
    images = np.concatenate([pairing.image_ids for pairing, _ in group])
    metrics = {}
    scored = pd.concat([pd.DataFrame(score_ranks(ranks)) for _, ranks in group])
    for label in METRICS:
        values = scored[label].to_numpy()
        if label == "median_rank":
            medians = ClusterBootstrap(images, draws).medians(values)
            metrics[label] = Estimate(float(np.median(values)), *interval(medians, CONFIDENCE))
        else:
            metrics[label] = bootstrap_mean(values, images, draws, CONFIDENCE)
    first = metrics["recall_at_1"]
    metrics["fails"] = Estimate(1 - first.value, 1 - first.high, 1 - first.low)
    return Scores(
        position=position,
        queries=images.size,
        left_out=sum(pairing.left_out for pairing, _ in group),
        same_words=sum(_count_same_words(pairing, words) for pairing, _ in group),
        ties=sum(int(np.count_nonzero(ranks.ties)) for _, ranks in group),
        metrics=metrics,
    )


def _count_same_words(pairing: Pairing, words: Sequence[str]) -> int:
    """The number of queries with the same words as another caption of their image."""
    count = 0
    for query, others in zip(pairing.queries.tolist(), pairing.rows_of_others, strict=True):
        count += words[query] in {words[row] for row in others}
    return count


def _join_tops(tops: Sequence[TopK]) -> RankedLists:
    """The rankings of all positions, which may differ in depth."""
    depths = np.concatenate([np.full(top.query_ids.size, top.depth) for top in tops])
    items = np.concatenate([top.ids.ravel() for top in tops])
    scores = np.concatenate([cast("FloatArray", top.scores).ravel() for top in tops])  # runs of vectors have scores
    queries = np.concatenate([top.query_ids for top in tops])
    indptr = np.append(0, np.cumsum(depths))
    return RankedLists(query_ids=queries, indptr=indptr, items=narrow_ids(items), scores=scores, place="query-corpus")


def choose_positions(query_position: int | str, owners: IntArray) -> range:
    """The positions of queries: a single number from 0, or ``all``."""
    if query_position == ALL_SPLITS:
        return range(int(np.unique(owners, return_counts=True)[1].max()))
    if not str(query_position).isdecimal():
        raise InvalidOption(f"query position {query_position!r}: give a number from 0, or all")
    return range(int(query_position), int(query_position) + 1)
