"""From a run and tasks to a report."""

from cxc_eccv.evaluation.calls import evaluate, evaluate_rankings, report_of_ranks
from cxc_eccv.evaluation.report_files import report_from_json, report_to_json

__all__ = ["evaluate", "evaluate_rankings", "report_from_json", "report_of_ranks", "report_to_json"]
