"""What labels are worth, all of it at once: counts, precision and recall, bias and diversity of models, preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption, SourceMissing, UnknownName
from cxc_eccv.evaluation.report import choose_similarity, provenance_of
from cxc_eccv.evaluation.score import images_behind
from cxc_eccv.evaluation.settings import Settings, check_split
from cxc_eccv.judgments.evidence import Thresholds, gather, item_ids, sources_of
from cxc_eccv.judgments.qrels import coco_links
from cxc_eccv.ranking import ranks_of_run
from cxc_eccv.ranking.readers import TopRows
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.studies.annotation.worth.bias import (
    Bias,
    Gain,
    ProposedLabels,
    bias_by_size,
    join_proposals,
    measure_bias,
    measure_gains,
    score_sets,
)
from cxc_eccv.studies.annotation.worth.diversity import correlate_tops, place_first
from cxc_eccv.studies.annotation.worth.labels import Multiplicity, count_positives, measure_labels
from cxc_eccv.studies.annotation.worth.preferences import Strength
from cxc_eccv.studies.annotation.worth.sets import Positives, Verified, check_sets, find_positives, find_verified
from cxc_eccv.types import FloatArray, IntArray, TopK

if TYPE_CHECKING:
    from cxc_eccv.studies.annotation.project import Project

__all__ = ["DEPTH", "Appraisal", "BiasOfSet", "Biases", "Estimate", "Likeness", "SetCounts", "SetWorth", "appraise"]

DIRECTIONS = ("t2i", "i2t")
"""As the paper has them: captions look for images first."""

PLAUSIBLE = ("plausible_0",)

DEPTH = 25
"""Items of a list that are compared, as in Table A.1."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SetWorth:
    """A row of Table 2: a set of labels beside verified pairs.

    Attributes:
        verified: whose verdicts count.
        labels: the set.
        direction: ``i2t`` or ``t2i``.
        precision, recall: as of ``measure_labels``; None where no query has one.
        n_precision, n_recall: queries that they are means of.
        n_unlabelled, n_unverified: queries left out of both, and of recall alone.
        asked: whether it is known what people were asked about, without which there is no precision.
        n_known: verified pairs that nobody was asked about, as they were known to match.
    """

    verified: str
    labels: str
    direction: str
    precision: Estimate | None
    recall: Estimate | None
    n_precision: int
    n_recall: int
    n_unlabelled: int
    n_unverified: int
    asked: bool
    n_known: int


@dataclass(frozen=True, slots=True)
class SetCounts:
    """A row of Table 3: the positives that a set of labels has.

    Attributes:
        labels: the set.
        direction: ``i2t`` counts positive captions, ``t2i`` positive images.
        counts: over the queries that count.
        mean: R of those with a positive.
        times_original: positives for each one among COCO's links.
    """

    labels: str
    direction: str
    counts: Multiplicity
    mean: Estimate
    times_original: float


@dataclass(frozen=True, slots=True)
class BiasOfSet:
    """Scores of all models on the labels of a set of annotators, and how far these are from those on all labels.

    Attributes:
        annotators: the set.
        n_without: queries for which it verified nothing.
        scores: of every model.
        bias: over all models, over the annotators themselves and over the others; None where nobody is left.
    """

    annotators: tuple[str, ...]
    n_without: int
    scores: Mapping[str, Estimate]
    bias: Mapping[str, Estimate | None]


@dataclass(frozen=True, slots=True)
class Biases:
    """Annotator bias in one direction, by one metric.

    Attributes:
        direction: of the queries.
        metric: ``recall_at_1`` or ``r_precision``, graded.
        n_queries: with a positive in the labels of all annotators.
        n_positives: these labels.
        n_unproposed, n_unanswered: as of :class:`cxc_eccv.studies.annotation.worth.bias.ProposedLabels`.
        sets: every set of annotators, smaller ones first.
        by_size: number of annotators to the mean bias of sets of so many.
        gains: annotator to what its joining does to its own score, and to those of others.
    """

    direction: str
    metric: str
    n_queries: int
    n_positives: int
    n_unproposed: int
    n_unanswered: int
    sets: tuple[BiasOfSet, ...]
    by_size: Mapping[int, Mapping[str, Estimate | None]]
    gains: Mapping[str, Mapping[str, Estimate | None]]


