"""``eval.yaml``: what makes a dataset repository a benchmark with a leaderboard."""

from __future__ import annotations

from collections.abc import Collection

import yaml

from cxc_eccv.errors import HubError
from cxc_eccv.hub.leaderboard import SPLIT, leaderboard_tasks

__all__ = ["FRAMEWORK", "PATH", "eval_yaml", "task_ids_of"]

PATH = "eval.yaml"

FRAMEWORK = "cxc_eccv"
"""The Hub validates this name against a list of its own, to which a pull request adds it."""

NAME = "CxC and ECCV Caption"
DESCRIPTION = (
    "Image-caption retrieval on MS-COCO with the labels that correct its false negatives: Crisscrossed Captions, ECCV "
    "Caption, plausible match and the original links. Scores come from `cxc-eccv evaluate` and are submitted with "
    "`cxc-eccv submit`; higher is better everywhere. Recall, precision and correlation are fractions, RSUM is in "
    "percent."
)


def eval_yaml(configs: Collection[str] | None = None, framework: str = FRAMEWORK) -> str:
    """The text of ``eval.yaml``: one task for each task, direction and metric of :func:`leaderboard_tasks`.

    Args:
        configs: configs in the repository; tasks of others are left out. None for all.
        framework: name that the Hub knows the evaluation by.

    Example:
        >>> print(eval_yaml(["eccv_caption"]).splitlines()[-3])
        - id: eccv_caption_t2i_recall_at_10
    """
    tasks = [
        {"id": one.task_id, "config": one.config, "split": SPLIT}
        for one in leaderboard_tasks().values()
        if configs is None or one.config in configs
    ]
    content = {"name": NAME, "description": DESCRIPTION, "evaluation_framework": framework, "tasks": tasks}
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def task_ids_of(text: str, where: str) -> frozenset[str]:
    """Ids of the tasks that an ``eval.yaml`` declares.

    Args:
        text: its content.
        where: which file, for the message.

    Raises:
        HubError: it does not have the form of an ``eval.yaml``.

    Example:
        >>> sorted(task_ids_of("tasks: [{id: b}, {id: a}]", "eval.yaml"))
        ['a', 'b']
    """
    try:
        return frozenset(str(task["id"]) for task in yaml.safe_load(text)["tasks"])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise HubError(f"{where} does not declare tasks: {type(error).__name__}: {error}") from None
