"""Entail@K beyond a report: judged by hand (E@M), and its mean over COCO and Flickr30k."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxc_eccv.comparison import ScoredReport
from cxc_eccv.comparison.pairing import judge_of
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.judgments.merging import label_pairs
from cxc_eccv.metrics.entail_at_k import entail_at_k
from cxc_eccv.registry import task
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.reading import check_content, read_json, require_keys, shown
from cxc_eccv.statistics import ClusterBootstrap, Draws, Intervals, interval
from cxc_eccv.studies.asking.answer_files import read_answers
from cxc_eccv.studies.asking.questions import Question
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.studies.asking.settling import settle
from cxc_eccv.studies.entailment.exported_pairs import (
    ASKED,
    ORIGINAL,
    SCHEMA,
    TASKS,
    KnownLabels,
    Pair,
    ask,
    leave_out,
)
from cxc_eccv.tables import Cell, Table
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import FloatArray, IntArray, Judgments, Result, TopK, find_positions
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.strict_json import MAPPING, TEXT, WHOLE, Json, JsonObject
from cxc_eccv.wording import judge_caution, metric_name, score_cell
from cxc_eccv.writing import write_json, write_rows

SEED = 0
CONFIDENCE = 0.95
INTERVALS = Intervals(confidence=CONFIDENCE, seed=SEED)
"""Of the bootstrap over images."""

EXPORT = {
    **dict.fromkeys(("task", "split", "content"), TEXT),
    **dict.fromkeys(("schema", "seed", "depth"), WHOLE),
    "data": {"edition": TEXT},
    "images": [WHOLE],
    "models": [{"name": TEXT, "run": MAPPING, "captions": [[WHOLE]]}],
}
"""The structure of ``asked.json``."""


@dataclass(frozen=True, slots=True, eq=False)
class ManualScores:
    """E@M of every model."""

    results: Mapping[str, Result]
    labels: Sequence[JsonObject]
    provenance: Provenance

    @property
    def table(self) -> Table:
        """The console table."""
        rows = [(name, score_cell(result), f"{result.n_queries:,}") for name, result in self.results.items()]
        depth = next(iter(self.results.values())).parameters["k"]
        facts = self.provenance.others
        notes = [
            f"E@M: percent of the top {depth} captions that are ground truth or entailed, every pair judged by hand",
            f"pairs judged: {facts['pairs']:,}, by {facts['people']:,} people; unused answers against original links: "
            f"{facts['against_original_links']}; answers that replace labels from ratings: "
            f"{facts['against_derived_labels']}",
        ]
        header = [("",), ("E@M",), ("images",)]
        return Table(
            header, rows, "Judged by hand", notes=notes, data=describe_data(self.provenance.data, self.provenance.split)
        )

    def save(self, path: str | Path) -> Path:
        """Write ``results`` and ``provenance`` as JSON."""
        results = {name: asdict(result) for name, result in self.results.items()}
        return write_json(Path(path), {"schema": SCHEMA, "results": results, "provenance": to_json(self.provenance)})

    def save_labels(self, path: str | Path) -> Path:
        """Write all answers as a file of entailment labels, JSON lines."""
        return write_rows(Path(path).with_suffix(".jsonl"), self.labels)


def score_answers(
    answers: str | Path | Iterable[str | Path],
    *,
    form: str | None = None,
    workers: Sequence[str] | None = None,
    data_dir: str | Path | Library | None = None,
) -> ManualScores:
    """Entail@K of every exported model, by the majority of people's answers.

    Answers override labels derived from ratings; an image's own captions always count as entailed. The provenance
    counts the answers that contradict either. The answered files of one export lie beside its ``asked.json``; their
    ``form`` is told by the suffix of each if it is None, and ``workers`` are the persons of files that name nobody.
    """
    paths = [Path(answers)] if isinstance(answers, str | Path) else [Path(path) for path in answers]
    beside, about, tops = _read_export(paths)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    entail_task = task(about["task"])
    split = about["split"]
    content = library.split(split, entail_task.collection)
    if about["content"] != content.fingerprint:
        raise DataError(
            f"{beside} was exported from the edition {about['data']['edition']!r} of the data, and this is "
            f"{library.edition!r}, with other images or captions. Point --data-dir at the data of the export."
        )
    known = KnownLabels(entail_task, content)
    asked = ask(entail_task, content, list(tops.values()))
    questions = {(question.image_id, question.caption_id): question for sheet in asked.sheets for question in sheet}
    marked = known.mark(asked) if about["known"] == "marked" else {}
    asked = leave_out(asked, marked)
    reading = read_answers(paths, [asked], form, workers=workers)
    labels = marked | _settle(reading.answers, asked.scheme)
    _refuse_unanswered(paths, questions, labels)
    images = np.array(about["images"])
    judged = _judge(images, content, labels)
    results = {name: _score(entail_task, top, judged) for name, top in tops.items()}
    facts: JsonObject = {
        "export": {name: about[name] for name in ("task", "seed", "depth", "known")},
        "models": {model["name"]: model["run"] for model in about["models"]},
        "images": images.size,
        "pairs": len(labels),
        "people": len(set(reading.answers["worker"])),
        "against_original_links": sum(
            (known.label(pair) or ("", ""))[1] == ORIGINAL and not label for pair, label in labels.items()
        ),
        "against_derived_labels": sum(known.derived(pair) not in (None, label) for pair, label in labels.items()),
    }
    rows = [_describe(questions[pair]) | {"label": label} for pair, label in labels.items()]
    provenance = make_provenance(library, split, INTERVALS.record(Provenance(others=facts)))
    return ManualScores(results, rows, provenance)


def _settle(answers: pd.DataFrame, scheme: Scheme) -> dict[Pair, int]:
    """The label of every answered pair."""
    settled = settle(answers, scheme).to_pylist() if len(answers) else []
    return {(row["image_id"], row["caption_id"]): int(row["positive"]) for row in settled}


def _refuse_unanswered(paths: Sequence[Path], questions: Mapping[Pair, Question], labels: Mapping[Pair, int]) -> None:
    """Raise MalformedSource if a pair has no label."""
    lacking = [question for pair, question in questions.items() if pair not in labels]
    if lacking:
        raise MalformedSource(
            ", ".join(map(str, paths)),
            "",
            f"{len(questions) - len(lacking)} of {len(questions)} pairs, without {lacking[0].pair_id}",
            "complete sheets: answer the other pairs, or put missing rows back",
        )


def _describe(question: Question) -> dict[str, Json]:
    """A row of a file of entailment labels, without the label."""
    return {
        "pair_id": question.pair_id,
        "image": question.file_name,
        "image_id": question.image_id,
        "premise": list(question.captions),
        "hypothesis": question.caption,
        "caption_id": question.caption_id,
    }


def _read_export(paths: Sequence[Path]) -> tuple[Path, dict[str, Any], dict[str, TopK]]:
    """Read the record beside the answers: its path, its content, and the top captions of every model."""
    beside = paths[0].with_name(ASKED)
    for file in (*paths, beside):
        if not file.is_file():
            advice = "" if file in paths else ". It records the export: put the answers beside it"
            raise DataError(f"{file} is missing{advice}")
    about = require_keys(beside, "", read_json(beside), ("known",))
    check_content(beside, about, EXPORT)
    if about["schema"] != SCHEMA or about["task"] not in TASKS:
        read = f"schema {shown(about['schema'])}, task {shown(about['task'])}"
        raise MalformedSource(beside, "", read, f"an export of this version, schema {SCHEMA}")
    images = np.array(about["images"], dtype=np.int64)
    tops = {}
    if not images.size or not about["models"]:
        raise MalformedSource(beside, "images, models", "no lists", "the exported lists: restore the file")
    for model in about["models"]:
        lists = model["captions"]
        sizes = {len(captions) for captions in lists}
        if model["name"] in tops or len(lists) != images.size or sizes != {about["depth"]}:
            expected = f"a unique name, and {about['depth']} captions for each of {images.size} images"
            raise MalformedSource(beside, f"model {shown(model['name'])}", "a repeated name, or other lists", expected)
        tops[model["name"]] = TopK(images, np.array(lists))
    return beside, about, tops


def _judge(images: IntArray, content: Split, labels: Mapping[Pair, int]) -> Judgments:
    """Judgments from the original links and the answers."""
    linked = np.isin(content.caption_image_ids, images)
    links = Judgments.from_pairs(
        images, content.caption_ids, content.caption_image_ids[linked], content.caption_ids[linked]
    )
    asked, captions = np.array(list(labels)).T
    rows = find_positions(asked, images)[0]
    columns = find_positions(captions, content.caption_ids)[0]
    return label_pairs(links, rows, columns, np.array(list(labels.values())) == 1)


def _draw_means(query_ids: IntArray, values: FloatArray, seed: int) -> FloatArray:
    """Means of the values in the samples of a bootstrap over queries."""
    means: FloatArray = ClusterBootstrap(query_ids, Draws(seed)).means(values[:, None])[0]
    return means


def _score(entail_task: Task, top: TopK, judged: Judgments) -> Result:
    """Entail@K of one model; every pair has a label."""
    values = entail_at_k(top, judged, top.depth)
    low, high = interval(_draw_means(top.query_ids, values, SEED), CONFIDENCE)
    return Result(
        entail_task.name,
        "i2t",
        f"entail_at_{top.depth}",
        float(values.mean()),
        values.size,
        low=low,
        high=high,
        interval_method="bootstrap",
        coverage=1.0,
        parameters={"k": top.depth, "unjudged": "manual"},
    )


MEAN = "entailment_mean"


@dataclass(frozen=True, slots=True, eq=False)
class MeanScores:
    """Entail@K of one model on COCO, on Flickr30k, and the mean of the two (task ``entailment_mean``)."""

    name: str
    results: tuple[Result, ...]
    provenance: Provenance

    @property
    def table(self) -> Table:
        """A row for each collection and one for the mean, a column for each K."""
        metrics = list(dict.fromkeys(row.metric for row in self.results))
        by_key = {(row.task, row.metric): row for row in self.results}
        titles = (*(task(name).collection.title for name in TASKS), "mean")
        rows: list[list[str | Cell]] = [
            [title, *(score_cell(by_key[name, metric]) for metric in metrics)]
            for title, name in zip(titles, (*TASKS, MEAN), strict=True)
        ]
        header = [("",), *((metric_name(metric),) for metric in metrics)]
        policy = self.results[0].parameters.get("unjudged", "")
        notes = [f"percent; pairs without a label: {str(policy).replace('_', ' ')}"] if policy else []
        caution = judge_caution(self.results, self.provenance.split)
        return Table(header, rows, self.name, notes=notes, cautions=[caution] if caution else [])

    def records(self) -> JsonObject:
        """Plain values for JSON."""
        return {
            "results": [{"key": row.key, **asdict(row)} for row in self.results],
            "provenance": to_json(self.provenance),
        }


def mean_entailment(reports: Sequence[ScoredReport], *, name: str | None = None) -> MeanScores:
    """The mean of Entail@K over COCO and Flickr30k, for every K that both reports have; each collection counts half."""
    by_task = _sort(reports)
    coco, flickr = (by_task[name] for name in TASKS)
    rows = [{row.metric: row for row in by_task[name].report.results if row.task == name} for name in TASKS]
    both = [metric for metric in rows[0] if metric in rows[1]]
    if not both:
        raise InvalidOption(
            f"{coco.name} and {flickr.name} have no Entail@K in common; evaluate both at the same depths"
        )
    _check(coco, flickr, [(rows[0][metric], rows[1][metric]) for metric in both])
    means = [_mean(by_task, rows[0][metric], rows[1][metric]) for metric in both]
    others = {"reports": {name: by_task[name].report.name for name in TASKS}, "unjudged": judge_of(coco.report)}
    facts = INTERVALS.record(Provenance(split=coco.report.provenance.split, others=others))
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
        MEAN,
        "i2t",
        coco.metric,
        (coco.value + flickr.value) / 2,
        coco.n_queries + flickr.n_queries,
        low=low,
        high=high,
        interval_method="bootstrap",
        parameters={name: value for name, value in coco.parameters.items() if name in ("k", "unjudged")},
    )
