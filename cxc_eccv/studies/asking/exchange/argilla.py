"""Argilla 2: settings and records of a dataset, and its exported records read back.

A dataset's records leave Argilla flat, by ``records.to_list(flatten=True)`` as JSON or by ``records.to_datasets`` and a
push to the Hub as Parquet, or nested, by ``records.to_json``. The flat ones say whether a response was submitted, is a
draft or was discarded. The nested ones do not: of them a record counts only where it is completed and has one person's
response. None says how long a response took.

References:
    Argilla, https://docs.argilla.io/latest/how_to_guides/import_export.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.reading import read_json, read_table, require_keys, shown
from cxc_eccv.studies.asking.exchange.format import Format, Record, join_criteria, name_answers
from cxc_eccv.studies.asking.exchange.instructions import describe_detail
from cxc_eccv.studies.asking.questionnaire import Asked
from cxc_eccv.studies.asking.schemes import Scheme

MOST_RECORDS = 1_000_000
"""More than any questionnaire asks; each becomes an object in memory."""

METADATA = {"questionnaire": "terms", "sheet": "integer", "image_id": "integer", "caption_id": "integer"}
FLAT = "the statuses of responses: json.dump(dataset.records.to_list(flatten=True), file)"
SUBMITTED = "submitted"
STATUSES = (SUBMITTED, "draft", "discarded")


def render(asked: Sequence[Asked], scheme: Scheme) -> Mapping[str, str]:
    """Settings and records, as ``rg.Settings.from_json`` and ``rg.Dataset.records.from_json`` read them."""
    records = [
        {
            "id": own["pair_id"],
            "fields": {name: own[name] for name in ("image", "caption")}
            | ({"captions": "\n".join(own["captions"])} if scheme.shows_captions else {}),
            "metadata": {name: own[name] for name in METADATA},
            "suggestions": {},
            "responses": {},
            "vectors": {},
        }
        for own in asked
    ]
    return {
        "settings.json": json.dumps(_settings(scheme), ensure_ascii=False, indent=1) + "\n",
        "records.json": json.dumps(records, ensure_ascii=False, indent=1) + "\n",
    }


def _settings(scheme: Scheme) -> dict[str, Any]:
    fields = {"image": "The image", **({"captions": "Its captions"} if scheme.shows_captions else {})}
    text = {"type": "text", "use_markdown": False}
    return {
        "guidelines": "\n\n".join((scheme.title, *scheme.instructions)),
        "fields": [
            *(_part(name, title, {"type": "image"} if name == "image" else text) for name, title in fields.items()),
            _part("caption", "The sentence", text),
        ],
        "questions": [*_questions(scheme), _part("remark", "Remark", text, required=False)],
        "metadata": [
            {"name": name, "title": name, "settings": {"type": kind}, "visible_for_annotators": False}
            for name, kind in METADATA.items()
        ],
        "vectors": [],
        "allow_extra_metadata": False,
        "distribution": {"strategy": "overlap", "min_submitted": 1},
    }


def _part(name: str, title: str, settings: Mapping[str, Any], *, required: bool = True) -> dict[str, Any]:
    return {"name": name, "title": title, "required": required, "settings": dict(settings)}


def _questions(scheme: Scheme) -> Iterator[dict[str, Any]]:
    if scheme.criteria:
        for name, label in scheme.criteria.items():
            yield _part(name, label, _options("label_selection", {"yes": "yes", "no": "no"}))
    elif scheme.scale:
        low, high = map(int, scheme.scale)
        marks = "; ".join(f"{low + number}: {text}" for number, text in enumerate(scheme.marks))
        options = [{"value": number} for number in range(low, high + 1)]
        yield _part("answer", scheme.question, {"type": "rating", "options": options}) | {"description": marks}
    else:
        labels = {own.name: own.label for own in scheme.answers}
        yield _part("answer", scheme.question, _options("label_selection", labels))
    for own in scheme.details:
        settings = _options("multi_label_selection", own.choices) | {"options_order": "natural"}
        yield _part(own.name, describe_detail(scheme, own), settings, required=False)


def _options(kind: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": kind,
        "options": [{"value": name, "text": label} for name, label in labels.items()],
        "visible_options": None,
    }


def read(path: Path, scheme: Scheme) -> Iterator[tuple[str, Record]]:
    """Every submitted response."""
    for where, record in _rows(path):
        nested = isinstance(record.get("fields"), dict)
        own = {**record["fields"], **_object(path, where, record, "metadata"), **record} if nested else record
        own = require_keys(path, where, own, ("id", "caption", *METADATA))
        answers = _nested(path, where, own, scheme) if nested else _flat(path, where, own, scheme)
        for worker, values in answers.items():
            yield f"{where}, {shown(own['id'])} by {shown(worker)}", _record(own, worker, values, scheme)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.suffix.lower() == ".parquet":
        table = read_table(path, "a Parquet file of records; fetch it again")
        if table.num_rows > MOST_RECORDS:
            raise MalformedSource(path, "", f"{table.num_rows:,} records", "those of a questionnaire; fetch it again")
        rows: Any = table.to_pylist()
    else:
        rows = read_json(path)
    if not isinstance(rows, list) or not rows:
        raise MalformedSource(path, "", shown(rows), "a list of records")
    for number, row in enumerate(rows, start=1):
        where = f"record {number}"
        yield where, require_keys(path, where, row, ())


def _object(path: Path, where: str, record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return require_keys(path, f"{where}, {name}", record.get(name), ())


def _nested(path: Path, where: str, record: Mapping[str, Any], scheme: Scheme) -> dict[str, dict[str, Any]]:
    """Person to what was said to each question."""
    found: dict[str, dict[str, Any]] = {}
    responses = _object(path, where, record, "responses")
    for name in name_answers(scheme):
        for response in _list(path, f"{where}, {name}", responses.get(name)):
            own = require_keys(path, f"{where}, {name}", response, ("user_id", "value"))
            _say(path, where, found, own["user_id"], name, own["value"])
    if found and (len(found) > 1 or record.get("status") != "completed"):
        told = f"responses of {len(found)} on a record that is {record.get('status')}, which may be drafts"
        raise MalformedSource(path, where, told, FLAT)
    return found


def _flat(path: Path, where: str, record: Mapping[str, Any], scheme: Scheme) -> dict[str, dict[str, Any]]:
    """Person to what was said to each question."""
    found: dict[str, dict[str, Any]] = {}
    for name in name_answers(scheme):
        columns = [f"{name}.responses", f"{name}.responses.users", f"{name}.responses.status"]
        values, people, statuses = (_list(path, f"{where}, {column}", record.get(column)) for column in columns)
        if not len(values) == len(people) == len(statuses):
            told = f"{len(values)} values, {len(people)} users and {len(statuses)} statuses"
            raise MalformedSource(path, f"{where}, {name}", told, "one user and one status for every response")
        for value, person, status in zip(values, people, statuses, strict=True):
            if status not in STATUSES:
                raise MalformedSource(path, f"{where}, {columns[2]}", shown(status), f"one of {', '.join(STATUSES)}")
            if status == SUBMITTED:
                _say(path, where, found, person, name, value)
    return found


def _list(path: Path, where: str, value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedSource(path, where, shown(value), "a list of responses")
    return value


def _say(path: Path, where: str, found: dict[str, dict[str, Any]], person: object, name: str, value: object) -> None:
    if not isinstance(person, str):
        raise MalformedSource(path, f"{where}, {name}", f"user {shown(person)}", "the id of a user")
    if name in found.setdefault(person, {}):
        raise MalformedSource(path, f"{where}, {name}", f"two responses of {shown(person)}", "one; remove the other")
    found[person][name] = value


def _record(record: Mapping[str, Any], worker: str, values: Mapping[str, Any], scheme: Scheme) -> Record:
    said = {name: values[name] for name in scheme.criteria or () if name in values}
    return {
        **{name: record[name] for name in (*METADATA, "caption")},
        "pair_id": record["id"],
        "worker": worker,
        "answer": join_criteria(said) if scheme.criteria else values.get("answer"),
        "details": {own.name: values[own.name] for own in scheme.details if values.get(own.name)},
        "remark": values.get("remark") or "",
        "seconds": None,
    }


FORMAT = Format(
    name="argilla",
    title="Argilla",
    exported="settings and records of a dataset",
    answered="the dataset's records: JSON of to_list(flatten=True) or to_json, or Parquet from the Hub",
    endings=(".json", ".parquet"),
    render=render,
    read=read,
)
