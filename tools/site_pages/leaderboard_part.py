"""The table of leaderboard tasks in ``docs/leaderboard.md``."""

from __future__ import annotations

from cxc_eccv.builders.markdown import table
from cxc_eccv.hub.leaderboard import leaderboard_tasks

__all__ = ["leaderboard_table"]


def leaderboard_table() -> str:
    """A row for every task of the leaderboard."""
    rows = [
        (f"`{one.task_id}`", f"`{one.key}`", f"`{one.config}`", "yes" if one.main else "")
        for one in leaderboard_tasks().values()
    ]
    return table(["task id", "key in report.json", "config with the labels", "declared by default"], rows)
