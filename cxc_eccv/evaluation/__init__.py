"""From a run and tasks to a report."""

from cxc_eccv.evaluation.evaluate import evaluate
from cxc_eccv.evaluation.report_json import report_from_json, report_to_json
from cxc_eccv.evaluation.report_of_ranks import report_of_ranks

__all__ = ["evaluate", "report_from_json", "report_of_ranks", "report_to_json"]
