"""Reports as Every Eval Ever keeps them: a log per model with every score and its interval, and a line per query."""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.hub.checks import find_unusual_parameters
from cxc_eccv.registry import metric_labelled, tasks
from cxc_eccv.report import Report
from cxc_eccv.sources.catalog import OFFICIAL, load_catalog
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.judgments import find_sides
from cxc_eccv.types.strict_json import Json
from cxc_eccv.wording import INTERVAL_PHRASES, Shown, fold_deviations, metric_name
from cxc_eccv.writing import write_texts

SCHEMA_VERSION = "0.3.0"
"""The version of both schemas that the files follow."""

RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
"""What those who evaluate can be to those who made the model."""

METRIC_UNITS = {"percent": "proportion", "correlation": "correlation", "rank": "rank", "number": "points"}
"""Unit in which we show a metric to the unit in which report.json, and so the log, has its values."""

PER_QUERY_METRIC = "recall_at_1"
"""The metric with a line per query: a line says whether an answer is correct, which only 0 and 1 can mean."""

MODEL_ID_PART = re.compile(r"(?!data$)[A-Za-z0-9]([\w.-]*\w)?", re.ASCII)
"""A developer or a model: the name of a folder on every system, and not the one that the datastore keeps for itself."""


def write_every_eval_ever(
    folder: Path, reports: Mapping[str, Report], *, organization: str | None, relationship: str | None
) -> list[Path]:
    """Write a log for each model, and a line per query where its report has these; return the paths of the files.

    The files lie below ``folder`` as in the datastore of Every Eval Ever. Their names follow from the report and the
    model, so that writing a report again replaces its log.

    Args:
        folder: created if it does not exist.
        reports: id of the model, ``DEVELOPER/MODEL`` as on the Hub, to its report.
        organization: who evaluated and publishes the scores.
        relationship: what they are to those who made the model, one of :data:`RELATIONSHIPS`.

    Raises:
        InvalidOption: something is not named, or a report covers other data, labels or parameters than its tasks.
        UnknownName: the relationship is unknown.
    """
    source = _describe_source(organization, relationship)
    now = str(int(time.time()))
    logs = [_make_log(model, report, source, now) for model, report in reports.items()]
    written = []
    for place, texts in logs:
        written += write_texts(folder / place, texts)
    return written


def _describe_source(organization: str | None, relationship: str | None) -> dict[str, Json]:
    if organization is None or not organization.strip():
        raise InvalidOption("say who evaluated and publishes the scores: --organization NAME")
    if relationship is None:
        raise InvalidOption(
            "say what they are to those who made the model, with --relationship: first_party (they made it), "
            "third_party (they did not), collaborative, or other"
        )
    if relationship not in RELATIONSHIPS:
        raise UnknownName("relationship", relationship, RELATIONSHIPS)
    return {
        "source_type": "evaluation_run",
        "source_organization_name": organization.strip(),
        "evaluator_relationship": relationship,
    }


