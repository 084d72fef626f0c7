"""The registry: every task and metric is found, named after its file, documented, and looked up with a hint."""

import sys
import types
from dataclasses import replace

import pytest

from cxc_eccv import discovery, registry
from cxc_eccv.errors import UnknownName
from cxc_eccv.metrics.kinds import BestRank, RankMetric, Spec
from cxc_eccv.metrics.mrr import mrr
from cxc_eccv.tasks.task import Task


def test_unknown_names_get_a_hint():
    with pytest.raises(UnknownName, match="did you mean 'eccv_caption'"):
        registry.task("eccv_captions")
    with pytest.raises(UnknownName, match="did you mean 'map_at_r'"):
        registry.metric("map_at_rr")
    with pytest.raises(UnknownName, match="did you mean 'recall_at_k'"):
        registry.metric_variants("recal_at_5")


@pytest.mark.parametrize(
    ("find", "name", "nearest"),
    [
        (registry.task, "eccv", "eccv_caption"),
        (registry.task, "flickr30", "flickr30k"),
        (registry.task, "5k", "coco_5k"),
        (registry.metric, "precision_at", "r_precision"),
        (registry.metric, "kendall", "kendall_tau_c"),
    ],
)
def test_part_of_a_name_gets_a_hint(find, name, nearest):
    with pytest.raises(UnknownName, match=f"did you mean '{nearest}'"):
        find(name)


@pytest.mark.parametrize(
    ("printed", "label"),
    [
        *(("r@1", "recall_at_1"), ("R@10", "recall_at_10"), ("Recall@5", "recall_at_5"), ("mAP@R", "map_at_r")),
        *(("R-Precision", "r_precision"), ("entail@5", "entail_at_5"), ("Median Rank", "median_rank")),
        *(("PMRP@50", "pmrp_at_50"), ("R@5, judged only", "judged_only_recall_at_5"), ("rsum", "rsum")),
    ],
)
def test_metrics_are_found_as_they_are_printed(printed, label):
    spec, (parameters,) = registry.metric_variants(printed)
    assert spec.label(**parameters) == label


def test_printed_names_tell_metrics_apart():
    for spec in registry.metrics().values():
        for parameters in spec.variants():
            for title in (spec.title, spec.long_title):
                assert registry.metric_variants(title.format(**parameters).upper()) == (spec, [parameters])


def test_tasks_are_found_as_they_are_printed():
    assert [registry.task(task.title.lower()) for task in registry.tasks().values()] == [*registry.tasks().values()]


def test_hint_names_a_list_instead_of_every_name():
    with pytest.raises(UnknownName) as error:
        registry.metric_variants("map_at_rr")
    told = "unknown metric 'map_at_rr'; did you mean 'map_at_r'? To see all: cxc-eccv list metrics"
    assert str(error.value) == told


def test_constant_not_named_like_its_file_is_refused(monkeypatch):
    module = types.ModuleType("cxc_eccv.metrics.wrong")
    module.SPEC = RankMetric(mrr, "MRR", depends_on=BestRank(), citation="x")
    monkeypatch.setitem(sys.modules, "cxc_eccv.metrics.wrong", module)
    monkeypatch.setattr(discovery.pkgutil, "iter_modules", lambda _: [types.SimpleNamespace(name="wrong")])
    with pytest.raises(ImportError, match="its SPEC is named 'mrr', not like its file"):
        discovery.find_declared(sys.modules["cxc_eccv.metrics"], "SPEC", Spec)
    with pytest.raises(ImportError, match="its SPEC is a RankMetric, not a Task"):
        discovery.find_declared(sys.modules["cxc_eccv.metrics"], "SPEC", Task)


def test_file_may_declare_several_of_unlike_names(monkeypatch):
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
