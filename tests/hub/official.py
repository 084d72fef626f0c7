"""A report of the official data, and the released dataset on the Hub, made without the data itself."""

import json
from dataclasses import asdict

from cxc_eccv import __version__
from cxc_eccv.builders.dataset_config import BuildOptions
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.report import Report
from cxc_eccv.sources.catalog import fingerprint_files, load_catalog
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

BENCHMARK = "org/cxc_eccv"
MODEL = "me/clip"

NAMES = ("karpathy_test", "eccv_image_to_caption", "eccv_caption_to_image", "sts_test", "sits_test", "sis_test")
FILES = {name: load_catalog().entry(name).sha256 for name in NAMES}

OPTIONS = {name: value for name, value in asdict(BuildOptions()).items() if name not in ("mined", "labels")}

SCORES = {
    "eccv_caption/i2t/map_at_r": (0.3125, {}),
    "eccv_caption/i2t/r_precision": (0.4, {}),
    "eccv_caption/i2t/recall_at_1": (0.71, {"k": 1}),
    "eccv_caption/i2t/recall_at_5": (0.9, {"k": 5}),
    "cxc/i2t/median_rank": (2.0, {}),
    "cxc/t2t/recall_at_1": (0.25, {"k": 1}),
}


def result(key, value, parameters, **fields):
    task, direction, metric = key.split("/")
    given = {"n_queries": 1261, "low": value, "high": value} | fields
    return Result(task, direction, metric, value, parameters=parameters, **given)


def official_report(scores=None, **provenance):
    """The text of a report.json as `cxc-eccv evaluate` writes it; dates and sizes are made up."""
    rows = tuple(result(key, *entry) for key, entry in (scores or SCORES).items())
    data = {"edition": "official", "version": load_catalog().version, "files": FILES}
    data["fingerprint"] = fingerprint_files(FILES)
    facts = {"package": {"name": "cxc_eccv", "version": __version__}, "data": data, "split": "test", "seed": 0}
    return Report(rows, {}, from_json(Provenance, facts | provenance)).to_json()


def edited(report, edit):
    """The text of a report after somebody changed it."""
    content = json.loads(report)
    edit(content)
    return json.dumps(content)


def add_benchmark(hub, name=BENCHMARK, main_alone=False, **manifest):
    """A released dataset, as far as a submission looks at it, with all tasks or the main ones that a push declares."""
    content = {"edition": "official", "data_version": load_catalog().version, "sources": FILES, "options": OPTIONS}
    content |= manifest
    declared = [
        {"id": task.task_id, "config": task.config, "split": "test"}
        for task in leaderboard_tasks().values()
        if task.main or not main_alone
    ]
    board = {"name": "CxC", "description": "", "evaluation_framework": "cxc_eccv", "tasks": declared}
    files = {"eval.yaml": json.dumps(board).encode(), "manifest.json": json.dumps(content).encode()}
    return hub.store.create("dataset", name, files)


def add_model(hub, name=MODEL, **files):
    return hub.store.create("model", name, {"README.md": b"---\nlicense: mit # as upstream\n---\n\n# CLIP\n"} | files)