@dataclass(frozen=True, slots=True)
class Likeness:
    """A cell of both parts of Table A.1: how one model ranks what another has at its top.

    Attributes:
        direction: of the queries.
        one, other: the models.
        correlation: Kendall's tau-b of the items that both have among their first, over the queries with two of them.
        n_correlated: so many.
        place: mean rank that the other gives to what the one has first, over the queries where it is among its first.
        n_placed: so many.
        n_queries: all.
    """

    direction: str
    one: str
    other: str
    correlation: Estimate | None
    n_correlated: int
    place: Estimate | None
    n_placed: int
    n_queries: int


@dataclass(frozen=True, slots=True)
class Appraisal:
    """All that was found.

    Attributes:
        split: of the labels.
        queries: the source whose queries were counted, or None for all.
        counts: positives of every set.
        worth: precision and recall of every set beside every verified source.
        bias: of annotators, by direction and metric.
        diversity: of models, every ordered pair.
        preferences: between systems, the strongest first.
        not_computed: what is lacking, to the reason.
        provenance: data, labels, models and settings.
    """

    split: str
    queries: str | None
    counts: tuple[SetCounts, ...]
    worth: tuple[SetWorth, ...]
    bias: tuple[Biases, ...]
    diversity: tuple[Likeness, ...]
    preferences: tuple[Strength, ...]
    not_computed: Mapping[str, str]
    provenance: Mapping[str, Any]


def appraise(
    library: Library,
    split: str = "test",
    *,
    sets: Sequence[Sequence[str]] | None = None,
    verified: Sequence[str] | None = None,
    queries: str | None = None,
    runs: Mapping[str, Run] | None = None,
    project: Project | None = None,
    similarity: str | None = None,
    preferences: Sequence[Strength] = (),
    seed: int = 0,
    confidence: float = 0.95,
) -> Appraisal:
    """What sets of labels are worth, and what the models that proposed them made of them.

    Args:
        library: the raw files, with label files of one's own where it was opened with some.
        split: ``validation`` or ``test``.
        sets: of labels, each of one source or several, ``plausible_0`` among them or another number of categories.
            None for each source alone and what they say together, in the order of their age.
        verified: sources whose verdicts count as people's; None for label files, and without one for CxC's ratings and
            ECCV Caption's positives.
        queries: the source whose queries are counted, or ``all``; None for ECCV Caption's where it has any, else all.
        runs: name of each model to its run, for bias and diversity.
        project: an annotation project whose labels the library was opened with; says who proposed what.
        similarity: of embeddings.
        preferences: what :func:`cxc_eccv.studies.annotation.worth.preferences.rate_preferences` made of choices.
        seed: of the bootstrap over images behind every interval.
        confidence: of the intervals.

    Raises:
        UnknownName: no such source, split or model.
        InvalidOption: a set or its queries are of a source that has no labels of the split, or names one twice.
        DataError: a run lacks items of the split, or the project is another than that of the labels.
    """
    check_split(split)
    Settings(seed=seed, confidence=confidence)  # refuses what is none
    _check_names(library, sets or (), [*(verified or ()), *([] if queries in (None, "all") else [queries])])
    if project is not None:
        _check_project(project, library, split)
    own, reasons = _Bench(library, split, Draws(seed), confidence), dict[str, str]()
    there = own.find_sources(reasons)
    files = [name for name in there if name in library.label_names]
    shown = list(dict.fromkeys(map(tuple, sets or own.all_sets(there))))
    counted = own.choose_queries(queries, there)
    truth = verified or files or [name for name in ("cxc", "eccv") if name in there]
    proposals = None if project is None else _join_rounds(project)
    judged_by = {name: proposals if project is not None and name == project.name else None for name in truth}
    counts = own.count(shown, counted, reasons)
    worth = own.compare(shown, judged_by, reasons)
    biases, likenesses = own.look_at_models(runs or {}, project, proposals, similarity, reasons)
    if not preferences:
        reasons["preferences"] = "no file of choices was named"
    facts = provenance_of(
        library,
        split=split,
        seed=seed,
        confidence=confidence,
        labels={name: dict(found.facts) for name in files if (found := library.labels(name, split)) is not None},
        models={name: run.facts() for name, run in (runs or {}).items()},
    )
    return Appraisal(split, counted, counts, worth, biases, likenesses, tuple(preferences), reasons, facts)


def _check_names(library: Library, sets: Sequence[Sequence[str]], sources: Sequence[str | None]) -> None:
    for names in sets:
        check_sets(names, library)
    for name in sources:
        if name not in sources_of(library):
            raise UnknownName("source of labels", str(name), sources_of(library))


