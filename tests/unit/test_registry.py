"""The registry: every task and metric is found, named after its file, documented, and looked up with a hint."""

import importlib
import re
import sys
import types

import pytest

from cxc_eccv import registry
from cxc_eccv.errors import UnknownName
from cxc_eccv.metrics.mrr import mrr
from cxc_eccv.metrics.spec import Spec


def test_the_declared_tasks_and_metrics_are_there():
    assert {"coco_1k", "coco_5k", "cxc", "cxc_rated", "eccv_caption"} <= set(registry.tasks())
    assert {"recall_at_k", "median_rank", "mean_rank", "mrr", "mrr_at_k", "r_precision", "map_at_r", "rsum"} <= set(
        registry.metrics()
    )


@pytest.mark.parametrize("name", registry.metrics())
def test_a_metric_is_documented_and_named_after_its_file(name):
    spec = registry.metric(name)
    assert importlib.import_module(f"cxc_eccv.metrics.{name}").SPEC is spec
    assert spec.function.__name__ == spec.name == name
    assert spec.citation
    for section in ("Args:", "Returns:", "References:", "Example:"):
        assert section in spec.description


@pytest.mark.parametrize("name", registry.tasks())
def test_a_task_names_known_metrics_and_reports_its_main_one(name):
    task = registry.task(name)
    assert importlib.import_module(f"cxc_eccv.tasks.{name}").TASK is task
    assert task.directions
    assert task.citation
    assert task.licence
    labels = set(task.whole)
    for metric in task.metrics:
        spec, variants = registry.metric_variants(metric)
        labels |= {spec.label(**parameters) for parameters in variants}
    assert task.main_metric in labels


def test_unknown_names_get_a_hint():
    with pytest.raises(UnknownName, match="did you mean 'eccv_caption'"):
        registry.task("eccv_captions")
    with pytest.raises(UnknownName, match="did you mean 'map_at_r'"):
        registry.metric("map_at_rr")
    with pytest.raises(UnknownName, match="did you mean 'recall_at_k'"):
        registry.metric_variants("recal_at_5")


def test_a_constant_under_another_name_than_its_file_is_refused(monkeypatch):
    module = types.ModuleType("cxc_eccv.metrics.wrong")
    module.SPEC = Spec(function=mrr, needs="ranks", citation="x")
    monkeypatch.setitem(sys.modules, "cxc_eccv.metrics.wrong", module)
    monkeypatch.setattr(registry.pkgutil, "iter_modules", lambda _: [types.SimpleNamespace(name="wrong")])
    with pytest.raises(ImportError, match="its SPEC is named 'mrr'"):
        registry._declared(sys.modules["cxc_eccv.metrics"], "SPEC")


@pytest.mark.parametrize("name", [name for name in registry.tasks() if name != "coco_1k"])
def test_descriptions_name_no_size_of_the_data(name):
    """They also stand on pages about the sample. COCO 1K's folds are its protocol: other sizes have no folds."""
    assert not re.search(r"\d,\d{3}", registry.task(name).description)
