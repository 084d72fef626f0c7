"""From a run and tasks to a report: four stages, called one after the other.

:func:`~cxc_eccv.evaluation.calls.evaluate` reads from top to bottom as the walk does::

    run, "cxc", metrics, split
      | select    tasks() and metrics() of the registry -> Part: one direction of one task, its Plan, its Needs
      | measure   errors, all at once: items the run lacks, items nobody knows, rankings that end too early;
      |           then one pass of ranking.ranks_of_run: every Need learns what its metrics are computed from
      | score     Need.score: values of queries -> their mean or median; intervals: images drawn again and again
      | report    numbers over a whole task, reasons, provenance -> Report
    report.json

What "all" tasks cannot give is skipped with the reason; what was named and cannot be given is an error. An error of one
metric is kept beside its need (``Need.errors``). :mod:`~cxc_eccv.evaluation.labels` puts what some sources of labels
say in the place of a task's positives; :mod:`~cxc_eccv.evaluation.bounds` adds its readers to the pass, and asks the
needs once they are finished. Nothing else of an evaluation knows of either.
"""

from cxc_eccv.evaluation.calls import check_request, evaluate, evaluate_rankings, report_of_ranks
from cxc_eccv.evaluation.report_files import report_from_json, report_to_json

__all__ = ["check_request", "evaluate", "evaluate_rankings", "report_from_json", "report_of_ranks", "report_to_json"]
