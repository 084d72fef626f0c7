"""Evaluates a run on tasks and makes a report, in six stages.

:func:`~cxc_eccv.evaluation.calls.evaluate` calls them one after the other::

    "cxc", metrics, split, ...
      | request   every option, checked -> Request
      | plan      tasks() and metrics() of the registry -> Plan: its parts, one direction of one task, each with a
      |           MetricInput for every kind of its metrics
      | measure   all errors at once: items that the run lacks, unknown items; then one pass of
      |           ranking.ranked(run) for the PassRequest of every MetricInput -> PassResult
      | score     a judge labels unjudged pairs; PassResult.compute_values: values of queries -> their mean or median,
      |           with bounds and intervals by bootstrap over images; numbers over a whole task
      | doubts    what makes the numbers suspect
      | report    make_report: reasons, provenance -> Report; examples: what the run retrieves for chosen queries
    report.json

With "all" tasks, those that cannot be computed are skipped with the reason; for a named task this is an error. The
error of one metric is kept in ``PassResult.errors``. :mod:`~cxc_eccv.evaluation.relabelling` replaces the positives of
tasks by those of other sources; :mod:`~cxc_eccv.evaluation.bounds` computes how far labels of unjudged pairs could
move a number, and :mod:`~cxc_eccv.evaluation.answers` estimates it from people's answers.
"""

from cxc_eccv.evaluation.calls import evaluate, evaluate_request, report_of_ranks
from cxc_eccv.evaluation.doubts import warn_of_doubts
from cxc_eccv.evaluation.plan import make_plan
from cxc_eccv.evaluation.request import Fields, Request

__all__ = [
    "Fields",
    "Request",
    "evaluate",
    "evaluate_request",
    "make_plan",
    "report_of_ranks",
    "warn_of_doubts",
]
