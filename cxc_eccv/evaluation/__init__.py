"""From a run and tasks to a report."""

from cxc_eccv.evaluation.from_dicts import evaluate_rankings
from cxc_eccv.evaluation.from_ranks import report_of_ranks
from cxc_eccv.evaluation.from_run import evaluate
from cxc_eccv.evaluation.report_json import report_from_json, report_to_json

__all__ = ["evaluate", "evaluate_rankings", "report_from_json", "report_of_ranks", "report_to_json"]
