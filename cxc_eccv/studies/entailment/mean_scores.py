"""The mean of Entail@K over COCO and Flickr30k, each counting half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from cxc_eccv.comparison import ScoredReport
from cxc_eccv.comparison.pairing import judge_of
from cxc_eccv.errors import InvalidOption
from cxc_eccv.presentation import ShownResult
from cxc_eccv.registry import task
from cxc_eccv.statistics import ClusterBootstrap, Draws, Intervals, interval
from cxc_eccv.tables import Cell, Table
from cxc_eccv.types import FloatArray, IntArray, Result
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.strict_json import JsonObject
from cxc_eccv.wording import judge_caution, metric_name, score_cell

TASKS = ("entailment", "flickr30k_entailment")
"""The tasks of COCO and of Flickr30k."""

SEED = 0
CONFIDENCE = 0.95
"""Of the bootstrap over images."""

MEAN = "entailment_mean"


@dataclass(frozen=True, slots=True, eq=False)
class MeanScores(ShownResult):
    """Entail@K of one model on COCO, on Flickr30k, and the mean of the two (task ``entailment_mean``)."""

    name: str
    results: tuple[Result, ...]
    provenance: Provenance

    @property
    def title(self) -> str:
        """The name of the model."""
        return self.name

    def tables(self) -> list[Table]:
        """A row for each collection and one for the mean, a column for each K."""
        metrics = list(dict.fromkeys(row.metric for row in self.results))
        by_key = {(row.task, row.metric): row for row in self.results}
        titles = (*(task(name).collection.title for name in TASKS), "mean")
        rows: list[list[str | Cell]] = []
        for title, name in zip(titles, (*TASKS, MEAN), strict=True):
            rows.append([title, *(score_cell(by_key[name, metric]) for metric in metrics)])
        header = [("",), *((metric_name(metric),) for metric in metrics)]
        policy = self.results[0].parameters.get("unjudged", "")
        notes = [f"percent; pairs without a label: {str(policy).replace('_', ' ')}"] if policy else []
        caution = judge_caution(self.results, self.provenance.split)
        return [Table(header, rows, self.name, notes=notes, cautions=[caution] if caution else [])]

    def record(self) -> JsonObject:
        """The name, the results and the provenance."""
        return {
            "name": self.name,
            "results": [{"key": row.key, **asdict(row)} for row in self.results],
            "provenance": to_json(self.provenance),
        }


def mean_entailment(reports: Sequence[ScoredReport], *, name: str | None = None) -> MeanScores:
    """The mean of Entail@K over COCO and Flickr30k, for every K that both reports have; each collection counts half."""
    by_task = _sort(reports)
    coco, flickr = (by_task[name] for name in TASKS)
    of_coco = {row.metric: row for row in coco.report.results if row.task == TASKS[0]}
    of_flickr = {row.metric: row for row in flickr.report.results if row.task == TASKS[1]}
    pairs = [(row, of_flickr[metric]) for metric, row in of_coco.items() if metric in of_flickr]
    if not pairs:
        raise InvalidOption(
            f"{coco.name} and {flickr.name} have no Entail@K in common; evaluate both at the same depths"
        )
    _check(coco, flickr, pairs)
    means = [_mean(by_task, *pair) for pair in pairs]
    others = {"reports": {name: by_task[name].report.name for name in TASKS}, "unjudged": judge_of(coco.report)}
    intervals = Intervals(confidence=CONFIDENCE, seed=SEED)
    facts = intervals.record(Provenance(split=coco.report.provenance.split, others=others))
    scored = [row for row in of_coco.values() if row.metric in of_flickr]
    scored += [row for row in of_flickr.values() if row.metric in of_coco]
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
    first = coco.report
    second = flickr.report
    facts: list[tuple[str, object, object]] = [
        ("split", first.provenance.split, second.provenance.split),
        ("scored data", first.restriction or "the whole split", second.restriction or "the whole split"),
        ("judge of pairs without a label", judge_of(first), judge_of(second)),
    ]
    policies = ((first.parameters.get("unjudged"), second.parameters.get("unjudged")) for first, second in rows)
    facts += [("policy for pairs without a label", *pair) for pair in policies]
    for what, of_coco, of_flickr in facts:
        if of_coco != of_flickr:
            raise InvalidOption(
                f"{coco.name} and {flickr.name} have no mean: the {what} is {of_coco} for the first and "
                f"{of_flickr} for the second. Evaluate both with the same options."
            )


def _mean(by_task: Mapping[str, ScoredReport], coco: Result, flickr: Result) -> Result:
    values = [by_task[row.task].per_query[row.key] for row in (coco, flickr)]
    drawn = [_draw_means(row.query_ids, row.values, SEED + place) for place, row in enumerate(values)]
    low, high = interval((drawn[0] + drawn[1]) / 2, CONFIDENCE)
    return Result(
        task=MEAN,
        direction="i2t",
        metric=coco.metric,
        value=(coco.value + flickr.value) / 2,
        n_queries=coco.n_queries + flickr.n_queries,
        low=low,
        high=high,
        interval_method="bootstrap",
        parameters={name: value for name, value in coco.parameters.items() if name in ("k", "unjudged")},
    )


def _draw_means(query_ids: IntArray, values: FloatArray, seed: int) -> FloatArray:
    """Means of the values in the samples of a bootstrap over queries."""
    means: FloatArray = ClusterBootstrap(query_ids, Draws(seed)).means(values[:, None])[0]
    return means
