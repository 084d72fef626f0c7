"""The registry: every task and metric is found, named after its file, documented, and looked up with a hint."""

import importlib
import re
import sys
import types
from dataclasses import replace
from importlib.util import find_spec

import pytest

from cxc_eccv import discovery, registry
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.metrics.kinds import BestRank, RankMetric
from cxc_eccv.metrics.mrr import mrr
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.tasks.task import Task


def declared_tasks(name):
    """What the file of a task declares: it has the task's name, or that of its family."""
    if find_spec(f"cxc_eccv.tasks.{name}"):
        return (importlib.import_module(f"cxc_eccv.tasks.{name}").TASK,)
    families = [name.rpartition("_")[0], name.partition("_")[0]]
    family = next(family for family in families if find_spec(f"cxc_eccv.tasks.{family}"))
    return importlib.import_module(f"cxc_eccv.tasks.{family}").TASKS


@pytest.mark.parametrize("name", registry.tasks())
def test_a_task_names_known_metrics_and_reports_its_main_one(name):
    task = registry.task(name)
    assert task in declared_tasks(name)
    assert task.directions or task.rated
    assert task.citation
    assert task.licence
    labels = set(task.whole)
    for metric in task.metrics:
        spec, variants = registry.metric_variants(metric)
        labels |= {spec.label(**parameters) for parameters in variants}
    assert task.main_metric in labels


def test_depth_of_20_digits_is_refused():
    with pytest.raises(InvalidOption, match="give a K of at most 9 digits"):
        registry.metric_variants(f"recall_at_{'9' * 20}")


def test_unknown_names_get_a_hint():
    with pytest.raises(UnknownName, match="did you mean 'eccv_caption'"):
        registry.task("eccv_captions")
    with pytest.raises(UnknownName, match="did you mean 'map_at_r'"):
        registry.metric("map_at_rr")
    with pytest.raises(UnknownName, match="did you mean 'recall_at_k'"):
        registry.metric_variants("recal_at_5")


def test_a_constant_under_another_name_than_its_file_is_refused(monkeypatch):
    module = types.ModuleType("cxc_eccv.metrics.wrong")
    module.SPEC = RankMetric(mrr, "MRR", depends_on=BestRank(), citation="x")
    monkeypatch.setitem(sys.modules, "cxc_eccv.metrics.wrong", module)
    monkeypatch.setattr(discovery.pkgutil, "iter_modules", lambda _: [types.SimpleNamespace(name="wrong")])
    with pytest.raises(ImportError, match="its SPEC is named 'mrr', not like its file"):
        discovery.find_declared(sys.modules["cxc_eccv.metrics"], "SPEC", Spec)
    with pytest.raises(ImportError, match="its SPEC is a RankMetric, not a Task"):
        discovery.find_declared(sys.modules["cxc_eccv.metrics"], "SPEC", Task)


def test_a_file_may_declare_several_and_each_name_stands_once(monkeypatch):
    module = types.ModuleType("cxc_eccv.tasks.wrong")
    cxc = registry.task("cxc")
    module.TASKS = (replace(cxc, name="other"), replace(cxc, name="one"))
    monkeypatch.setitem(sys.modules, "cxc_eccv.tasks.wrong", module)
    monkeypatch.setattr(discovery.pkgutil, "iter_modules", lambda _: [types.SimpleNamespace(name="wrong")])
    assert list(discovery.find_declared(sys.modules["cxc_eccv.tasks"], "TASK", Task)) == ["one", "other"]
    module.TASKS += (replace(cxc, name="one"),)
    with pytest.raises(ImportError, match="there is another TASK named 'one'"):
        discovery.find_declared(sys.modules["cxc_eccv.tasks"], "TASK", Task)


def test_label_of_no_metric_is_refused():
    for label in ("recall_at_k", "recal_at_5", "recall_at_5_std"):
        with pytest.raises(UnknownName):
            registry.metric_labelled(label)


def test_names_of_tasks_begin_with_a_capital():
    """One form in titles, tables and sentences: the capitals that a name begins a line with."""
    assert [title for title in sorted(task.title for task in registry.tasks().values()) if not title[0].isupper()] == []


def test_no_two_tasks_share_a_title():
    assert len({task.title for task in registry.tasks().values()}) == len(registry.tasks())


def test_a_task_takes_its_labels_from_declared_sources():
    with pytest.raises(UnknownName, match="did you mean 'eccv'"):
        replace(registry.task("cxc"), label_sources=("eccv_",))


def test_a_title_that_is_not_given_is_the_name_in_words():
    assert replace(registry.task("cxc_rated"), title="").title == "Cxc rated"


@pytest.mark.parametrize("name", [name for name in registry.tasks() if name != "coco_1k"])
def test_descriptions_name_no_size_of_the_data(name):
    """They also stand on pages about the sample. COCO 1K's folds are its protocol: other sizes have no folds."""
    assert not re.search(r"\d,\d{3}", registry.task(name).description)