def _check_project(project: Project, library: Library, split: str) -> None:
    if project.split != split:
        raise DataError(f"{project.folder} is about the {project.split} split: ask for that one (--split)")
    if project.name not in library.label_names:
        raise DataError(f"{project.folder} has no labels named {project.name}; merge its answers first: annotate merge")


def _identify(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What a run says of itself, without its names."""
    return {
        key: _identify(value) if isinstance(value, Mapping) else value
        for key, value in facts.items()
        if key not in ("file", "model")
    }


def _find_similarity(run: Run, similarity: str | None) -> str | None:
    """By which the vectors of a run are compared; None where it has none."""
    return choose_similarity(run, similarity=similarity)["similarity"]


def _join_rounds(project: Project) -> pa.Table:
    """All that models proposed, asked about or known."""
    return pa.concat_tables([table for own in project.rounds for table in (own.candidates, own.known)])


@dataclass(frozen=True, slots=True)
class _Bench:
    """What every part of an appraisal is made with."""

    library: Library
    split: str
    draws: Draws
    confidence: float

    def find_sources(self, reasons: dict[str, str]) -> list[str]:
        """The sources that say something of pairs of the split; a file that is missing is a reason."""
        found = []
        for name in sources_of(self.library):
            try:
                if gather(self.library, self.split, "t2i", name, Thresholds()) is not None:
                    found.append(name)
            except SourceMissing as error:
                reasons[name] = str(error)
        return found

    def all_sets(self, there: Sequence[str]) -> list[tuple[str, ...]]:
        """Each source alone, plausible matches, and what the sources say together, from the oldest on."""
        together = [tuple(there[:size]) for size in range(2, len(there) + 1)]
        return [*((name,) for name in there), *([PLAUSIBLE] if self._has_categories() else []), *together]

    def _has_categories(self) -> bool:
        try:
            self.library.categories(self.split)
        except SourceMissing:
            return False
        return True

    def choose_queries(self, queries: str | None, there: Sequence[str]) -> str | None:
        """The source whose queries are counted; None for all."""
        if queries in (None, "all"):
            return "eccv" if queries is None and "eccv" in there else None
        if queries not in there:
            raise InvalidOption(
                f"queries of {queries}: it has no labels of the {self.split} split; choose all or one of "
                f"{', '.join(there)}"
            )
        return queries

    def count(
        self, sets: Sequence[Sequence[str]], queries: str | None, reasons: dict[str, str]
    ) -> tuple[SetCounts, ...]:
        """Rows of Table 3, of every set that has a positive."""
        rows = []
        for direction in DIRECTIONS:
            query_ids, _ = item_ids(self.library, self.split, direction)
            counted = np.ones(query_ids.size, bool)
            if queries is not None:
                known = gather(self.library, self.split, direction, queries, Thresholds())
                counted = np.isin(query_ids, [] if known is None else known.queries)
            original = find_positives(self.library, self.split, direction, ("coco",))
            links = 0 if original is None else int(original.sizes()[counted].sum())
            for names in sets:
                found = find_positives(self.library, self.split, direction, names)
                sizes = np.zeros(query_ids.size, int) if found is None else found.sizes()
                asked = counted & (sizes > 0)
                mean = self.estimate(query_ids[asked], sizes[asked].astype(np.float64), direction)
                if mean is not None:
                    counts = count_positives(sizes[counted])
                    rows.append(SetCounts(",".join(names), direction, counts, mean, counts.n_positives / links))
        if not rows:
            reasons["counts"] = f"no set of labels has a positive of these queries in the {self.split} split"
        return tuple(rows)

    def compare(
        self, sets: Sequence[Sequence[str]], judged_by: Mapping[str, pa.Table | None], reasons: dict[str, str]
    ) -> tuple[SetWorth, ...]:
        """Rows of Table 2, of every set beside every source of verdicts that is not in it."""
        rows = []
        for name, proposals in judged_by.items():
            for direction in DIRECTIONS:
                verified = find_verified(self.library, self.split, direction, name, proposals)
                if verified is None:
                    reasons[f"worth/{name}/{direction}"] = f"{name} judges no pair of the {self.split} split"
                    continue
                for names in sets:
                    found = find_positives(self.library, self.split, direction, names)
                    if found is not None and name not in names:
                        rows.append(self._compare(found, verified, ",".join(names), direction))
        if not judged_by:
            reasons["worth"] = f"no source says which pairs of the {self.split} split people turned down"
        return tuple(rows)

    def _compare(self, found: Positives, verified: Verified, labels: str, direction: str) -> SetWorth:
        labelled = found.holds(verified.queries, verified.items)
        own = measure_labels(verified.queries, labelled, verified.positive, verified.asked)
        return SetWorth(
            verified.name,
            labels,
            direction,
            self.estimate(own.precision_ids, own.precision, direction),
            self.estimate(own.recall_ids, own.recall, direction),
            own.precision.size,
            own.recall.size,
            own.n_unlabelled,
            own.n_unverified,
            bool(verified.asked.any()),
            int((~verified.asked).sum()) if verified.asked.any() else 0,
        )

    def estimate(self, ids: IntArray, values: FloatArray, direction: str) -> Estimate | None:
        """The mean of queries, with the interval of a bootstrap over the images behind them; None of no query."""
        if not ids.size:
            return None
        samples = self.bootstrap(ids, direction).means(values[:, None])[0]
        return Estimate(float(values.mean()), *interval(samples, self.confidence))

    def bootstrap(self, ids: IntArray, direction: str) -> ClusterBootstrap:
        """Draws the images behind queries."""
        return ClusterBootstrap(images_behind(ids, self.library, self.split, direction), self.draws)

    def look_at_models(
        self,
        runs: Mapping[str, Run],
        project: Project | None,
        proposals: pa.Table | None,
        similarity: str | None,
        reasons: dict[str, str],
    ) -> tuple[tuple[Biases, ...], tuple[Likeness, ...]]:
        """Bias of the annotators, and the rows of Table A.1, from one pass over each model's scores and direction."""
        biases: list[Biases] = []
        likenesses: list[Likeness] = []
        if len(runs) < 2:
            reasons["diversity"] = "name the files of two models or more"
        for direction in DIRECTIONS:
            able = {name: run for name, run in runs.items() if run.why_not(direction) is None}
            for name in runs:
                if name not in able:
                    reasons[f"{name}/{direction}"] = str(runs[name].why_not(direction))
            labels = self._find_labels(able, project, proposals, direction, similarity, reasons)
            links = coco_links(self.library, self.split, direction)
            near, deep = {}, {}
            for name, run in able.items():
                readers = [TopRows(links, DEPTH)] if len(able) > 1 else []
                if labels is not None:
                    readers.append(TopRows(labels.judgments, int(labels.judgments.n_positives.max())))
                if readers:
                    options: dict[str, Any] = {} if similarity is None else {"similarity": similarity}
                    ranks_of_run(run, {}, readers={direction: readers}, **options)
                    near[name], deep[name] = readers[0].result, readers[-1].result
            if len(able) > 1:
                likenesses += self._compare_lists(near, direction)
            if labels is not None:
                biases += self._measure_biases(deep, labels, direction)
        return tuple(biases), tuple(likenesses)

    def _find_labels(
        self,
        runs: Mapping[str, Run],
        project: Project | None,
        proposals: pa.Table | None,
        direction: str,
        similarity: str | None,
        reasons: dict[str, str],
    ) -> ProposedLabels | None:
        """The labels of a project with their proposers; None where bias cannot be measured, and the reason."""
        key = f"bias/{direction}"
        if project is None or proposals is None:
            reasons["bias"] = "no annotation project was named, which says whose proposals people verified"
            return None
        verified = find_verified(self.library, self.split, direction, project.name, proposals)
        if verified is None:
            raise DataError(f"{project.folder} has no labels of the {self.split} split; merge its answers anew")
        try:
            labels = join_proposals(verified, proposals, item_ids(self.library, self.split, direction)[1], direction)
        except DataError as error:
            reasons[key] = str(error)
            return None
        absent = [name for name in labels.annotators if name not in runs]
        if absent or len(labels.annotators) < 2:
            reasons[key] = (
                f"{', '.join(labels.annotators)} proposed the pairs: name the files of all of them; lacking: "
                f"{', '.join(absent)}"
                if absent
                else f"{labels.annotators[0]} alone proposed the pairs, so that there is no other set of annotators"
            )
            return None
        for own in project.rounds:
            for name, told in own.facts["proposal"]["models"].items():
                if name in labels.annotators and _identify(told["run"]) != _identify(runs[name].facts()):
                    reasons[key] = (
                        f"the {name} that proposed the pairs of round {own.number} is another than the file of this "
                        "name: name the file that proposed them"
                    )
                    return None
                if name in labels.annotators and told["similarity"] != _find_similarity(runs[name], similarity):
                    reasons[key] = (
                        f"{name} proposed the pairs of round {own.number} by the similarity {told['similarity']}: name "
                        "that one, or none"
                    )
                    return None
        return labels

    def _measure_biases(self, tops: Mapping[str, TopK], labels: ProposedLabels, direction: str) -> list[Biases]:
        """The bias by each metric, from the values of every query, model and set of annotators."""
        scores = [score_sets(top, labels) for top in tops.values()]
        bootstrap, found = self.bootstrap(labels.judgments.query_ids, direction), []
        for metric in scores[0]:
            values = np.stack([own[metric] for own in scores])
            points = values.mean(axis=2)
            samples = bootstrap.means(values.reshape(-1, values.shape[2]).T).reshape(*points.shape, -1)
            found.append(self._measure_bias(_SetScores(tuple(tops), labels, points, samples), direction, metric))
        return found

    def _measure_bias(self, scores: _SetScores, direction: str, metric: str) -> Biases:
        labels, annotators = scores.labels, scores.labels.annotators
        everybody, numbers = frozenset(annotators), range(1, 2 ** len(annotators))
        without, sets = (labels.sizes == 0).sum(axis=1), []
        for number in sorted(numbers, key=lambda own: (own.bit_count(), own)):
            own = labels.members(number)
            point, drawn = scores.of(own), scores.drawn(own)
            bias = self._join_parts(
                measure_bias(point, scores.of(everybody), own), measure_bias(drawn, scores.drawn(everybody), own)
            )
            sets.append(
                BiasOfSet(
                    tuple(name for name in annotators if name in own),
                    int(without[number - 1]),
                    {name: self._join(point[name], drawn[name]) for name in scores.models},
                    bias,
                )
            )
        sizes, drawn_sizes = bias_by_size(annotators, scores.of), bias_by_size(annotators, scores.drawn)
        gains, drawn_gains = measure_gains(annotators, scores.of), measure_gains(annotators, scores.drawn)
        return Biases(
            direction,
            metric,
            labels.judgments.query_ids.size,
            labels.proposers.size,
            labels.n_unproposed,
            labels.n_unanswered,
            tuple(sets),
            {size: self._join_parts(bias, drawn_sizes[size]) for size, bias in sizes.items()},
            {name: self._join_parts(gain, drawn_gains[name]) for name, gain in gains.items()},
        )

    def _join_parts(self, point: Bias | Gain, samples: Bias | Gain) -> dict[str, Estimate | None]:
        return {
            part: None if (value := getattr(point, part)) is None else self._join(value, getattr(samples, part))
            for part in type(point).__slots__
        }

    def _join(self, value: float, samples: FloatArray) -> Estimate:
        return Estimate(float(value), *interval(samples, self.confidence))

    def _compare_lists(self, tops: Mapping[str, TopK], direction: str) -> list[Likeness]:
        rows = []
        correlations: dict[frozenset[str], FloatArray] = {}
        for one, other in permutations(tops, 2):
            pair = frozenset((one, other))
            if pair not in correlations:
                correlations[pair] = correlate_tops(tops[one], tops[other])
            correlation, place = correlations[pair], place_first(tops[one], tops[other])
            ids, (both, placed) = tops[one].query_ids, (~np.isnan(correlation), ~np.isnan(place))
            rows.append(
                Likeness(
                    direction,
                    one,
                    other,
                    self.estimate(ids[both], correlation[both], direction),
                    int(both.sum()),
                    self.estimate(ids[placed], place[placed], direction),
                    int(placed.sum()),
                    ids.size,
                )
            )
        return rows


@dataclass(frozen=True, slots=True)
class _SetScores:
    """(M, T) mean scores of models on the labels of the sets of bits 1 to T, and (M, T, S) samples of them."""

    models: tuple[str, ...]
    labels: ProposedLabels
    points: FloatArray
    samples: FloatArray

    def of(self, own: frozenset[str]) -> dict[str, float]:
        """Model to its score on the labels of a set."""
        return dict(zip(self.models, self.points[:, self._place(own)].tolist(), strict=True))

    def drawn(self, own: frozenset[str]) -> dict[str, FloatArray]:
        """Model to the samples of that."""
        return dict(zip(self.models, self.samples[:, self._place(own)], strict=True))

    def _place(self, own: frozenset[str]) -> int:
        return sum(1 << self.labels.annotators.index(name) for name in own) - 1
