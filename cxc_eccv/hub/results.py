"""Results submitted to the benchmark, read from the Hub and kept for use without a network."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from cxc_eccv.errors import HubError, HubUnavailable
from cxc_eccv.hub.client import hub_client
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.registry import metric_labelled
from cxc_eccv.sources.download import cache_folder
from cxc_eccv.writing import replaced_file

Results: TypeAlias = dict[str, dict[str, float]]
"""Model to its value by report key."""

PATIENCE = 10
"""Seconds to wait for the Hub."""


def read_results(dataset: str) -> tuple[Results, str]:
    """Results from the Hub, else those that were read last; and a sentence that says which, or why there are none."""
    kept = cache_folder() / "leaderboard" / f"{dataset.replace('/', '--')}.json"
    try:
        results = _fetch(dataset)
    except HubUnavailable:
        if kept.is_file():
            return json.loads(kept.read_text(encoding="utf-8")), "The Hub did not answer; results are as last read."
        return {}, "The Hub did not answer, and no results were read before."
    except HubError as error:
        return {}, f"No results were read: {error}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(kept) as file:
        file.write_text(json.dumps(results), encoding="utf-8")
    return results, f"Models with results on the Hub: {len(results)}."


def _fetch(dataset: str) -> Results:
    """Every model of the benchmark's leaderboard, with the results in its repository."""
    with hub_client(f"read the leaderboard of {dataset}") as api:
        entries = api.get_dataset_leaderboard(dataset, base_model_only=False, timeout=PATIENCE)
        models = dict.fromkeys(entry.model_id for entry in entries)
        infos = {model: api.model_info(model, expand=["evalResults"], timeout=PATIENCE) for model in models}
    keys = {task.task_id: key for key, task in leaderboard_tasks().items()}
    return {
        model: {
            keys[entry.task_id]: entry.value
            for entry in info.eval_results or ()
            if entry.dataset_id == dataset and entry.task_id in keys and _is_score(keys[entry.task_id], entry.value)
        }
        for model, info in infos.items()
    }


def _is_score(key: str, value: Any) -> bool:  # noqa: ANN401 - whatever somebody wrote
    """Whether a value is possible under its metric; the Hub takes any."""
    low, high = metric_labelled(key.rpartition("/")[2])[0].bounds
    return type(value) in (int, float) and low <= value <= (value if high is None else high)
