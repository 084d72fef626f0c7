"""A task is one new file: evaluation, leaderboard, ``eval.yaml`` and the checks of a submission follow from it."""

import sys

import pytest
import yaml
from official import FILES, edited, official_report

import cxc_eccv.tasks
from cxc_eccv import registry
from cxc_eccv.errors import ReportRefused
from cxc_eccv.evaluation import evaluate
from cxc_eccv.hub.leaderboard import eval_yaml, leaderboard_tasks
from cxc_eccv.hub.submit import checked_report
from cxc_eccv.sources.catalog import fingerprint_files

FILE = """
from functools import partial

from cxc_eccv.judgments.qrels import merged_qrels, rated_pairs
from cxc_eccv.tasks.task import Task

TASK = Task(
    name="uncontested",
    description="Image-text retrieval with the positives that no source contradicts.",
    directions={"t2i": partial(merged_qrels, direction="t2i", sources=("coco", "cxc", "eccv"), policy="strict")},
    splits=("test",),
    metrics=("recall_at_k", "median_rank", "bootstrap_spearman"),
    main_metric="recall_at_1",
    citation="Author, venue, year",
    licence="those of the labels",
    sources=("karpathy", "cxc"),
    config="retrieval",
    rated={"sits": partial(rated_pairs, kind="sits")},
)
"""

SCORES = {"uncontested/t2i/recall_at_1": (0.5, {"k": 1})}


def forget():
    registry.tasks.cache_clear()
    leaderboard_tasks.cache_clear()


@pytest.fixture
def new_file(tmp_path, monkeypatch):
    folder = tmp_path / "more_tasks"
    folder.mkdir()
    (folder / "uncontested.py").write_text(FILE)
    monkeypatch.setattr(cxc_eccv.tasks, "__path__", [*cxc_eccv.tasks.__path__, str(folder)])
    forget()
    yield folder
    forget()
    sys.modules.pop("cxc_eccv.tasks.uncontested", None)


def test_it_is_evaluated_and_ranked(new_file, make_run, sample_library):
    report = evaluate(make_run(sample_library), "uncontested", data_dir=sample_library, intervals="none")
    assert {"uncontested/t2i/recall_at_1", "uncontested/t2i/median_rank"} <= set(report.scores)
    found = {
        one.key: (one.task_id, one.config) for one in leaderboard_tasks().values() if one.key.startswith("uncontested/")
    }
    assert found == {
        **{f"uncontested/t2i/recall_at_{k}": (f"uncontested_t2i_recall_at_{k}", "retrieval") for k in (1, 5, 10)},
        "uncontested/sits/bootstrap_spearman": ("uncontested_sits_bootstrap_spearman", "sits"),
    }
    declared = {task["id"]: task["config"] for task in yaml.safe_load(eval_yaml(all_tasks=True))["tasks"]}
    assert declared.items() >= dict(found.values()).items()
    main = [task["id"] for task in yaml.safe_load(eval_yaml())["tasks"]]
    assert main[-2:] == ["uncontested_t2i_recall_at_1", "uncontested_sits_bootstrap_spearman"]


def test_a_submission_must_list_its_raw_files(new_file, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(official_report(SCORES))
    assert checked_report(path)[0].scores == {"uncontested/t2i/recall_at_1": 0.5}
    without = {name: digest for name, digest in FILES.items() if name == "karpathy_test"}
    data = {"files": without, "fingerprint": fingerprint_files(without)}
    path.write_text(edited(official_report(SCORES), lambda content: content["provenance"]["data"].update(data)))
    with pytest.raises(ReportRefused, match="has results of uncontested but lists no file of cxc"):
        checked_report(path)


def test_without_the_file_the_task_is_unknown():
    assert "uncontested" not in registry.tasks()
    assert not [key for key in leaderboard_tasks() if key.startswith("uncontested/")]
