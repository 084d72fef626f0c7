"""A checked report to a leaderboard entry."""

from cxc_eccv.hub.submit.report_checks import checked_report
from cxc_eccv.hub.submit.submission import SubmitOptions, plan_submission

__all__ = ["SubmitOptions", "checked_report", "plan_submission"]
