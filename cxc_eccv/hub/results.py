"""Results submitted to the benchmark, read from the Hub and kept for use without a network."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TypeAlias

from huggingface_hub import constants, get_session, hf_raise_for_status
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # public, but not in __all__

from cxc_eccv.errors import HubError
from cxc_eccv.hub.client import hub_client
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.registry import metric_labelled
from cxc_eccv.sources.download import cache_folder
from cxc_eccv.types.strict_json import JsonObject
from cxc_eccv.writing import replaced_file

Results: TypeAlias = dict[str, dict[str, float]]
"""Row of the leaderboard to its values by report key: a model, or ``model (pull request N)`` for an open one."""

HUB_TIMEOUT = 10
"""Seconds to wait for an answer of the Hub."""


def read_results(dataset: str) -> tuple[Results, list[str]]:
    """Results from the Hub; and sentences about what was not read, or left out.

    What cannot be read now is shown as it was last read.
    """
    kept = _find_kept(dataset)
    before = _read_kept(kept)
    try:
        with hub_client(f"read the leaderboard of {dataset}") as api:
            entries = api.get_dataset_leaderboard(dataset, base_model_only=False, timeout=HUB_TIMEOUT)
    except HubError as error:
        state = "Results are as last read" if before else "No results were read"
        return _join_rows(before), [f"{state}: {error}"]
    found: dict[str, Results] = {}
    notes: list[str] = []
    for model in dict.fromkeys(entry.model_id for entry in entries):
        try:
            rows, faults = _select_results(model, dataset, _fetch_results(model))
        except HubError as error:
            state = "As last read" if model in before else "Left out"
            notes.append(f"{state}: {error}")
            rows = before.get(model, {})
            faults = []
        found[model] = rows
        notes += faults
    kept.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(kept) as file:
        file.write_text(json.dumps(found), encoding="utf-8")
    return _join_rows(found), notes


def _find_kept(dataset: str) -> Path:
    """Where the results of a dataset are kept, apart for each Hub."""
    hub = re.sub(r"[^\w.-]", "-", constants.ENDPOINT.rpartition("://")[2])
    return cache_folder() / "leaderboard" / hub / f"{dataset.replace('/', '--')}.json"


def _read_kept(path: Path) -> dict[str, Results]:
    """Model to its rows as last read; none if they were never read, or the file is damaged."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _join_rows(models: dict[str, Results]) -> Results:
    joined: Results = {}
    for rows in models.values():
        joined |= rows
    return joined


def _fetch_results(model: str) -> list[JsonObject]:
    """The results of a model as the Hub lists them, with those of open pull requests and of invalid files.

    The client's ``model_info`` leaves out which results are those of pull requests.
    """
    with hub_client(f"read the results of {model}") as api:
        response = get_session().get(
            f"{api.endpoint}/api/models/{model}",
            params={"expand": "evalResults"},
            headers=build_hf_headers(),
            timeout=HUB_TIMEOUT,
        )
        hf_raise_for_status(response)
        return list(response.json().get("evalResults") or ())


def _select_results(model: str, dataset: str, listed: list[JsonObject]) -> tuple[Results, list[str]]:
    """The rows of a model on the leaderboard of a dataset; and what is left out of them."""
    keys = {task.task_id: key for key, task in leaderboard_tasks().items()}
    rows: Results = {}
    faults = []
    for item in listed:
        pull_request = item.get("pullRequest")
        name = f"{model} (pull request {pull_request})" if pull_request else model
        if "error" in item:
            faults.append(f"Left out: {item.get('filename')} of {name} is invalid: {item['error']}")
            continue
        entry = item.get("data", item)
        place = entry.get("dataset") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(place, dict):
            faults.append(f"Left out: {item.get('filename')} of {name} has an entry without a dataset")
            continue
        task_id = str(place.get("task_id"))
        value = entry.get("value", "")
        key = keys.get(task_id)
        if place.get("id") != dataset or key is None:
            continue
        values = rows.setdefault(name, {})
        if fault := _find_fault(key, value):
            faults.append(f"Left out: {task_id} of {name} is {value!r}, {fault}")
        elif values.setdefault(key, float(value)) != value:
            faults.append(f"Left out: {name} has a second value of {task_id}, {value!r} beside {values[key]!r}")
    rows = {name: values for name, values in rows.items() if values}
    if not rows and not faults:
        faults.append(f"Left out: {model} has no result of a task that this package knows")
    return rows, faults


def _find_fault(key: str, value: object) -> str:
    """Why a value is impossible under its metric, as the Hub takes any; empty for a possible one."""
    low, high = metric_labelled(key.rpartition("/")[2])[0].bounds
    span = f"a number of {low:g} or more" if high is None else f"a number from {low:g} to {high:g}"
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return f"expected {span}"
    highest = value if high is None else high
    if low <= value <= highest:
        return ""
    looks = ", so it looks like a percentage" if low <= value / 100 <= highest else ""
    return f"expected {span}{looks}"
