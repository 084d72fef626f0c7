"""Appraise sets of labels: counts, precision and recall, bias and diversity of models, preferences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, SourceMissing, UnknownName
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.evaluation.request import check_split
from cxc_eccv.evaluation.score import images_behind
from cxc_eccv.judgments.evidence.source import Thresholds, gather, item_ids, list_sources
from cxc_eccv.judgments.merging import coco_links
from cxc_eccv.ranking import Options, Ranked, ranked
from cxc_eccv.ranking.readers import ReachedRows
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.statistics import ClusterBootstrap, Draws, Estimate, Intervals, bootstrap_mean
from cxc_eccv.studies.annotation.label_quality.appraisal_tables import Appraisal, SetCounts, SetQuality
from cxc_eccv.studies.annotation.label_quality.bias import (
    Biases,
    ProposedLabels,
    join_proposals,
    measure_biases,
)
from cxc_eccv.studies.annotation.label_quality.diversity import DEPTH, Likeness, compare_lists, correlate_scores
from cxc_eccv.studies.annotation.label_quality.preferences import Strength
from cxc_eccv.studies.annotation.label_quality.sets import (
    check_sets,
    count_positives,
    find_positives,
    find_verified,
    measure_labels,
)
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance, find_options

if TYPE_CHECKING:
    from cxc_eccv.studies.annotation.project import Project


DIRECTIONS = ("t2i", "i2t")
PLAUSIBLE = ("plausible_0",)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AppraisalRequest(Intervals):
    """What to appraise.

    Attributes:
        split: ``validation`` or ``test``.
        sets: sets of labels, each of one or more sources, which may include ``plausible_N``. None for each source
            alone, and for the union of the oldest two, three and so on.
        verified: sources whose verdicts count as people's; None for label files, or without them CxC's ratings and
            ECCV Caption's positives.
        queries: the source whose queries are counted and measured, or ``all``; None counts those of ECCV Caption, if
            there are any, and measures precision and recall of all.
        runs: name of each model to its run, for bias and diversity.
        project: the annotation project of labels in the library, which knows the models that proposed the pairs.
        similarity: similarity of embeddings.
        preferences: result of :func:`cxc_eccv.studies.annotation.label_quality.preferences.rate_preferences`.
    """

    split: str = "test"
    sets: Sequence[Sequence[str]] | None = None
    verified: Sequence[str] | None = None
    queries: str | None = None
    runs: Mapping[str, Run] = field(default_factory=dict)
    project: Project | None = None
    similarity: str | None = None
    preferences: Sequence[Strength] = ()

    def __post_init__(self) -> None:
        Intervals.__post_init__(self)
        check_split(self.split)

    def check_sources(self, library: Library) -> None:
        """Raise UnknownName for a source that the library does not have."""
        for names in self.sets or ():
            check_sets(names, library)
        for name in (*(self.verified or ()), *(() if self.queries in (None, "all") else (self.queries,))):
            if name not in list_sources(library):
                raise UnknownName("source of labels", str(name), list_sources(library))

    def join_rounds(self, library: Library) -> pa.Table | None:
        """All pairs that models proposed, both candidates and known ones; None without a project."""
        project = self.project
        if project is None:
            return None
        split = project.facts.split
        if split != self.split:
            raise DataError(f"{project.folder} is about the {split} split: give --split {split}")
        if project.name not in library.label_names:
            raise DataError(f"{project.folder} has no labels named {project.name}; make them with annotate merge")
        return pa.concat_tables(chain(*((each.candidates, each.known) for each in project.rounds)))


RECORDED = ("split", "seed", "confidence", "runs", "project", "preferences")
"""Fields of a request with an entry of their own in the record; the others are among its options."""


def appraise(library: Library, request: AppraisalRequest | None = None) -> Appraisal:
    """Measure the quality of sets of labels, and the bias of the models that proposed them.

    The library has the raw files, with the label files it was opened with.
    """
    request = request or AppraisalRequest()
    request.check_sources(library)
    split = library.split(request.split)
    study = _Study(split, request, request.join_rounds(library))
    sources = study.find_sources()
    files = [name for name in sources if name in library.label_names]
    sets = list(dict.fromkeys(map(tuple, request.sets or study.list_sets(sources))))
    queries = study.choose_queries(sources)
    verified = request.verified or files or [name for name in ("cxc", "eccv") if name in sources]
    counts = study.count(sets, queries)
    worth = study.compare(sets, verified, queries if request.queries else None)
    biases, likenesses = study.compare_models()
    if not request.preferences:
        study.reasons["preferences"] = "no file of choices was given"
    others = {
        "labels": {name: dict(file.facts) for name in files if (file := split.labels(name)) and file.facts},
        "models": {name: to_json(run.facts()) for name, run in request.runs.items()},
    }
    facts = Provenance(
        seed=request.seed, confidence=request.confidence, options=find_options(request, RECORDED), others=others
    )
    return Appraisal(
        split=split.name,
        queries=queries,
        counts=counts,
        worth=worth,
        bias=biases,
        diversity=likenesses,
        preferences=tuple(request.preferences),
        not_computed=study.reasons,
        provenance=make_provenance(library, split.name, facts),
    )


def _identify(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a run without file and model names."""
    return {
        key: _identify(value) if isinstance(value, Mapping) else value
        for key, value in facts.items()
        if key not in ("file", "model")
    }


