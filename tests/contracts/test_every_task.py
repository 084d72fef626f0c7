"""What holds for every task of the registry."""

import importlib
import re
from importlib.util import find_spec

import numpy as np
import pytest

from cxc_eccv import registry
from cxc_eccv.builders.dataset_config import dataset_configs
from cxc_eccv.errors import DataError
from cxc_eccv.judgments.plausible import CategoryMatches
from cxc_eccv.metrics.kinds import WholeMetric
from cxc_eccv.sources.catalog import load_catalog
from cxc_eccv.tasks.task import NotApplicable
from cxc_eccv.types import Judgments, RatedPairs

TASKS = registry.tasks()
TYPES = {"matches": CategoryMatches, "rated": RatedPairs}


def declared_tasks(name):
    """What the file of a task declares: it has the task's name, or that of its family."""
    if find_spec(f"cxc_eccv.tasks.{name}"):
        return (importlib.import_module(f"cxc_eccv.tasks.{name}").TASK,)
    families = [name.rpartition("_")[0], name.partition("_")[0]]
    family = next(family for family in families if find_spec(f"cxc_eccv.tasks.{family}"))
    return importlib.import_module(f"cxc_eccv.tasks.{family}").TASKS


@pytest.mark.parametrize("name", TASKS)
def test_task_is_declared_in_its_own_file(name):
    assert TASKS[name] in declared_tasks(name)


@pytest.mark.parametrize("name", TASKS)
def test_task_reports_its_main_metric(name):
    variants = [registry.metric_variants(metric) for metric in TASKS[name].metrics]
    assert TASKS[name].main_metric in {spec.label(**each) for spec, every in variants for each in every}


@pytest.mark.parametrize("name", TASKS)
def test_a_part_has_what_each_metric_reads(name):
    specs = [registry.metric_variants(metric)[0] for metric in TASKS[name].metrics]
    for spec in specs:
        assert TASKS[name].parts_with(spec.of.reads if isinstance(spec, WholeMetric) else spec.reads), spec.name
    kinds = [isinstance(spec, WholeMetric) for spec in specs]
    assert kinds == sorted(kinds)  # those of the whole task are the last


@pytest.mark.parametrize("name", TASKS)
def test_judgments_have_the_declared_type_and_gains(name, sample_library):
    task = TASKS[name]
    for part in task.parts:
        for reads in part.offers:
            try:
                judged = task.read(reads, sample_library.split("test", task.collection), part.name)
            except (DataError, NotApplicable):
                continue  # the sample lacks raw files, and images for COCO 1K
            assert isinstance(judged, TYPES.get(reads, Judgments))
            if isinstance(judged, Judgments):
                gains = np.empty(0) if judged.gains is None else judged.gains
                assert (judged.gains is None) == (reads == "ranks")
                assert reads != "labels" or np.isin(gains, [0, 1]).all()
                assert reads != "degrees" or ((gains >= 0) & (gains <= 1)).all()


@pytest.mark.parametrize("name", TASKS)
def test_task_names_raw_files_and_configs_that_exist(name):
    task = TASKS[name]
    assert set(task.sources) <= set(load_catalog().groups)
    configs = {task.config, *(part.name for part in task.parts_with("rated"))} if task.config else set()
    assert configs <= set(dataset_configs())
    in_dataset = task.collection.is_default and not task.of_label_files
    assert in_dataset or not task.config


def test_no_two_tasks_share_a_title():
    titles = [task.title for task in TASKS.values()]
    assert len(set(titles)) == len(titles)
    assert all(title[0].isupper() for title in titles)


@pytest.mark.parametrize("name", [name for name in TASKS if name != "coco_1k"])
def test_description_names_no_size_of_the_data(name):
    """It also stands on pages about the sample. COCO 1K's folds are its protocol: other sizes have no folds."""
    assert not re.search(r"\d,\d{3}", TASKS[name].description)
