"""A checked report to a leaderboard entry."""

from cxc_eccv.hub.submit.plan import SubmitOptions, planned_submission

__all__ = ["SubmitOptions", "planned_submission"]
