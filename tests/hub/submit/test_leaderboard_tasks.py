"""The leaderboard's tasks follow from the registry."""

import pytest
import yaml

from cxc_eccv.builders.dataset_config import dataset_configs
from cxc_eccv.errors import HubError, UnknownName
from cxc_eccv.hub.leaderboard import eval_yaml, leaderboard_tasks, read_task_ids, select_tasks
from cxc_eccv.metrics.kinds import WholeMetric
from cxc_eccv.registry import metric_labelled, metric_variants, tasks

ON_BOARD = {name: task for name, task in tasks().items() if task.config}


def test_every_task_with_labels_is_on_the_board():
    assert {key.partition("/")[0] for key in leaderboard_tasks()} == set(ON_BOARD)


@pytest.mark.parametrize("name", ON_BOARD)
def test_board_has_every_metric_of_a_task(name):
    task = tasks()[name]
    found = {key: entry for key, entry in leaderboard_tasks().items() if key.startswith(f"{name}/")}
    whole = [metric for metric in task.metrics if isinstance(metric_variants(metric)[0], WholeMetric)]
    expected = {f"{name}/{metric}" for metric in whole}
    for metric in task.metrics:
        spec, variants = metric_variants(metric)
        for part in task.parts_with(spec.reads):
            if spec.higher_is_better:
                expected |= {f"{name}/{part.name}/{spec.label(**chosen)}" for chosen in variants}
    assert set(found) == expected
    assert any(key.endswith(task.main_metric) for key in found)
    main = [key.split("/")[1:] for key, entry in found.items() if entry.main]
    if task.main_metric in whole:
        assert main == [[task.main_metric]]
    else:
        assert [part for part, _ in main] == list(task.part_names)


def test_board_has_no_metrics_of_ranks():
    """A lower median rank is better, and eval.yaml can declare no such metric."""
    assert any("median_rank" in tasks()[name].metrics for name in tasks())
    assert all(metric_labelled(key.rpartition("/")[2])[0].higher_is_better for key in leaderboard_tasks())
    assert "higher is better everywhere" in yaml.safe_load(eval_yaml(["sts"]))["description"]


RELIED_ON = {
    "eccv_caption_i2t_map_at_r": "eccv_caption",
    "eccv_caption_t2i_r_precision": "eccv_caption",
    "coco_1k_rsum": "captions",
    "coco_5k_t2i_recall_at_10": "captions",
    "cxc_t2t_recall_at_1": "retrieval",
    "cxc_sts_bootstrap_spearman": "sts",
    "cxc_rated_i2t_recall_at_5": "sits",
    "plausible_match_i2t_pmrp": "plausible_match",
}


def test_task_ids_are_unique_and_have_test_configs():
    configs = {task.task_id: task.config for task in leaderboard_tasks().values()}
    assert len(configs) == len(leaderboard_tasks())
    assert all("test" in dataset_configs()[config].splits for config in configs.values())
    assert configs.items() >= RELIED_ON.items()


@pytest.mark.parametrize("text", ["", "tasks: 3", "[", "tasks: [{config: a}]"])
def test_another_eval_yaml_is_refused(text):
    assert read_task_ids(eval_yaml(["sts"]), "eval.yaml") == {"cxc_sts_bootstrap_spearman"}  # of one config alone
    with pytest.raises(HubError, match=r"eval\.yaml does not declare tasks"):
        read_task_ids(text, "eval.yaml")


MAIN = """
eccv_caption_i2t_map_at_r eccv_caption_t2i_map_at_r
cxc_i2t_recall_at_1 cxc_t2i_recall_at_1 cxc_t2t_recall_at_1 cxc_i2i_recall_at_1
cxc_sts_bootstrap_spearman cxc_sis_bootstrap_spearman cxc_sits_bootstrap_spearman
coco_5k_i2t_recall_at_1 coco_5k_t2i_recall_at_1 coco_1k_rsum
plausible_match_i2t_pmrp plausible_match_t2i_pmrp entailment_i2t_entail_at_1
cxc_rated_i2t_recall_at_1 cxc_rated_t2i_recall_at_1 co_captions_t2t_recall_at_1
"""


def test_board_declares_only_main_metrics_by_default():
    declared = yaml.safe_load(eval_yaml(dataset_configs()))["tasks"]
    assert [task["id"] for task in declared] == MAIN.split()
    every = [task.task_id for task in leaderboard_tasks().values()]
    assert every[: len(declared)] == MAIN.split()
    assert len(every) > 3 * len(declared)
    assert {task["split"] for task in declared} == {"test"}


@pytest.mark.parametrize("name", ["cxc", "cxc/i2t", "cxc/i2t/recall_at_1", "cxc_i2t_recall_at_1"])
def test_a_name_selects_what_lies_below_it(name):
    found = {task.key for task in select_tasks([name])[name]}
    assert "cxc/i2t/recall_at_1" in found
    assert all(key.startswith("cxc/") for key in found)  # cxc_rated is another task


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(UnknownName, match=r"did you mean 'coco_5k'\? Known: co_captions, coco_1k, coco_5k"):
        select_tasks(["coco_5"])
    with pytest.raises(UnknownName, match="did you mean 'coco_5k/rsum'"):
        select_tasks(["coco_5k/rsums"])
