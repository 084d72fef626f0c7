"""The mean of Entail@K over COCO and Flickr30k, as printed by the multi-modal entailment paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cxc_eccv.comparison import ScoredReport
from cxc_eccv.comparison.pairing import judge_of
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.registry import task
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.studies.entailment.entail_at_k.asked import TASKS
from cxc_eccv.tables import Cell, Table
from cxc_eccv.types import FloatArray, Result
from cxc_eccv.wording import metric_name, score_cell

MEAN = "entailment_mean"


@dataclass(frozen=True, slots=True, eq=False)
class MeanScores:
    """Entail@K of one model on COCO, on Flickr30k, and the mean of the two (task ``entailment_mean``)."""

    name: str
    results: tuple[Result, ...]
    provenance: Mapping[str, Any]

    @property
    def table(self) -> Table:
        """A row for each collection and one for the mean, a column for each K."""
        metrics = list(dict.fromkeys(row.metric for row in self.results))
        by_key = {(row.task, row.metric): row for row in self.results}
        titles = (*(task(name).collection.name for name in TASKS), "mean")
        rows: list[list[str | Cell]] = [
            [title, *(score_cell(by_key[name, metric]) for metric in metrics)]
            for title, name in zip(titles, (*TASKS, MEAN), strict=True)
        ]
        header = [("",), *((metric_name(metric),) for metric in metrics)]
        policy = self.results[0].parameters.get("unjudged", "")
        notes = [f"percent; pairs without a label: {str(policy).replace('_', ' ')}"] if policy else []
        return Table(header, rows, self.name, notes=notes)

    def records(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "results": [{"key": row.key, **asdict(row)} for row in self.results],
            "provenance": dict(self.provenance),
        }


def mean_entailment(
    reports: Sequence[ScoredReport], *, name: str | None = None, seed: int = 0, confidence: float | None = 0.95
) -> MeanScores:
    """The mean of Entail@K over COCO and Flickr30k, for every K that both reports have; each collection counts half."""
    settings = Settings(seed, confidence)
    by_task = _sort(reports)
    coco, flickr = (by_task[name] for name in TASKS)
    rows = [{row.metric: row for row in by_task[name].report.results if row.task == name} for name in TASKS]
    both = [metric for metric in rows[0] if metric in rows[1]]
    if not both:
        raise InvalidOption(
            f"{coco.name} and {flickr.name} have no Entail@K in common; evaluate both at the same depths"
        )
    _check(coco, flickr, [(rows[0][metric], rows[1][metric]) for metric in both])
    means = [_mean(by_task, rows[0][metric], rows[1][metric], settings) for metric in both]
    facts = {"split": coco.report.provenance.get("split"), **settings.facts}
    facts |= {"reports": {name: by_task[name].report.name for name in TASKS}, "unjudged": judge_of(coco.report)}
    scored = [row for part in rows for metric, row in part.items() if metric in both]
    return MeanScores(name or coco.name, (*scored, *means), facts)


def _sort(reports: Sequence[ScoredReport]) -> dict[str, ScoredReport]:
    by_task: dict[str, ScoredReport] = {}
    for scored in reports:
        has = {row.task for row in scored.report.results}
        new = [name for name in TASKS if name in has and name not in by_task]
        if not new:
            raise InvalidOption(
                f"{scored.name} has {', '.join(sorted(has)) or 'no result'}: give one report with the task "
                f"{TASKS[0]} (COCO) and one with {TASKS[1]} (Flickr30k), both of the same model"
            )
        by_task[new[0]] = scored
    lacking = [name for name in TASKS if name not in by_task]
    if lacking:
        raise InvalidOption(f"no report has the task {lacking[0]}; give one report on COCO and one on Flickr30k")
    return by_task


def _check(coco: ScoredReport, flickr: ScoredReport, rows: Sequence[tuple[Result, Result]]) -> None:
    first, second = coco.report, flickr.report
    facts: list[tuple[str, object, object]] = [
        ("split", first.provenance.get("split"), second.provenance.get("split")),
        ("part of the split", first.restriction or "all of it", second.restriction or "all of it"),
        ("judge of pairs without a label", judge_of(first), judge_of(second)),
    ]
    policies = ((first.parameters.get("unjudged"), second.parameters.get("unjudged")) for first, second in rows)
    facts += [("policy for pairs without a label", *pair) for pair in policies]
    for what, of_coco, of_flickr in facts:
        if of_coco != of_flickr:
            raise InvalidOption(
                f"{coco.name} and {flickr.name} have no mean: the {what} is {of_coco} for one and {of_flickr} for the "
                "other. Evaluate both with the same options."
            )


def _mean(by_task: Mapping[str, ScoredReport], coco: Result, flickr: Result, settings: Settings) -> Result:
    low = high = None
    if settings.level is not None:
        drawn = [_samples(by_task[row.task], row, settings.seed + place) for place, row in enumerate((coco, flickr))]
        low, high = interval((drawn[0] + drawn[1]) / 2, settings.level)
    return Result(
        MEAN,
        "i2t",
        coco.metric,
        (coco.value + flickr.value) / 2,
        coco.n_queries + flickr.n_queries,
        low=low,
        high=high,
        parameters={name: value for name, value in coco.parameters.items() if name in ("k", "unjudged")},
    )


def _samples(scored: ScoredReport, row: Result, seed: int) -> FloatArray:
    values = scored.per_query[row.key]
    means: FloatArray = ClusterBootstrap(values.query_ids, Draws(seed)).means(values.values[:, None])[0]
    return means