def _make_log(model: str, report: Report, source: dict[str, Json], now: str) -> tuple[str, dict[str, str]]:
    """The folder of a model's files in the datastore; and file name to text, the log and the lines of its queries."""
    parts = model.split("/")
    if len(parts) != 2 or not all(map(MODEL_ID_PART.fullmatch, parts)):
        raise InvalidOption(
            f"{model!r} is not the id of a model. Name it as on the Hub, for each report in their order: "
            "--name DEVELOPER/MODEL"
        )
    _refuse_departures(report)
    provenance = report.provenance
    edition = provenance.data.edition
    collection = "cxc_eccv" if edition == OFFICIAL else f"cxc_eccv.{edition}"
    digest = hashlib.sha256(f"{model}\n{report.to_json()}".encode())
    file_id = uuid.UUID(bytes=digest.digest()[:16], version=4)
    evaluation_id = f"{collection}/{model}/{digest.hexdigest()[:16]}"
    place = f"data/{collection}/{model}"

    doubts = {f"doubt_{name}": sentence for name, sentence in report.doubts.items()}
    log: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": evaluation_id,
        "retrieved_timestamp": now,
        "source_metadata": source | ({"additional_details": doubts} if doubts else {}),
        "eval_library": _describe_library(report),
        "model_info": _describe_model(model, report),
        "evaluation_results": [_describe_result(result, report) for result in fold_deviations(report.results)],
    }
    texts = {}
    lines = "".join(
        f"{json.dumps(row, separators=(',', ':'))}\n" for row in _list_queries(report, evaluation_id, model)
    )
    if lines:
        name = f"{file_id}_samples.jsonl"
        texts[name] = lines
        log["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": f"{place}/{name}",
            "hash_algorithm": "sha256",
            "checksum": hashlib.sha256(lines.encode()).hexdigest(),
            "total_rows": lines.count("\n"),
        }
    texts[f"{file_id}.json"] = json.dumps(log, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return place, texts


def _refuse_departures(report: Report) -> None:
    """Refuse scores that a reader would take for those of a task, and that are on something else."""
    if report.departure:
        raise InvalidOption(
            f"the report is on {report.departure}; others would take its scores for those of the whole task. Evaluate "
            "without these options"
        )
    if not report.results:
        raise InvalidOption("the report has no score; evaluate a task that the run has the items of")
    for result in fold_deviations(report.results):
        for fault in find_unusual_parameters(result):
            raise InvalidOption(f"{fault}; others would take it for the usual metric. Evaluate without this option")


def _describe_library(report: Report) -> dict[str, Json]:
    provenance = report.provenance
    facts = {
        "numpy": provenance.numpy,
        "data_edition": provenance.data.edition,
        "data_version": provenance.data.version,
        "data_fingerprint": provenance.data.fingerprint,
        "similarity": provenance.similarity,
        "seed": provenance.seed,
        "command": provenance.command,
    }
    return {
        "name": provenance.package.name or "cxc_eccv",
        "version": provenance.package.version or "unknown",
        "additional_details": _write_details(facts),
    }


def _describe_model(model: str, report: Report) -> dict[str, Json]:
    run = report.provenance.run
    facts: dict[str, Json] = {
        "deployment_type": "unknown",
        "model_availability": "unknown",
        "trained_on": report.trained_on,
        "run_kind": run.kind or None,
        "run_sha256": run.sha256,
        "revision": run.encoding.revision if run.encoding is not None else None,
    }
    return {
        "name": report.model or model,
        "id": model,
        "developer": model.partition("/")[0],
        "additional_details": _write_details(facts),
    }


def _describe_result(result: Shown, report: Report) -> dict[str, Json]:
    """A score with its direction, unit and range, its interval if it has one, and what else the report says of it."""
    spec, _ = metric_labelled(result.metric)
    lowest, highest = spec.bounds
    name = metric_name(result.metric, in_full=True)
    scalars = {key: value for key, value in result.parameters.items() if not isinstance(value, (list, dict))}
    facts: dict[str, Json] = {
        "n_queries": result.n_queries,
        "averaged_over": spec.averaged_over,
        "ties": result.ties,
        "if_ties_help": result.if_ties_help,
        "decided_by_ties": result.decided_by_ties,
        "chance": result.chance,
        "coverage": result.coverage,
        "standard_deviation_over_samples": result.deviation,
        "bounds_over_unjudged_pairs": None if result.bounds is None else to_json(result.bounds),
    }
    scored: dict[str, Json] = {"score": result.value, "details": _write_details(facts)}
    if result.low is not None and result.high is not None:
        scored["uncertainty"] = _describe_interval(result, report.provenance.confidence)
    return {
        "evaluation_result_id": result.key,
        "evaluation_name": _name_evaluation(result.task, result.direction, report),
        "source_data": _describe_data(result.task, report),
        "metric_config": {
            "evaluation_description": tasks()[result.task].description,
            "metric_id": f"cxc_eccv.{result.metric}",
            "metric_name": name,
            "metric_kind": spec.name,
            "metric_unit": METRIC_UNITS[spec.unit],
            "metric_parameters": scalars,
            "lower_is_better": not spec.higher_is_better,
            "score_type": "continuous",
            "min_score": lowest,
            "max_score": "Infinity" if highest is None else highest,
            "additional_details": {"aggregate": spec.aggregate, "citation": spec.citation},
        },
        "score_details": scored,
    }


def _describe_interval(result: Shown, confidence: float | None) -> dict[str, Json]:
    interval: dict[str, Json] = {"lower": result.low, "upper": result.high}
    if confidence is not None:
        interval["confidence_level"] = confidence
    if result.interval_method is not None:
        interval["method"] = f"{result.interval_method}: {INTERVAL_PHRASES[result.interval_method]}"
    if result.interval_method == "binomial_images":  # computed from the number of images, which a report does not have
        return {"confidence_interval": interval}
    return {"confidence_interval": interval, "num_samples": result.n_queries}


def _name_evaluation(task: str, direction: str, report: Report) -> str:
    """The task and the part; other splits than test, which a reader expects, are named too."""
    split = report.provenance.split
    return ".".join(filter(None, ["cxc_eccv", task, direction, "" if split == "test" else split]))


def _describe_data(task_name: str, report: Report) -> dict[str, Json]:
    """The images, captions and labels of a task, with the home pages of their sources."""
    task = tasks()[task_name]
    provenance = report.provenance
    facts = {
        "split": provenance.split,
        "edition": provenance.data.edition,
        "version": provenance.data.version,
        "licence": task.licence,
        "citation": task.citation,
    }
    pages = dict.fromkeys(load_catalog().groups[name].homepage for name in task.sources)
    described: dict[str, Json] = {"dataset_name": task.title, "source_type": "url", "url": list(pages)}
    if task.of_label_files or provenance.data.edition != OFFICIAL:
        versions = {f"labels_{name}": file.version for name, file in provenance.label_files.items()}
        facts |= versions if task.of_label_files else {}
        described = {"dataset_name": task.title, "source_type": "other"}
    return described | {"additional_details": _write_details(facts)}


def _list_queries(report: Report, evaluation_id: str, model: str) -> Iterator[dict[str, Json]]:
    """A line for each query of each part that has the metric: its value, and the rank of its best positive."""
    if report.per_query is None:
        return
    keys = [result.key for result in report.results if result.metric == PER_QUERY_METRIC]
    for key in keys:
        task, direction, metric = key.split("/")
        rows = _select_rows(report.per_query, task, direction, metric)
        modality, _ = find_sides(tasks()[task].part(direction).direction)
        common: dict[str, Json] = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": evaluation_id,
            "model_id": model,
            "evaluation_name": _name_evaluation(task, direction, report),
            "evaluation_result_id": key,
            "interaction_type": "single_turn",
            "answer_attribution": [],
        }
        kind = modality.removesuffix("s")
        for row in rows.select(["query_id", "value", "best_rank", "cluster", "fold"]).to_pylist():
            query = row["query_id"]
            rank = row["best_rank"]
            yield common | {
                "sample_id": f"{kind} {query}",
                "input": {"raw": f"{kind} {query}", "reference": []},
                "output": {"raw": ["no positive is ranked" if rank is None else f"best positive at rank {rank}"]},
                "evaluation": {"score": row["value"], "is_correct": row["value"] == 1},
                "metadata": _write_details(
                    {"best_rank": rank, "cluster": row["cluster"], "fold": row["fold"]},
                ),
            }


def _select_rows(table: pa.Table, task: str, direction: str, metric: str) -> pa.Table:
    wanted = {"task": task, "direction": direction, "metric": metric}
    for column, value in wanted.items():
        table = table.filter(pc.equal(table[column].cast(pa.string()), value))
    return table


def _write_details(facts: Mapping[str, Json]) -> dict[str, Json]:
    """The facts that are known, as texts: the schemas allow nothing else where they leave names free."""
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in facts.items()
        if value is not None
    }