@dataclass(frozen=True, slots=True)
class _Study:
    """The data and settings of an appraisal, and the reasons for missing parts."""

    split: Split
    request: AppraisalRequest
    proposals: pa.Table | None  # of the project
    reasons: dict[str, str] = field(default_factory=dict)

    def find_sources(self) -> list[str]:
        """The sources with labels of the split; a missing file becomes a reason."""
        names = []
        for name in list_sources(self.split.library):
            try:
                if gather(self.split, "t2i", name, Thresholds()) is not None:
                    names.append(name)
            except SourceMissing as error:
                self.reasons[name] = str(error)
        return names

    def list_sets(self, sources: Sequence[str]) -> list[tuple[str, ...]]:
        """Each source alone, plausible matches, and unions of the oldest sources."""
        sets: list[tuple[str, ...]] = [(name,) for name in sources]
        try:
            self.split.categories()
            sets.append(PLAUSIBLE)
        except SourceMissing:
            pass
        return sets + [tuple(sources[:size]) for size in range(2, len(sources) + 1)]

    def choose_queries(self, sources: Sequence[str]) -> str | None:
        """The source whose queries are counted; None for all."""
        queries = self.request.queries
        if queries in (None, "all"):
            return "eccv" if queries is None and "eccv" in sources else None
        if queries not in sources:
            raise InvalidOption(
                f"queries: {queries} has no labels of the {self.split.name} split; choose all or one of "
                f"{', '.join(sources)}"
            )
        return queries

    def count(self, sets: Sequence[Sequence[str]], queries: str | None) -> tuple[SetCounts, ...]:
        """The rows of Table 3, for every set with a positive."""
        rows = []
        for direction in DIRECTIONS:
            query_ids, _ = item_ids(self.split, direction)
            counted = self.are_counted(query_ids, queries, direction)
            original = find_positives(self.split, direction, ("coco",))
            links = 0 if original is None else int(original.sizes()[counted].sum())
            for names in sets:
                positives = find_positives(self.split, direction, names)
                sizes = np.zeros(query_ids.size, int) if positives is None else positives.sizes()
                some = counted & (sizes > 0)
                mean = self.estimate(query_ids[some], sizes[some].astype(np.float64), direction)
                if mean is not None:
                    counts = count_positives(sizes[counted])
                    rows.append(SetCounts(",".join(names), direction, counts, mean, counts.n_positives / links))
        if not rows:
            self.reasons["counts"] = f"no set of labels has a positive of these queries in the {self.split.name} split"
        return tuple(rows)

    def are_counted(self, query_ids: IntArray, queries: str | None, direction: str) -> NDArray[np.bool_]:
        """(Q,) whether these are queries of a source; all are without one."""
        if queries is None:
            return np.ones(query_ids.size, bool)
        judged = gather(self.split, direction, queries, Thresholds())
        return np.isin(query_ids, [] if judged is None else judged.searched)

    def compare(
        self, sets: Sequence[Sequence[str]], sources: Sequence[str], queries: str | None
    ) -> tuple[SetQuality, ...]:
        """The rows of Table 2, for every set and every source of verdicts that is not in it."""
        rows = []
        for name, direction in product(dict.fromkeys(sources), DIRECTIONS):
            verified = self.find_verified(name, direction)
            if verified is None:
                self.reasons[f"worth/{name}/{direction}"] = f"{name} judges no pair of the {self.split.name} split"
                continue
            verified = verified[self.are_counted(verified["query"].to_numpy(), queries, direction)]
            asked = bool(verified["asked"].any())
            for names in sets:
                positives = find_positives(self.split, direction, names)
                if positives is None or name in names:
                    continue
                labelled = positives.holds(verified["query"].to_numpy(), verified["item"].to_numpy())
                quality = measure_labels(verified["query"], labelled, verified["positive"], verified["asked"])
                rows.append(
                    SetQuality(
                        verified=name,
                        labels=",".join(names),
                        direction=direction,
                        precision=self.estimate(quality.precision_ids, quality.precision, direction),
                        recall=self.estimate(quality.recall_ids, quality.recall, direction),
                        n_precision=quality.precision.size,
                        n_recall=quality.recall.size,
                        n_unlabelled=quality.n_unlabelled,
                        n_unverified=quality.n_unverified,
                        asked=asked,
                        n_known=int((~verified["asked"]).sum()) if asked else 0,
                        queries=queries,
                    )
                )
        if not sources:
            self.reasons["worth"] = f"no source has negative verdicts for the {self.split.name} split"
        return tuple(rows)

    def estimate(self, ids: IntArray, values: FloatArray, direction: str) -> Estimate | None:
        """The mean over queries, with a bootstrap interval over their images; None without queries."""
        if not ids.size:
            return None
        images = images_behind(ids, self.split, direction)
        return bootstrap_mean(values, images, Draws(self.request.seed), self.request.confidence or 0.95)

    def bootstrap(self, ids: IntArray, direction: str) -> ClusterBootstrap:
        """The bootstrap over the images of queries."""
        return ClusterBootstrap(images_behind(ids, self.split, direction), Draws(self.request.seed))

    def find_verified(self, source: str, direction: str) -> pd.DataFrame | None:
        """The labels of a source, as people's judgments, with the known pairs of the project's proposals."""
        project = self.request.project
        proposals = self.proposals if project is not None and source == project.name else None
        return find_verified(self.split, direction, source, proposals)

    def compare_models(self) -> tuple[tuple[Biases, ...], tuple[Likeness, ...]]:
        """Bias of the annotators, and the rows of Table A.1."""
        biases: list[Biases] = []
        likenesses: list[Likeness] = []
        runs = self.request.runs
        options = Options(self.request.similarity)
        if len(runs) < 2:
            self.reasons["diversity"] = "it needs the files of at least two models"
        for direction in DIRECTIONS:
            able = {name: ranked(run, options) for name, run in runs.items() if run.why_not(direction) is None}
            for name in [name for name in runs if name not in able]:
                self.reasons[f"{name}/{direction}"] = str(runs[name].why_not(direction))
            if len(able) > 1:
                likenesses += self._compare_orders(able, direction)
            labels = self._find_labels({name: runs[name] for name in able}, direction)
            if labels is not None:
                depth = int(labels.judgments.n_positives.max())
                reached = {}
                for name, model in able.items():
                    reader = ReachedRows(labels.judgments, depth)
                    model.rank_all({}, {direction: [reader]})
                    reached[name] = reader.result
                bootstrap = self.bootstrap(labels.judgments.query_ids, direction)
                biases += measure_biases(reached, labels, bootstrap, self.request.confidence or 0.95)
        return tuple(biases), tuple(likenesses)

    def _compare_orders(self, models: Mapping[str, Ranked], direction: str) -> list[Likeness]:
        """The rows of Table A.1 of one direction; models that rank only a part of the gallery have no tau-b."""
        links = coco_links(self.split, direction)
        tops = {name: model.find_top(links, direction, DEPTH) for name, model in models.items()}
        correlations = correlate_scores(models, links.query_ids, links.gallery_ids, direction)
        for name, reason in correlations.not_computed.items():
            self.reasons[f"tau-b/{name}/{direction}"] = reason
        for (one, other), values in correlations.values.items():
            if np.isnan(values).all():
                reason = "one of them gives one score to all items of every query"
                self.reasons[f"tau-b/{one}/{other}/{direction}"] = reason
        return compare_lists(tops, correlations, direction, self.estimate)

    def _find_labels(self, runs: Mapping[str, Run], direction: str) -> ProposedLabels | None:
        """The labels of a project with their proposers; None, with a reason, if bias cannot be measured."""
        project = self.request.project
        proposals = self.proposals
        if project is None or proposals is None:
            self.reasons["bias"] = "no annotation project was given, which knows the models that proposed the pairs"
            return None
        verified = self.find_verified(project.name, direction)
        if verified is None:
            raise DataError(f"{project.folder} has no labels of the {self.split.name} split; merge its answers again")
        try:
            labels = join_proposals(verified, proposals, item_ids(self.split, direction)[1], direction)
            _refuse_other_models(labels.annotators, project, runs, self.request.similarity)
        except DataError as error:
            self.reasons[f"bias/{direction}"] = str(error)
            return None
        return labels


def _refuse_other_models(
    annotators: Sequence[str], project: Project, runs: Mapping[str, Run], similarity: str | None
) -> None:
    """Raise DataError unless the runs are those of two or more annotators of a project."""
    absent = [name for name in annotators if name not in runs]
    if absent:
        named = ", ".join(annotators)
        raise DataError(f"{named} proposed the pairs: give the files of all of them; missing: {', '.join(absent)}")
    if len(annotators) < 2:
        raise DataError(f"only {annotators[0]} proposed pairs, so there is no other set of annotators")
    for round_, name in product(project.rounds, annotators):
        proposer = round_.facts.models.get(name)
        pairs = f"proposed the pairs of round {round_.number}"
        if proposer and _identify(proposer["run"]) != _identify(to_json(runs[name].facts())):
            raise DataError(f"the file of {name} differs from the one that {pairs}: give that file")
        if proposer and proposer["similarity"] != ranked(runs[name], Options(similarity)).scoring["similarity"]:
            raise DataError(f"{name} {pairs} by the similarity {proposer['similarity']}: give that similarity, or none")
